package lists

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/era/work"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Bounds of seed 004, BR-002, BR-003 and EC-001.
const (
	firstTime  = 5 * time.Second  // how long a client waits for servers that nothing is known of
	readWait   = 5 * time.Second  // of AwaitRead
	openTime   = 30 * time.Second // of opening a session
	fetchTime  = 10 * time.Second // of reading one list
	emptyAgain = 5 * time.Second  // until an empty list after a full one is believed
	graceTime  = 5 * time.Minute  // until the part of a server that is away is left out
	pollTime   = 5 * time.Minute
	spreadEach = 10 * time.Millisecond // over which first attempts are spread, for each server
	spreadMost = 2 * time.Second
	pauseFirst = time.Second
	pauseSoon  = 8 * time.Second // the longest pause but for the last
	pauseLate  = time.Minute
)

// Server is one of the servers of a Refresher.
type Server struct {
	Name      string
	ID        string // of its registration; empty: it has none
	Transport string // STDIO, SSE, HTTP or GRPC
	// Origin tells apart the servers that have a name one after the other: the lists of another one are not shown.
	Origin []byte
	// Instance is another number when the server was configured anew. It is then asked anew.
	Instance uint64
	// Left means that nothing is sent to the server, and that its lists are not shown.
	Left bool
	// Sleeps means that the server is a process that ends when it is idle. It is not woken to be asked whether its lists have changed.
	Sleeps bool
	// Do serves an exchange of Dragoman's own at the server, which no rule for callers judges.
	Do proxy.Handler
	// Modern finds out whether the server is modern.
	Modern func(ctx context.Context) (bool, error)
	// Contextual reports whether requests of a caller carry something of the caller there, such as forwarded headers. The server's lists for
	// such a caller belong to it alone. Nil: no request does.
	Contextual func(proxy.Caller) bool
	// Read is called after lists were read, before anybody who waits for them goes on; nil: nothing is.
	Read func(ctx context.Context)
	// Quiet means that nobody is warned of definitions that change.
	Quiet bool
	// Dual finds out whether a modern server shows legacy clients another side of it, in sessions of theirs; nil: it does not.
	Dual func(ctx context.Context) (bool, error)
}

// Options configure a Refresher.
type Options struct {
	Catalogue *catalogue.Catalogue
	Info      []byte        // clientInfo of Dragoman, a JSON object
	NewID     func() string // makes unguessable ids of sessions
	// EmptyAgain is how long an empty list after a full one is not believed; 0: 5 s.
	EmptyAgain time.Duration
	// Poll is how often a list is read of which the server does not say when it changes; 0: 5 minutes.
	Poll time.Duration
	// Grace is how long the lists of a server that is away are shown; 0: 5 minutes. See SetGrace.
	Grace time.Duration
	Note  func(level, server, msg string, err error) // receives what an operator should know; nil: nobody
	// Changed is called when a server's list has changed that was known before; nil: it is not called. It must not wait.
	Changed func(Change)
}

// Change is how a list of a server has changed.
type Change struct {
	Server string
	Kind   catalogue.Kind
	// Added, Changed and Removed are keys of things: names, or URIs. Changed are those whose definitions differ in what a model sees.
	Added, Changed, Removed []string
}

// Refresher keeps the catalogue of several servers: it has a session of Dragoman's own at each, reads their lists, and reads them again when a
// server says that they have changed, or is back. It is safe for concurrent use.
type Refresher struct {
	opt   Options
	kept  atomic.Int64 // time.Duration, see SetGrace
	first atomic.Int64 // time.Duration, see SetFirstWait
	work  *work.Group

	mu      sync.Mutex
	readers map[string]*reader // by server
	untried atomic.Int64       // readers that have not asked their server yet

	apart       atomic.Pointer[map[string]*reader] // those whose servers do not show all clients the same; nil: none is
	maxOwnBytes int
	ownMu       sync.Mutex
	ownWaiting  chan struct{} // see OwnChanged; nil: nobody waits
	sidesMu     sync.Mutex    // taken before mu
	unsided     atomic.Int64  // readers that are unsided
}

// New returns a Refresher without servers. The caller must close it.
func New(opt Options) *Refresher {
	opt.EmptyAgain, opt.Poll = cmp.Or(opt.EmptyAgain, emptyAgain), cmp.Or(opt.Poll, pollTime)
	if opt.Note == nil {
		opt.Note = func(string, string, string, error) {}
	}
	r := &Refresher{opt: opt, work: work.New(nil), readers: map[string]*reader{}, maxOwnBytes: maxOwnBytes}
	r.SetGrace(cmp.Or(opt.Grace, graceTime))
	r.SetFirstWait(firstTime)
	return r
}

// SetGrace sets how long the lists of a server that is away are shown. Those of one that is away already are left out at its next attempt to
// connect at the latest.
func (r *Refresher) SetGrace(d time.Duration) { r.kept.Store(int64(d)) }

// grace returns how long the lists of a server that is away are shown.
func (r *Refresher) grace() time.Duration { return time.Duration(r.kept.Load()) }

// SetFirstWait sets how long a client waits for servers that nothing is known of, in calls of Await that follow; 0: not at all. A new Refresher
// has 5 s.
func (r *Refresher) SetFirstWait(d time.Duration) { r.first.Store(int64(d)) }

// Catalogue returns the catalogue.
func (r *Refresher) Catalogue() *catalogue.Catalogue { return r.opt.Catalogue }

// Close ends the sessions at the servers.
func (r *Refresher) Close() {
	r.work.Close()
	r.work.Cancel()
	r.work.Wait()
}

// SetServers replaces the servers. The catalogue keeps no others. One that stays keeps its session, unless its Instance differs.
func (r *Refresher) SetServers(servers []Server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := make(map[string]catalogue.Kept, len(servers))
	for i := range servers {
		kept[servers[i].Name] = catalogue.Kept{ID: servers[i].ID, Transport: servers[i].Transport}
	}
	r.opt.Catalogue.Keep(kept)
	for i := range servers {
		r.opt.Catalogue.SetOrigin(servers[i].Name, servers[i].Origin)
	}
	before := r.readers
	r.readers = make(map[string]*reader, len(servers))
	for i := range servers {
		s := &servers[i]
		former := before[s.Name]
		if s.Left {
			r.leave(s.Name, former)
			continue
		}
		if former != nil && former.server.Load().Instance == s.Instance {
			if was := former.server.Swap(s); was.Read == nil && s.Read != nil {
				former.again() // it is to be told of what was read before
			}
			r.readers[s.Name] = former
			delete(before, s.Name)
			continue
		}
		next := r.newReader(s)
		if next.know() {
			next.spread = min(time.Duration(len(servers))*spreadEach, spreadMost) // clients are served meanwhile
		}
		next.ctx, next.stop = context.WithCancel(r.work.Context())
		r.readers[s.Name] = next
		if !r.work.Spawn(func() { next.start(next.ctx, former) }) {
			close(next.done)
		}
	}
	for _, gone := range before {
		gone.stop()
	}
	r.apart.Store(apart(r.readers))
}

// leave leaves a server out, whose former reader ends; nil: it has none.
func (r *Refresher) leave(name string, former *reader) {
	r.opt.Catalogue.SetPresence(name, catalogue.Out)
	if former == nil {
		return
	}
	r.work.Spawn(func() {
		<-former.done
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.readers[name] == nil { // it may just have come to the end of its lists
			r.opt.Catalogue.SetPresence(name, catalogue.Out)
		}
	})
}

// apart returns the readers of servers that do not show all clients the same; nil: there are none.
func apart(all map[string]*reader) *map[string]*reader {
	some := map[string]*reader{}
	for name, one := range all {
		if one.server.Load().Contextual != nil || one.dual.Load() || one.selects.Load() {
			some[name] = one
		}
	}
	if len(some) == 0 {
		return nil
	}
	return &some
}

// Seen tells whether a server answers, as health checks and calls have found out. One that does not is connected anew; one that does again is
// connected at once.
func (r *Refresher) Seen(server string, answers bool) {
	r.mu.Lock()
	one := r.readers[server]
	r.mu.Unlock()
	switch {
	case one == nil:
	case answers:
		work.Signal(one.back)
	default:
		work.Signal(one.lost)
	}
}

// Reread reads all lists of a server again, whatever it says of them. One that is away is connected anew at once.
func (r *Refresher) Reread(server string) {
	r.mu.Lock()
	one := r.readers[server]
	r.mu.Unlock()
	if one == nil {
		return
	}
	one.again()
	work.Signal(one.back)
}

// again has all lists read again.
func (r *reader) again() {
	r.mu.Lock()
	for kind := range r.changed {
		r.changed[kind] = true
	}
	r.unsettle()
	r.mu.Unlock()
	work.Signal(r.wake)
}

// Heard takes note of a notification that a server has sent to somebody else.
func (r *Refresher) Heard(server string, m *wire.Message) {
	if Changed(m) == nil {
		return
	}
	r.mu.Lock()
	one := r.readers[server]
	r.mu.Unlock()
	if one != nil {
		one.heard(m)
	}
}

// AwaitRead waits until the lists of a server are known as the server has them now, as far as it has said, for 5 s at most. It reports whether
// they are.
func (r *Refresher) AwaitRead(ctx context.Context, server string) bool {
	r.mu.Lock()
	one := r.readers[server]
	r.mu.Unlock()
	if one == nil {
		return false
	}
	one.mu.Lock()
	settled := one.settled
	one.mu.Unlock()
	select {
	case <-settled:
		return true
	default:
	}
	timer := time.NewTimer(readWait)
	defer timer.Stop()
	select {
	case <-settled:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// Uniform reports whether every server shows all clients the same.
func (r *Refresher) Uniform() bool { return r.apart.Load() == nil }

// Settled reports whether Await has nothing to wait for, whichever client of an era asks: every server was asked once, and shows all clients
// the same.
func (r *Refresher) Settled(legacy bool) bool {
	return r.untried.Load() == 0 && r.apart.Load() == nil && (!legacy || r.unsided.Load() == 0)
}

// Await waits until each of the given servers of which no list of a kind was known was asked once, for the time that SetFirstWait sets at most,
// and until the lists that are shown to the client are up to date, for 5 s at most; for those of the legacy sides of servers that are asked
// first only then, for 5 s more.
func (r *Refresher) Await(ctx context.Context, servers []string, who Client, kind catalogue.Kind) error {
	switch {
	case r.Settled(who.Legacy): // almost always
		return nil
	case r.untried.Load() == 0:
		return r.AwaitOwn(ctx, servers, who)
	}
	var own, first []<-chan struct{}
	for _, name := range servers {
		r.mu.Lock()
		one := r.readers[name]
		r.mu.Unlock()
		if one == nil {
			continue
		}
		if o := one.ownedBy(&who, true); o != nil {
			own = append(own, o.refresh(who.Caller))
		} else if !one.known[kind] {
			first = append(first, one.tried)
		}
	}
	began := time.Now()
	if err := wait(ctx, first, began.Add(time.Duration(r.first.Load()))); err != nil {
		return err
	}
	if err := wait(ctx, own, began.Add(ownWait)); err != nil || !who.Legacy {
		return err
	}
	return r.AwaitOwn(ctx, servers, who)
}
