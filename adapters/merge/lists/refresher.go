package lists

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/era/work"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Times of seed 004, BR-002, BR-003 and EC-001.
const (
	fetchTime  = 30 * time.Second // of one refresh of a member
	emptyAgain = 5 * time.Second  // until an empty list after a full one is believed
	graceTime  = 5 * time.Minute  // until the part of a member that is away is left out
	pauseFirst = time.Second
	pauseSoon  = 8 * time.Second // the longest pause but for the last
	pauseLate  = time.Minute
)

// Server is what is asked.
type Server interface {
	// Do serves an exchange at the server.
	Do(ex *proxy.Exchange) (proxy.Replies, error)
	// Modern finds out whether the server is modern.
	Modern(ctx context.Context) (bool, error)
}

// Options configure a Refresher.
type Options struct {
	Catalogue  *catalogue.Catalogue
	Work       *work.Group                                // runs its goroutines
	Info       []byte                                     // clientInfo, a JSON object
	NewID      func() string                              // makes unguessable ids of sessions
	EmptyAgain time.Duration                              // how long an empty list after a full one is not believed; 0: 5 s
	Grace      time.Duration                              // how long the lists of a server that is away are shown; 0: 5 minutes
	Note       func(level, server, msg string, err error) // receives what an operator should know
}

// Refresher keeps what the catalogue knows of one server.
type Refresher struct {
	opt    Options
	name   string
	server Server
	known  [catalogue.Kinds]bool // lists that were known at the start
	tried  chan struct{}         // closed after the first attempt
	done   chan struct{}         // closed when it has ended
	once   sync.Once
	wake   chan struct{}              // holds one: a list has changed, or the connection is lost
	empty  [catalogue.Kinds]time.Time // since when a list that was full is empty; zero: it is not
	gone   time.Time                  // since when the server is away; zero: it is there
	out    bool                       // it was left out

	mu      sync.Mutex
	changed [catalogue.Kinds]bool // lists that the server says have changed
}

// New returns the Refresher of a server, by its name in the catalogue.
func New(opt Options, name string, server Server) *Refresher {
	opt.EmptyAgain, opt.Grace = cmp.Or(opt.EmptyAgain, emptyAgain), cmp.Or(opt.Grace, graceTime)
	return &Refresher{opt: opt, name: name, server: server, tried: make(chan struct{}), done: make(chan struct{}), wake: make(chan struct{}, 1)}
}

// Start begins to refresh until ctx ends, once the Refresher of a former server of that name has ended; nil: there is none. If ctx ends
// because the server is served no longer, with a *proxy.Error as its cause, its lists are last known from then on. It must be called once.
func (r *Refresher) Start(ctx context.Context, former *Refresher) {
	if s := r.opt.Catalogue.Snapshot().Server(r.name); s != nil {
		for kind, l := range s.Lists {
			r.known[kind] = l != nil
		}
	}
	r.opt.Work.Spawn(func() {
		defer close(r.done)
		if former != nil {
			<-former.done
		}
		r.run(ctx)
		var removed *proxy.Error
		if errors.As(context.Cause(ctx), &removed) {
			r.opt.Catalogue.SetPresence(r.name, catalogue.Away)
		}
	})
}

// Tried returns a channel that is closed once the server was asked, if nothing was known of a list at the start; else nil. Start must have
// been called.
func (r *Refresher) Tried(kind catalogue.Kind) <-chan struct{} {
	if r.known[kind] {
		return nil
	}
	return r.tried
}

// Ended reports whether it has ended.
func (r *Refresher) Ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// run refreshes the member's part of the catalogue until ctx ends. While the member cannot be reached, or is lost again at once, it is tried
// again after 1, 2, 4 and 8 s, then every minute.
func (r *Refresher) run(ctx context.Context) {
	pause := pauseFirst
	for {
		began := time.Now()
		err := r.attend(ctx)
		r.once.Do(func() { close(r.tried) })
		if ctx.Err() != nil {
			return
		}
		r.away()
		if err != nil {
			r.opt.Note("warn", r.name, "the lists of a server cannot be refreshed", err)
		}
		if time.Since(began) > pauseLate {
			pause = pauseFirst
		}
		if !r.rest(ctx, pause) {
			return
		}
		if pause *= 2; pause > pauseSoon {
			pause = pauseLate
		}
	}
}

// rest waits until the next attempt, and leaves the member out when its grace period ends; false if ctx has ended.
func (r *Refresher) rest(ctx context.Context, pause time.Duration) bool {
	grace := r.opt.Grace - time.Since(r.gone)
	if r.out || grace > pause {
		return sleep(ctx, pause)
	}
	if !sleep(ctx, grace) {
		return false
	}
	r.out = true
	r.opt.Catalogue.SetPresence(r.name, catalogue.Out)
	r.opt.Note("warn", r.name, "a server has been away for longer than the grace period: its part of the lists is left out", nil)
	return sleep(ctx, pause-grace)
}

// sleep waits for d; false if ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// away marks the member's lists as last known.
func (r *Refresher) away() {
	if r.gone.IsZero() {
		r.gone = time.Now()
	}
	if !r.out {
		r.opt.Catalogue.SetPresence(r.name, catalogue.Away)
	}
}

// attend opens a session of Dragoman's own at the member, reads its lists, and reads them again whenever they change. It returns when the
// session is lost: with nil if the lists were read before, else with the reason.
func (r *Refresher) attend(ctx context.Context) error {
	own, err := r.connect(ctx)
	if err != nil {
		return err
	}
	defer own.close()
	if err := r.refresh(ctx, own, true); err != nil {
		return err
	}
	r.gone, r.out = time.Time{}, false
	r.opt.Catalogue.SetPresence(r.name, catalogue.There)
	r.once.Do(func() { close(r.tried) })
	for {
		var again <-chan time.Time
		if due := r.emptyDue(); !due.IsZero() {
			timer := time.NewTimer(time.Until(due))
			defer timer.Stop()
			again = timer.C
		}
		select {
		case <-ctx.Done():
			return nil
		case <-own.gone:
			return nil
		case <-again:
		case <-r.wake:
		}
		if err := r.refresh(ctx, own, false); err != nil {
			r.opt.Note("warn", r.name, "the lists of a server cannot be refreshed", err)
			return nil
		}
	}
}

// emptyDue returns when an empty list is to be asked for again; zero: never.
func (r *Refresher) emptyDue() (due time.Time) {
	for _, since := range r.empty {
		if at := since.Add(r.opt.EmptyAgain); !since.IsZero() && (due.IsZero() || at.Before(due)) {
			due = at
		}
	}
	return due
}

// refresh reads the lists that have changed, or all.
func (r *Refresher) refresh(ctx context.Context, own *connection, all bool) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	r.mu.Lock()
	changed := r.changed
	r.changed = [catalogue.Kinds]bool{}
	r.mu.Unlock()
	for kind := range catalogue.Kinds {
		due := !r.empty[kind].IsZero() && time.Since(r.empty[kind]) >= r.opt.EmptyAgain
		if !all && !changed[kind] && !due {
			continue
		}
		if !own.has(kind) {
			r.opt.Catalogue.SetList(r.name, kind, catalogue.List{})
			continue
		}
		l, err := Fetch(ctx, own, kind)
		if err != nil {
			return err
		}
		r.set(kind, l)
	}
	return nil
}

// set puts a list into the catalogue. An empty list after a full one is asked for again before it is believed (seed 004, BR-003).
func (r *Refresher) set(kind catalogue.Kind, l catalogue.List) {
	c := r.opt.Catalogue
	s := c.Snapshot().Server(r.name)
	full := s != nil && s.Lists[kind] != nil && len(s.Lists[kind].Items) > 0
	if len(l.Items) == 0 && full {
		if r.empty[kind].IsZero() {
			r.empty[kind] = time.Now()
			return
		}
		if time.Since(r.empty[kind]) < r.opt.EmptyAgain {
			return
		}
		r.opt.Note("warn", r.name, "the server has emptied its list of "+kind.String(), nil)
	}
	r.empty[kind] = time.Time{}
	c.SetList(r.name, kind, l)
}

// heard notes a notification of the member.
func (r *Refresher) heard(m *wire.Message) {
	r.mu.Lock()
	for _, kind := range Changed(m) {
		r.changed[kind] = true
	}
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}
