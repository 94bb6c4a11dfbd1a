package classification

import (
	"cmp"
	"context"
	"crypto/sha256"
	"slices"
	"strings"
	"sync"
	"time"

	"dragoman/adapters/catalogue"
)

// Times and sizes of an Engine (seed 004, BR-004, EC-006, EC-009).
const (
	BatchSize  = 10              // tools of one call of a Classifier
	AtOnce     = 5               // calls of a Classifier at a time
	MostTime   = time.Minute     // of one call
	lease      = 2 * time.Minute // that an instance has for a batch
	retryLeast = 5 * time.Second
	retryMost  = 10 * time.Minute // between two attempts after failures
	lookAgain  = 3 * time.Second  // for what another instance classifies, and for a store that could not be reached
	lookSeldom = time.Minute      // for what is said at other instances
	tellAfter  = 10 * time.Second // of batches that change categories
	never      = 365 * 24 * time.Hour
)

// Options configure an Engine.
type Options struct {
	Catalogue *catalogue.Catalogue
	Store     Store
	// Categories are those of the configuration. Persons change them while the Engine runs.
	Categories []Category
	// Classifiers returns what sorts tools into categories, and what does so where the first one fails, until that does it; nil: such tools
	// stay unclassified.
	Classifiers func([]Category) (first, fallback Classifier)
	// Instance tells apart Dragomans that share the store; empty: it is not shared.
	Instance string
	// Note is told when something begins to fail, with the error, and when it works again, with nil; nil: nobody is.
	Note func(what string, err error)
	// Changed is called, by one goroutine, after categories of tools have changed; nil: nobody is told.
	Changed func()
}

// Store keeps what was found out, and which categories persons have changed.
type Store interface {
	catalogue.Classifications
	catalogue.Categories
}

// Engine classifies the tools in a catalogue, beside everything else: nothing waits for it (seed 004, BR-004). It is safe for concurrent use.
type Engine struct {
	opt Options

	once  sync.Once // of Start
	stop  context.CancelFunc
	ended chan struct{} // closed at the end of run; nil: it was not started
	wake  chan struct{} // holds one: there is something to do

	counts counts

	changing sync.Mutex // held while a person changes categories

	mu      sync.Mutex
	is      *set                          // the present categories
	edited  map[string]catalogue.Category // by name
	said    int                           // how often persons have said something here
	tools   map[catalogue.ToolKey]*tool
	ids     map[string]string                              // of servers, by name
	stored  map[catalogue.ToolKey]catalogue.Classification // as it was read or written last
	loaded  bool                                           // stored was read
	look    time.Time                                      // when the store is read again
	queue   []*tool                                        // to be classified now, by server and name
	next    time.Time                                      // when queue is made anew, since more may be
	closed  bool
	changed bool            // categories, since Changed was called
	since   time.Time       // when that was seen; zero: it was not
	running int             // batches
	away    away            // the classifier
	again   time.Time       // when Reclassify was last called
	failing map[string]bool // what Note was told of
}

// away says how long a classifier is left alone.
type away struct {
	failures int // in a row
	until    time.Time
}

// tool is a tool in the catalogue.
type tool struct {
	key    catalogue.ToolKey
	server string // its name
	text   string // what is said of the server
	raw    []byte
	sum    [sha256.Size]byte // of the definition
	want   [sha256.Size]byte // of everything that a classification depends on
	stand  [sha256.Size]byte // alike, with the fallback
	due    time.Time         // when it may be classified; zero: at once
	busy   bool              // it is in a batch
}

// New returns the Engine of a catalogue, which the caller must close. It does nothing until it is started.
func New(opt Options) *Engine {
	e := &Engine{opt: opt, wake: make(chan struct{}, 1), tools: map[catalogue.ToolKey]*tool{}, ids: map[string]string{},
		stored: map[catalogue.ToolKey]catalogue.Classification{}, failing: map[string]bool{}}
	e.is = newSet(&e.opt, nil)
	if e.opt.Note == nil {
		e.opt.Note = func(string, error) {}
	}
	if e.opt.Changed == nil {
		e.opt.Changed = func() {}
	}
	return e
}

// Start begins to classify.
func (e *Engine) Start() {
	e.once.Do(func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.closed {
			return
		}
		var ctx context.Context
		ctx, e.stop = context.WithCancel(context.Background())
		e.ended = make(chan struct{})
		go e.run(ctx)
	})
}

// Close ends what the Engine does. Tools that it was classifying are classified after the next start.
func (e *Engine) Close() {
	e.mu.Lock()
	e.closed = true
	ended := e.ended
	e.mu.Unlock()
	if ended != nil {
		e.stop()
		<-ended
	}
}

// run follows the catalogue and begins batches until ctx ends. It is owned by the Engine.
func (e *Engine) run(ctx context.Context) {
	defer close(e.ended)
	var batches sync.WaitGroup
	defer batches.Wait()
	var last *catalogue.Snapshot
	for ctx.Err() == nil {
		e.load(ctx)
		snap := e.opt.Catalogue.Snapshot()
		if last == nil || last.Version != snap.Version {
			e.follow(ctx, snap)
			last = snap
		}
		wait := e.begin(ctx, &batches)
		if e.hasChanged() {
			e.opt.Changed()
		}
		timer := time.NewTimer(wait)
		select {
		case <-e.opt.Catalogue.Changed(snap.Version):
		case <-e.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// signal has run look for something to do.
func (e *Engine) signal() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// hasChanged reports whether somebody is to be told that categories have changed: once no batch runs, since many change one after the other, or
// when they have waited for long.
func (e *Engine) hasChanged() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	switch {
	case !e.changed:
		return false
	case e.since.IsZero():
		e.since = now
	}
	if e.running > 0 && now.Sub(e.since) < tellAfter {
		return false
	}
	e.changed, e.since = false, time.Time{}
	return true
}

// load reads the store, if it is time for that.
func (e *Engine) load(ctx context.Context) {
	e.mu.Lock()
	wait, said := time.Now().Before(e.look), e.said
	e.mu.Unlock()
	if wait {
		return
	}
	all, err := e.opt.Store.Classifications(ctx)
	var edited []catalogue.Category
	if err == nil {
		edited, err = e.opt.Store.Categories(ctx)
	}
	e.note(ctx, "the store of categories", err)
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	e.look = now.Add(never)
	switch {
	case err != nil:
		e.look = now.Add(lookAgain)
		return
	case e.said != said: // what was read may be older
		e.look = now
		return
	case e.opt.Instance != "":
		e.look = now.Add(lookSeldom)
	}
	read := make(map[catalogue.ToolKey]catalogue.Classification, len(all))
	for _, one := range all {
		read[one.ToolKey] = one
	}
	for key, t := range e.tools {
		if had := e.stored[key]; t.busy {
			read[key] = had // what its batch finds is newer
		} else if !slices.Equal(had.Skills, read[key].Skills) {
			e.changed = true
		}
	}
	if !e.loaded && len(read) > 0 {
		e.changed = true
	}
	e.stored, e.loaded, e.next = read, true, time.Time{}
	e.edit(edited)
}

// note tells of what fails once, and once it works again.
func (e *Engine) note(ctx context.Context, what string, err error) {
	if ctx.Err() != nil {
		return
	}
	e.mu.Lock()
	differs := e.failing[what] != (err != nil)
	e.failing[what] = err != nil
	e.mu.Unlock()
	if differs {
		e.opt.Note(what, err)
	}
}

// follow makes the tools those of a version of the catalogue. What a server lists no longer is forgotten, unless a person has classified it.
func (e *Engine) follow(ctx context.Context, snap *catalogue.Snapshot) {
	e.mu.Lock()
	e.next = time.Time{}
	seen, there, known := map[catalogue.ToolKey]bool{}, map[string]bool{}, map[string]bool{} // the latter by ID
	e.ids = make(map[string]string, len(snap.Servers))
	for _, s := range snap.Servers {
		e.ids[s.Name], known[s.ID] = s.ID, true
		l := s.Lists[catalogue.Tools]
		if l == nil {
			continue
		}
		there[s.ID] = s.Presence == catalogue.There
		for i := range l.Items {
			seen[e.put(s, &l.Items[i])] = true
		}
	}
	var gone []catalogue.Classification
	for key := range e.tools {
		if seen[key] {
			continue
		}
		delete(e.tools, key)
		if (there[key.Server] || !known[key.Server]) && !e.stored[key].Person {
			delete(e.stored, key)
			gone = append(gone, catalogue.Classification{ToolKey: key})
		}
	}
	e.mu.Unlock()
	if len(gone) > 0 {
		e.note(ctx, "the store of categories", e.opt.Store.PutClassifications(ctx, gone))
	}
}

// put adds a tool, or changes it, and returns its key. The caller holds mu.
func (e *Engine) put(s *catalogue.Server, item *catalogue.Item) catalogue.ToolKey {
	key := catalogue.ToolKey{Server: s.ID, Tool: item.Key}
	t := e.tools[key]
	if t == nil {
		t = &tool{key: key}
		e.tools[key] = t
	}
	if t.raw == nil || t.sum != item.Sum {
		t.sum = item.Sum
		e.is.judge(t)
	}
	t.server, t.raw = s.Name, item.Raw
	t.text = strings.ToValidUTF8(s.Instructions[:min(len(s.Instructions), maxServerText)], "")
	return key
}

// maxServerText bounds what is told of a server, in bytes.
const maxServerText = 500

// begin begins the batches that may run now, and returns when to look again.
func (e *Engine) begin(ctx context.Context, batches *sync.WaitGroup) (wait time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	if !e.loaded || len(e.is.categories) == 0 { // persons have removed those of another configuration: there may be none
		return e.look.Sub(now)
	}
	if !e.next.After(now) {
		e.enqueue(now)
	}
	atOnce := AtOnce
	if e.away.failures > 0 && !now.Before(e.away.until) {
		atOnce = 1 // finds out whether the classifier is back
	}
	for len(e.queue) > 0 && e.running < atOnce {
		n := e.batchSize(e.queue)
		batch := e.queue[:n:n]
		e.queue = e.queue[n:]
		for _, t := range batch {
			t.busy = true
		}
		e.running++
		batches.Go(func() { e.batch(ctx, batch) })
	}
	return min(e.look.Sub(now), e.next.Sub(now))
}

// enqueue makes the queue. It is called when something has changed, and not for each batch: there may be a hundred thousand tools. The caller
// holds mu.
func (e *Engine) enqueue(now time.Time) {
	e.queue, e.next = nil, now.Add(never)
	for _, t := range e.tools {
		wants, due := e.wants(t)
		switch {
		case !wants:
		case due.After(now):
			if due.Before(e.next) {
				e.next = due
			}
		default:
			e.queue = append(e.queue, t)
		}
	}
	slices.SortFunc(e.queue, func(a, b *tool) int {
		return cmp.Or(cmp.Compare(a.server, b.server), cmp.Compare(a.key.Tool, b.key.Tool))
	})
}

// batchSize returns how many of the first tools are a batch. One about which an answer was wrong goes alone, since it may be what spoils
// the answers about others. The caller holds mu.
func (e *Engine) batchSize(tools []*tool) int {
	for n := range min(len(tools), BatchSize) {
		if e.stored[tools[n].key].Failures > 0 {
			return max(n, 1)
		}
	}
	return min(len(tools), BatchSize)
}

// wants reports whether a tool is to be classified, and from when on. The caller holds mu.
func (e *Engine) wants(t *tool) (wants bool, due time.Time) {
	c, known := e.stored[t.key]
	if t.busy || known && (c.Person || c.State == catalogue.Classified && c.Hash == t.want) {
		return false, due
	}
	due = t.due
	stoodIn := c.State == catalogue.Classified && c.Hash == t.stand
	if (e.is.fallback == nil || stoodIn) && e.away.until.After(due) { // nothing can be done while the classifier is away
		due = e.away.until
	}
	return true, due
}
