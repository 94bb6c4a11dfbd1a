package merge

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Bounds of seed 004, BR-002, BR-003 and EC-001, and of what a hostile member may list.
const (
	firstTime  = 5 * time.Second  // how long the first list waits for members that nothing is known of
	fetchTime  = 30 * time.Second // of one refresh of a member
	emptyAgain = 5 * time.Second  // until an empty list after a full one is believed
	graceTime  = 5 * time.Minute  // until the part of a member that is away is left out
	pauseFirst = time.Second
	pauseSoon  = 8 * time.Second // the longest pause but for the last
	pauseLate  = time.Minute
	maxPages   = 1000
	maxItems   = 10_000
	maxBytes   = 64 << 20
)

// refresher keeps what the catalogue knows of one member.
type refresher struct {
	u      *Upstream
	member *member
	known  [catalogue.Kinds]bool // lists that were known at the start
	tried  chan struct{}         // closed after the first attempt
	done   chan struct{}         // closed when it has ended
	once   sync.Once
	wake   chan struct{}              // holds one: a list has changed, or the connection is lost
	empty  [catalogue.Kinds]time.Time // since when a list that was full is empty; zero: it is not
	gone   time.Time                  // since when the member is away; zero: it is there
	out    bool                       // it was left out

	mu      sync.Mutex
	changed [catalogue.Kinds]bool // lists that the member says have changed
}

func newRefresher(u *Upstream, m *member) *refresher {
	return &refresher{u: u, member: m, tried: make(chan struct{}), done: make(chan struct{}), wake: make(chan struct{}, 1)}
}

// Start begins to keep the catalogue, until Close. Of several Upstreams with one catalogue one only may be started.
func (u *Upstream) Start() {
	u.changing.Lock()
	defer u.changing.Unlock()
	before := u.now.Load()
	next := *before
	next.started, next.replaced = true, make(chan struct{})
	for _, m := range next.members {
		m.refresher.begin(nil)
	}
	u.now.Store(&next)
	close(before.replaced)
	u.work.Spawn(func() { u.announce(u.work.Context()) })
}

// begin starts to refresh, once the refresher of a former member of that name has ended; nil: there is none.
func (r *refresher) begin(former *member) {
	if s := r.u.opt.Catalogue.Snapshot().Server(r.member.Name); s != nil {
		for kind, l := range s.Lists {
			r.known[kind] = l != nil
		}
	}
	r.u.work.Spawn(func() {
		defer close(r.done)
		if former != nil {
			<-former.refresher.done
		}
		r.run(r.member.ctx)
		if r.member.gone() != nil {
			r.u.opt.Catalogue.SetPresence(r.member.Name, catalogue.Away) // nobody asks it any more
		}
	})
}

// ended reports whether the refresher has ended.
func (r *refresher) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// awaitFirst waits until each member of which no list of a kind was known at the start was asked once, for firstTime at most.
func (u *Upstream) awaitFirst(ex *proxy.Exchange, kind catalogue.Kind) error {
	var limit <-chan time.Time
	at := u.now.Load()
	for _, name := range at.order {
		r := at.members[name].refresher
		if !at.started || r.known[kind] {
			continue
		}
		select {
		case <-r.tried:
			continue
		default:
		}
		if limit == nil {
			timer := time.NewTimer(firstTime)
			defer timer.Stop()
			limit = timer.C
		}
		select {
		case <-r.tried:
		case <-limit:
			return nil
		case <-ex.Done():
			return ex.Err()
		}
	}
	return nil
}

// run refreshes the member's part of the catalogue until ctx ends. While the member cannot be reached, or is lost again at once, it is tried
// again after 1, 2, 4 and 8 s, then every minute.
func (r *refresher) run(ctx context.Context) {
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
			r.u.note("warn", r.member.Name, "the lists of a server cannot be refreshed", err)
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
func (r *refresher) rest(ctx context.Context, pause time.Duration) bool {
	grace := r.u.opt.Grace - time.Since(r.gone)
	if r.out || grace > pause {
		return sleep(ctx, pause)
	}
	if !sleep(ctx, grace) {
		return false
	}
	r.out = true
	r.u.opt.Catalogue.SetPresence(r.member.Name, catalogue.Out)
	r.u.note("warn", r.member.Name, "a server has been away for longer than the grace period: its part of the lists is left out", nil)
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
func (r *refresher) away() {
	if r.gone.IsZero() {
		r.gone = time.Now()
	}
	if !r.out {
		r.u.opt.Catalogue.SetPresence(r.member.Name, catalogue.Away)
	}
}

// attend opens a session of Dragoman's own at the member, reads its lists, and reads them again whenever they change. It returns when the
// session is lost: with nil if the lists were read before, else with the reason.
func (r *refresher) attend(ctx context.Context) error {
	own, err := r.connect(ctx)
	if err != nil {
		return err
	}
	defer own.close()
	if err := r.refresh(ctx, own, true); err != nil {
		return err
	}
	r.gone, r.out = time.Time{}, false
	r.u.opt.Catalogue.SetPresence(r.member.Name, catalogue.There)
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
			r.u.note("warn", r.member.Name, "the lists of a server cannot be refreshed", err)
			return nil
		}
	}
}

// emptyDue returns when an empty list is to be asked for again; zero: never.
func (r *refresher) emptyDue() (due time.Time) {
	for _, since := range r.empty {
		if at := since.Add(r.u.opt.EmptyAgain); !since.IsZero() && (due.IsZero() || at.Before(due)) {
			due = at
		}
	}
	return due
}

// refresh reads the lists that have changed, or all.
func (r *refresher) refresh(ctx context.Context, own *connection, all bool) error {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	r.mu.Lock()
	changed := r.changed
	r.changed = [catalogue.Kinds]bool{}
	r.mu.Unlock()
	for kind := range catalogue.Kinds {
		due := !r.empty[kind].IsZero() && time.Since(r.empty[kind]) >= r.u.opt.EmptyAgain
		if !all && !changed[kind] && !due {
			continue
		}
		if !own.has(kind) {
			r.u.opt.Catalogue.SetList(r.member.Name, kind, catalogue.List{})
			continue
		}
		l, err := fetch(ctx, own, kind)
		if err != nil {
			return err
		}
		r.set(kind, l)
	}
	return nil
}

// set puts a list into the catalogue. An empty list after a full one is asked for again before it is believed (seed 004, BR-003).
func (r *refresher) set(kind catalogue.Kind, l catalogue.List) {
	c := r.u.opt.Catalogue
	s := c.Snapshot().Server(r.member.Name)
	full := s != nil && s.Lists[kind] != nil && len(s.Lists[kind].Items) > 0
	if len(l.Items) == 0 && full {
		if r.empty[kind].IsZero() {
			r.empty[kind] = time.Now()
			return
		}
		if time.Since(r.empty[kind]) < r.u.opt.EmptyAgain {
			return
		}
		r.u.note("warn", r.member.Name, "the server has emptied its list of "+kind.String(), nil)
	}
	r.empty[kind] = time.Time{}
	c.SetList(r.member.Name, kind, l)
}

// errTooMuch means that a member lists more than is kept.
var errTooMuch = errors.New("the server lists too much")

// fetch reads all pages of a list.
func fetch(ctx context.Context, own asker, kind catalogue.Kind) (l catalogue.List, err error) {
	var cursor []byte
	size := 0
	l.TTL = -1
	for range maxPages {
		m, err := own.ask(ctx, kind.Method(), []wire.Change{{Key: "cursor", Value: cursor}})
		if err != nil {
			return l, err
		}
		if m.Kind == wire.Failure {
			return l, proxy.Errf(proxy.BadAnswer, "the server answers %s with the error %d %s", kind.Method(), m.ErrorCode, m.Text(m.ErrorText))
		}
		if size += len(m.Raw); size > maxBytes {
			return l, errTooMuch
		}
		for _, item := range wire.Items(m.Raw, wire.Get(m.Raw, m.Result, kind.Member())) {
			key := wire.Get(m.Raw, item, kind.Key())
			if !item.IsObject(m.Raw) || !key.IsString(m.Raw) {
				continue
			}
			l.Items = append(l.Items, catalogue.Item{Key: string(key.Text(m.Raw)), Raw: bytes.Clone(item.Of(m.Raw))})
		}
		if len(l.Items) > maxItems {
			return l, errTooMuch
		}
		hints(&l, &m)
		next := wire.Get(m.Raw, m.Result, "nextCursor")
		if !next.IsString(m.Raw) || bytes.Equal(next.Of(m.Raw), cursor) {
			return l, nil
		}
		cursor = bytes.Clone(next.Of(m.Raw))
	}
	return l, errTooMuch
}

// hints notes how a page may be cached (2026-07-28 caching): a list as its strictest page.
func hints(l *catalogue.List, page *wire.Message) {
	ms, err := strconv.ParseInt(string(wire.Get(page.Raw, page.Result, "ttlMs").Of(page.Raw)), 10, 64)
	ttl := time.Duration(ms) * time.Millisecond
	if err != nil || ms < 0 || ms > 1<<40 {
		ttl = 0
	}
	if l.TTL < 0 || ttl < l.TTL {
		l.TTL = ttl
	}
	l.Private = l.Private || wire.Get(page.Raw, page.Result, "cacheScope").Is(page.Raw, "private") && ttl > 0
}

// heard notes a notification of the member.
func (r *refresher) heard(m *wire.Message) {
	r.mu.Lock()
	for _, kind := range changedKinds(m) {
		r.changed[kind] = true
	}
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// changedKinds returns the kinds whose lists a notification says have changed.
func changedKinds(m *wire.Message) []catalogue.Kind {
	switch {
	case m.Is(rules.ListChanged("tools")):
		return []catalogue.Kind{catalogue.Tools}
	case m.Is(rules.ListChanged("prompts")):
		return []catalogue.Kind{catalogue.Prompts}
	case m.Is(rules.ListChanged("resources")):
		return []catalogue.Kind{catalogue.Resources, catalogue.Templates}
	}
	return nil
}
