// Package search finds tools of all servers by what they do. One index follows the catalogue: nothing is read twice, nor for each session.
package search

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/merge/metatools"
	"dragoman/adapters/search/lexical"
)

// Options configure an Engine.
type Options struct {
	Catalogue *catalogue.Catalogue
	// Categories returns those of a tool, the primary one first; nil: there are none. [Engine.CategoriesChanged] tells that it returns others.
	Categories func(server, name string) []string
	// Kinds returns all categories that there are; nil: none.
	Kinds func() []Kind
	// Meaning makes searches go by meaning as well; nil: they go by words only.
	Meaning *Meaning
}

// Engine searches the tools in a catalogue. It costs nothing until it is started, or asked for the first time. It is safe for concurrent use.
type Engine struct {
	opt   Options
	index *lexical.Index
	own   owned
	kinds kinds

	sorted chan struct{} // holds one: categories have changed
	sorts  atomic.Int64  // how often they were read

	read atomic.Int64 // definitions that were read

	means *meaning // nil: searches go by words only

	once  sync.Once // of start
	stop  context.CancelFunc
	ended chan struct{} // closed at the end of follow; nil: it was not started

	mu      sync.Mutex
	version uint64        // of the catalogue that is indexed; 0: none
	behind  chan struct{} // closed when another version is indexed
	servers map[string]*indexed
	closed  bool
}

// indexed is what the index has of one server.
type indexed struct {
	list *catalogue.List // nil: none
	text string          // what is said of the server
	sums map[string]known
}

// known is what the index has of a tool: with the same it is left alone.
type known struct {
	sum        [sha256.Size]byte // of its definition
	categories string            // in their order
}

// texts returns all tools in the catalogue with the sums of their texts, for their vectors. It takes those from before that are of the same
// definitions.
func (e *Engine) texts(before map[place]doc) map[place]doc {
	all := map[place]doc{}
	for _, s := range e.opt.Catalogue.Snapshot().Servers {
		l := s.Lists[catalogue.Tools]
		if l == nil {
			continue
		}
		for i := range l.Items {
			item := &l.Items[i]
			at := place{s.Name, item.Key}
			d := doc{item: item, categories: e.of(s.Name, item.Key)}
			if b, has := before[at]; has && b.item.Sum == item.Sum {
				d.sum = b.sum
			} else {
				d.sum = sha256.Sum256([]byte(d.text()))
			}
			all[at] = d
		}
	}
	return all
}

// State returns how much is searched by meaning.
func (e *Engine) State() State {
	m := e.means
	if m == nil {
		return State{}
	}
	return State{On: true, Works: !m.failing.Load(), Tools: int(m.tools.Load()), Searches: m.searches.Load(), Failed: m.failed.Load()}
}

// New returns the Engine of a catalogue, which the caller must close.
func New(opt Options) *Engine {
	e := &Engine{opt: opt, index: lexical.New(), kinds: kinds{of: opt.Kinds}, sorted: make(chan struct{}, 1), behind: make(chan struct{}), servers: map[string]*indexed{}}
	if opt.Meaning != nil {
		e.means = newMeaning(*opt.Meaning, e.texts, &e.kinds)
	}
	return e
}

// Start begins to follow the catalogue.
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
		go e.work(ctx)
	})
}

// Close ends what the Engine does.
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

// work does everything that is done behind searches until ctx ends. It is owned by the Engine.
func (e *Engine) work(ctx context.Context) {
	defer close(e.ended)
	var group sync.WaitGroup
	if e.means != nil {
		group.Go(func() { e.means.run(ctx) })
	}
	e.follow(ctx)
	group.Wait()
}

// follow indexes each version of the catalogue until ctx ends. It is owned by the Engine.
func (e *Engine) follow(ctx context.Context) {
	var settled <-chan time.Time // nil: no category has changed
	for sorted := true; ; {
		if sorted {
			e.kinds.read(e.index)
			e.sorts.Add(1)
		}
		snap := e.opt.Catalogue.Snapshot()
		for _, s := range snap.Servers {
			e.update(s, sorted)
		}
		e.forget(snap)
		e.mu.Lock()
		e.version = snap.Version
		close(e.behind)
		e.behind = make(chan struct{})
		e.mu.Unlock()
		if e.means != nil {
			e.means.changed()
		}
		if sorted = e.next(ctx, snap.Version, &settled); ctx.Err() != nil {
			return
		}
	}
}

// settle is how long changes of categories are gathered, each of which may be about any tool.
const settle = time.Second

// CategoriesChanged tells that [Options.Categories] or [Options.Kinds] return others than before. It returns at once; the index and the vectors
// follow within a second or two, however often it is called.
func (e *Engine) CategoriesChanged() {
	select {
	case e.sorted <- struct{}{}:
	default:
	}
}

// next waits until the catalogue has another version than the given one, or until changes of categories have settled, which it reports.
func (e *Engine) next(ctx context.Context, version uint64, settled *<-chan time.Time) (sorted bool) {
	for {
		select {
		case <-e.opt.Catalogue.Changed(version):
			return false
		case <-e.sorted:
			if *settled == nil {
				*settled = time.After(settle)
			}
		case <-*settled:
			*settled = nil
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// of returns the categories of a tool.
func (e *Engine) of(server, name string) []string {
	if e.opt.Categories == nil {
		return nil
	}
	return e.opt.Categories(server, name)
}

// update puts what has changed of a server into the index; sorted says that categories may have. Only follow calls it.
func (e *Engine) update(s *catalogue.Server, sorted bool) {
	before := e.servers[s.Name]
	now := &indexed{list: s.Lists[catalogue.Tools], text: textOf(s)}
	if !sorted && before != nil && before.list == now.list && before.text == now.text {
		return
	}
	if before == nil {
		before = &indexed{}
	}
	now.sums = e.refresh(s.Name, s, before.sums, before.text == now.text)
	e.servers[s.Name] = now
}

// refresh makes the index have the tools of a server under a name, and returns what it knows of them. Those of which it knew the same before
// are left alone, unless what is said of the server has changed.
func (e *Engine) refresh(as string, s *catalogue.Server, before map[string]known, same bool) map[string]known {
	list, text := s.Lists[catalogue.Tools], textOf(s)
	var docs []lexical.Document
	sums := map[string]known{}
	if list != nil {
		for i := range list.Items {
			item := &list.Items[i]
			categories := e.of(s.Name, item.Key)
			now := known{item.Sum, strings.Join(categories, " ")}
			sums[item.Key] = now
			if was, has := before[item.Key]; has && same && was == now {
				continue
			}
			doc := lexical.Parse(as, item.Key, item.Raw)
			doc.ServerText, doc.Categories = text, categories
			docs = append(docs, doc)
		}
	}
	var gone []string
	for name := range before {
		if _, stays := sums[name]; !stays {
			gone = append(gone, name)
		}
	}
	if len(gone) > 0 {
		e.index.Delete(as, gone...)
	}
	e.read.Add(int64(len(docs)))
	e.index.Put(docs...)
	return sums
}

// forget takes servers out that the catalogue no longer has. Only follow calls it.
func (e *Engine) forget(snap *catalogue.Snapshot) {
	for name := range e.servers {
		if snap.Server(name) == nil {
			e.index.Delete(name)
			delete(e.servers, name)
		}
	}
}

// maxServerText bounds what is indexed of a server's description of itself, in bytes.
const maxServerText = 2000

// textOf returns what is said of a server: its name, its title and its instructions.
func textOf(s *catalogue.Server) string {
	text := s.Name + "\n" + titleOf(s.Info) + "\n" + s.Instructions
	return strings.ToValidUTF8(text[:min(len(text), maxServerText)], "")
}

// patience is how long a search waits for changes of the catalogue that are not indexed yet, and firstPatience for the first index, without
// which it would find nothing: a hundred thousand tools take some seconds.
const (
	patience      = 250 * time.Millisecond
	firstPatience = 10 * time.Second
)

// catchUp waits until the present state of the catalogue is indexed, for a time.
func (e *Engine) catchUp(ctx context.Context) {
	want, wait := e.opt.Catalogue.Snapshot().Version, patience
	e.mu.Lock()
	if e.version == 0 && !e.closed {
		wait = firstPatience
	}
	e.mu.Unlock()
	late := time.NewTimer(wait)
	defer late.Stop()
	for {
		e.mu.Lock()
		version, behind := e.version, e.behind
		e.mu.Unlock()
		if version >= want {
			return
		}
		select {
		case <-behind:
		case <-late.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// Find implements metatools.Finder.
func (e *Engine) Find(ctx context.Context, q metatools.Query, allowed func(server, name string) bool) []metatools.Hit {
	e.Start()
	e.catchUp(ctx)
	own := e.scope(q.Own)
	may := func(as, name string) bool {
		server, ok := own.server(as)
		return ok && (q.Server == "" || q.Server == server) && (q.Category == "" || e.in(q.Category, server, name)) && allowed(server, name)
	}
	if q.Text == "" {
		return e.browse(q, allowed)
	}
	found := e.found(ctx, q, may)
	hits := make([]metatools.Hit, len(found))
	for i, f := range found {
		server, _ := own.server(f.Server)
		hits[i] = e.hit(server, f)
	}
	return hits
}

// found searches by words and, if there are vectors, by meaning. It goes by words alone if the model or the store fails.
func (e *Engine) found(ctx context.Context, q metatools.Query, may func(as, name string) bool) []lexical.Hit {
	if e.means == nil {
		return e.index.Search(q.Text, q.Limit, may)
	}
	e.means.searches.Add(1)
	near, err := e.means.near(ctx, q, serversOf(e.opt.Catalogue.Snapshot(), &q), may)
	if err != nil {
		if ctx.Err() == nil {
			e.means.failed.Add(1)
		}
		e.broke(ctx, err)
		return e.index.Search(q.Text, q.Limit, may)
	}
	return Fuse(e.index.Search(q.Text, max(leastNear, 4*q.Limit), may), near, q.Limit)
}

// broke tells of a failure of the model or of the store in a search.
func (e *Engine) broke(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil && !errors.Is(err, errNotYet) {
		e.means.tell(err)
		e.means.changed() // which tries again, and tells when it works
	}
}

// in reports whether a tool is of a category.
func (e *Engine) in(category, server, name string) bool {
	return slices.Contains(e.of(server, name), category)
}

// browse returns tools by server and name: what a caller sees that names a server or a category and no words.
func (e *Engine) browse(q metatools.Query, allowed func(server, name string) bool) (hits []metatools.Hit) {
	snap := e.opt.Catalogue.Snapshot()
	for _, s := range snap.Instead(q.Own).Servers {
		l := s.Lists[catalogue.Tools]
		if l == nil || q.Server != "" && q.Server != s.Name {
			continue
		}
		items := slices.SortedFunc(slices.Values(l.Items), func(a, b catalogue.Item) int { return cmp.Compare(a.Key, b.Key) })
		for i := range items {
			if name := items[i].Key; len(hits) < q.Limit && (q.Category == "" || e.in(q.Category, s.Name, name)) && allowed(s.Name, name) {
				hits = append(hits, e.hit(s.Name, lexical.Hit{Name: name}))
			}
		}
	}
	return hits
}

// hit returns what was found of a server.
func (e *Engine) hit(server string, f lexical.Hit) metatools.Hit {
	return metatools.Hit{Server: server, Name: f.Name, Score: f.Score, Why: f.Fields, Categories: e.of(server, f.Name)}
}
