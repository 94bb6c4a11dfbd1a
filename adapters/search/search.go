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
	// Categories returns those of a tool, the primary one first; nil: there are none.
	Categories func(server, name string) []string
	// Meaning makes searches go by meaning as well; nil: they go by words only.
	Meaning *Meaning
}

// Engine searches the tools in a catalogue. It costs nothing until it is started, or asked for the first time. It is safe for concurrent use.
type Engine struct {
	opt   Options
	index *lexical.Index
	own   owned

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
	sums map[string][sha256.Size]byte
}

// texts returns the texts of all tools in the catalogue, for their vectors.
func (e *Engine) texts() map[place]doc {
	all := map[place]doc{}
	for _, s := range e.opt.Catalogue.Snapshot().Servers {
		l := s.Lists[catalogue.Tools]
		if l == nil {
			continue
		}
		for i := range l.Items {
			item := &l.Items[i]
			parsed := lexical.Parse(s.Name, item.Key, item.Raw)
			text := parsed.Text()
			all[place{s.Name, item.Key}] = doc{text, sha256.Sum256([]byte(text))}
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
	e := &Engine{opt: opt, index: lexical.New(), behind: make(chan struct{}), servers: map[string]*indexed{}}
	if opt.Meaning != nil {
		e.means = newMeaning(*opt.Meaning, e.texts, opt.Categories)
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
	for {
		snap := e.opt.Catalogue.Snapshot()
		for _, s := range snap.Servers {
			e.update(s)
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
		select {
		case <-e.opt.Catalogue.Changed(snap.Version):
		case <-ctx.Done():
			return
		}
	}
}

// update puts what has changed of a server into the index. Only follow calls it.
func (e *Engine) update(s *catalogue.Server) {
	before := e.servers[s.Name]
	now := &indexed{list: s.Lists[catalogue.Tools], text: textOf(s)}
	if before != nil && before.list == now.list && before.text == now.text {
		return
	}
	if before == nil {
		before = &indexed{}
	}
	now.sums = e.refresh(s.Name, s, before.sums, before.text == now.text)
	e.servers[s.Name] = now
}

// refresh makes the index have the tools of a server under a name, and returns the sums of their definitions. Those with the sums that they
// had before are left alone, unless what is said of the server has changed.
func (e *Engine) refresh(as string, s *catalogue.Server, before map[string][sha256.Size]byte, same bool) map[string][sha256.Size]byte {
	list, text := s.Lists[catalogue.Tools], textOf(s)
	var docs []lexical.Document
	sums := map[string][sha256.Size]byte{}
	if list != nil {
		for i := range list.Items {
			item := &list.Items[i]
			sums[item.Key] = item.Sum
			if sum, known := before[item.Key]; known && same && sum == item.Sum {
				continue
			}
			doc := lexical.Parse(as, item.Key, item.Raw)
			doc.ServerText = text
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
			if !errors.Is(err, errNotYet) {
				e.means.tell(err)
				e.means.changed() // which tries again, and tells when it works
			}
		}
		return e.index.Search(q.Text, q.Limit, may)
	}
	return Fuse(e.index.Search(q.Text, max(leastNear, 4*q.Limit), may), near, q.Limit)
}

// in reports whether a tool is of a category.
func (e *Engine) in(category, server, name string) bool {
	return e.opt.Categories != nil && slices.Contains(e.opt.Categories(server, name), category)
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
	hit := metatools.Hit{Server: server, Name: f.Name, Score: f.Score, Why: f.Fields}
	if e.opt.Categories != nil {
		hit.Categories = e.opt.Categories(server, f.Name)
	}
	return hit
}
