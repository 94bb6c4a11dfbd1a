package lists

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/definitions"
	"dragoman/adapters/merge/deceptive"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// reader reads the lists of one server.
type reader struct {
	of       *Refresher
	name     string
	server   atomic.Pointer[Server]
	known    [catalogue.Kinds]bool // lists that were known at the start
	spread   time.Duration         // the most to wait before the first attempt
	tried    chan struct{}         // closed after the first attempt
	once     sync.Once             // of tried
	wake     chan struct{}         // holds one: a list has changed
	lost     chan struct{}         // holds one: the server does not answer
	back     chan struct{}         // holds one: the server answers again
	ctx      context.Context       // ends with it
	stop     context.CancelFunc
	own      *lru.Cache[audience, *owned]
	dual     atomic.Bool                // legacy clients are shown another side, see met
	selects  atomic.Bool                // lists depend on the capabilities of modern clients, see compare
	selected [catalogue.Kinds]bool      // those lists
	fresh    [catalogue.Kinds]bool      // lists that were read, and not compared since
	done     chan struct{}              // closed when it has ended
	empty    [catalogue.Kinds]time.Time // since when a list that was full is empty; zero: it is not
	read     [catalogue.Kinds]time.Time // when each list was read last
	gone     time.Time                  // since when the server is away; zero: it is there
	out      bool                       // it was left out

	mu      sync.Mutex
	changed [catalogue.Kinds]bool // lists that the server says have changed
	settled chan struct{}         // closed while the lists are known as the server has them, as far as it has said

	unsided bool // it is modern, and nobody knows whether it has a legacy side; guarded by of.sidesMu, as is look
	look    look
}

func (r *Refresher) newReader(s *Server) *reader {
	one := &reader{of: r, name: s.Name, tried: make(chan struct{}), wake: make(chan struct{}, 1), lost: make(chan struct{}, 1), back: make(chan struct{}, 1), done: make(chan struct{}), own: newOwn(), settled: make(chan struct{})}
	one.server.Store(s)
	r.untried.Add(1)
	return one
}

// asked notes that the server was asked.
func (r *reader) asked() {
	r.once.Do(func() {
		r.of.untried.Add(-1)
		close(r.tried)
	})
}

// unsettle notes that lists are to be read. The caller holds mu.
func (r *reader) unsettle() {
	select {
	case <-r.settled:
		r.settled = make(chan struct{})
	default:
	}
}

// settle notes that all lists were read that the server has said have changed, but for those of which it has said so since.
func (r *reader) settle(ctx context.Context) {
	if read := r.server.Load().Read; read != nil {
		read(ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed != [catalogue.Kinds]bool{} {
		return
	}
	select {
	case <-r.settled:
	default:
		close(r.settled)
	}
}

// know notes which lists of the server the catalogue has, and reports whether it has all.
func (r *reader) know() bool {
	s := r.of.opt.Catalogue.Snapshot().Server(r.name)
	if s == nil {
		return false
	}
	all := true
	for kind, l := range s.Lists {
		r.known[kind] = l != nil
		all = all && l != nil
	}
	return all
}

// start reads until ctx ends, once the former reader of a server of that name has ended; nil: there is none.
func (r *reader) start(ctx context.Context, former *reader) {
	defer close(r.done)
	defer r.met(false)
	defer r.asked()
	defer r.stop()
	if former != nil {
		<-former.done
	}
	if r.spread > 0 && !r.sleep(ctx, rand.N(r.spread)) { //nolint:gosec // spreads load, guards nothing
		return
	}
	r.run(ctx)
}

// run refreshes the server's part of the catalogue until ctx ends. While the server cannot be reached, or is lost again at once, it is tried
// again after 1, 2, 4 and 8 s, then every minute.
func (r *reader) run(ctx context.Context) {
	pause := pauseFirst
	for {
		began := time.Now()
		err := r.attend(ctx)
		r.asked()
		if ctx.Err() != nil {
			return
		}
		r.away()
		if err != nil {
			r.of.opt.Note("warn", r.name, "the lists of a server cannot be refreshed", err)
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

// rest waits until the next attempt, which a server that answers again makes due, and leaves the server out when its grace period ends;
// false if ctx has ended.
func (r *reader) rest(ctx context.Context, pause time.Duration) bool {
	grace := r.of.grace() - time.Since(r.gone)
	if r.out || grace > pause {
		return r.sleep(ctx, pause)
	}
	if !r.sleep(ctx, grace) {
		return false
	}
	if time.Since(r.gone) < r.of.grace() {
		return true // the server is back
	}
	r.out = true
	r.of.opt.Catalogue.SetPresence(r.name, catalogue.Out)
	r.of.opt.Note("warn", r.name, "a server has been away for longer than the grace period: its part of the lists is left out", nil)
	return r.sleep(ctx, pause-grace)
}

// sleep waits for d, or until the server answers again; false if ctx has ended.
func (r *reader) sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.back:
		return true
	case <-ctx.Done():
		return false
	}
}

// away marks the server's lists as last known.
func (r *reader) away() {
	r.mu.Lock()
	r.unsettle()
	r.mu.Unlock()
	if r.gone.IsZero() {
		r.gone = time.Now()
	}
	if !r.out {
		r.of.opt.Catalogue.SetPresence(r.name, catalogue.Away)
	}
}

// attend opens a session of Dragoman's own at the server, reads its lists, and reads them again whenever they change. It returns when the
// session is lost: with nil if the lists were read before, else with the reason.
func (r *reader) attend(ctx context.Context) error {
	drain(r.lost)
	own, described, err := r.open(ctx, proxy.Caller{}, true)
	if err != nil {
		return err
	}
	r.describe(&described)
	defer own.close()
	defer drain(r.back)
	if err := r.refresh(ctx, own, true); err != nil {
		return err
	}
	r.compare(ctx, own)
	r.gone, r.out = time.Time{}, false
	r.of.opt.Catalogue.SetPresence(r.name, catalogue.There)
	r.asked()
	for r.await(ctx, own) {
		if err := r.refresh(ctx, own, false); err != nil {
			r.of.opt.Note("warn", r.name, "the lists of a server cannot be refreshed", err)
			return nil
		}
		r.compare(ctx, own)
	}
	return nil
}

// describe notes what the server says of itself, and warns of instructions that have changed.
func (r *reader) describe(now *catalogue.Description) {
	before := r.of.opt.Catalogue.Snapshot().Server(r.name)
	r.of.opt.Catalogue.Describe(r.name, *now)
	if before != nil && before.Revision != "" && before.Instructions != now.Instructions && !r.server.Load().Quiet {
		r.of.opt.Note("warn", r.name, "the instructions of a server have changed", nil)
	}
}

// await waits until a list is to be read again; false if the session is lost, or ctx has ended.
func (r *reader) await(ctx context.Context, own *connection) bool {
	again := time.NewTimer(time.Until(r.due(own)))
	defer again.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-own.gone:
		return false
	case <-r.lost:
		return false
	case <-again.C:
	case <-r.wake:
	}
	return true
}

// due returns when a list is to be asked for again although the server has not said that it has changed: one that has become empty, or one
// whose changes the server does not announce.
func (r *reader) due(own *connection) time.Time {
	due := time.Now().Add(r.of.opt.Poll)
	r.mu.Lock()
	if r.changed != [catalogue.Kinds]bool{} { // one did not come in time
		due = time.Now().Add(pauseSoon)
	}
	r.mu.Unlock()
	for kind, since := range r.empty {
		switch {
		case !since.IsZero():
			due = earlier(due, since.Add(r.of.opt.EmptyAgain))
		case !r.server.Load().Sleeps && own.has(catalogue.Kind(kind)) && !own.announces(catalogue.Kind(kind)):
			due = earlier(due, r.read[kind].Add(r.of.opt.Poll))
		}
	}
	return due
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// drain takes from a channel what waits there.
func drain(c chan struct{}) {
	select {
	case <-c:
	default:
	}
}

// refresh reads the lists that have changed, or all. A list that the server refuses, or does not answer in time, stays as it was: it may list
// other things.
func (r *reader) refresh(ctx context.Context, own *connection, all bool) error {
	r.mu.Lock()
	changed := r.changed
	r.changed = [catalogue.Kinds]bool{}
	r.mu.Unlock()
	var unread error
	read := false
	for kind := range catalogue.Kinds {
		if !all && !changed[kind] && !r.isDue(own, kind) {
			continue
		}
		r.read[kind] = time.Now()
		if !own.has(kind) {
			r.of.opt.Catalogue.SetList(r.name, kind, catalogue.List{})
			continue
		}
		within, cancel := context.WithTimeout(ctx, fetchTime)
		l, err := Fetch(within, own, kind)
		late := ctx.Err() == nil && (within.Err() != nil || errors.Is(err, proxy.ErrNotYet)) // the replies may be the first to notice
		cancel()
		var refused *refusedError
		switch {
		case err == nil:
			read, r.fresh[kind] = true, true
			r.set(kind, l)
		case errors.As(err, &refused):
			read = true
			r.of.opt.Note("warn", r.name, "a list of a server cannot be read; it stays as it was", err)
		case late:
			unread = err
			r.overdue(kind)
			r.of.opt.Note("warn", r.name, "a list of a server does not come in time; it stays as it was", err)
		default:
			return err
		}
	}
	if !read && unread != nil {
		return unread
	}
	r.settle(ctx)
	return nil
}

// overdue notes that a list did not come in time. Somebody who waits for lists waits on.
func (r *reader) overdue(kind catalogue.Kind) {
	if r.server.Load().Read == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed[kind] = true
	r.unsettle()
}

// isDue reports whether a list is to be read although the server has not said that it has changed.
func (r *reader) isDue(own *connection, kind catalogue.Kind) bool {
	if since := r.empty[kind]; !since.IsZero() && time.Since(since) >= r.of.opt.EmptyAgain {
		return true
	}
	return !r.server.Load().Sleeps && !own.announces(kind) && time.Since(r.read[kind]) >= r.of.opt.Poll
}

// set puts a list into the catalogue. An empty list after a full one is asked for again before it is believed (seed 004, BR-003).
func (r *reader) set(kind catalogue.Kind, l catalogue.List) {
	c := r.of.opt.Catalogue
	s := c.Snapshot().Server(r.name)
	full := s != nil && s.Lists[kind] != nil && len(s.Lists[kind].Items) > 0
	if len(l.Items) == 0 && full {
		if r.empty[kind].IsZero() {
			r.empty[kind] = time.Now()
			return
		}
		if time.Since(r.empty[kind]) < r.of.opt.EmptyAgain {
			return
		}
		r.of.opt.Note("warn", r.name, "the server has emptied its list of "+kind.String(), nil)
	}
	r.empty[kind] = time.Time{}
	var before []catalogue.Item
	if full {
		before = s.Lists[kind].Items
	}
	if c.SetList(r.name, kind, l) {
		r.warn(kind, before)
	}
}

// warn notes definitions that have changed, and those that are new, or have changed, and have text that a model reads and people do not see.
func (r *reader) warn(kind catalogue.Kind, before []catalogue.Item) {
	s := r.of.opt.Catalogue.Snapshot().Server(r.name)
	if s == nil || s.Lists[kind] == nil {
		return
	}
	known, was := make(map[[sha256.Size]byte]bool, len(before)), make(map[string][]byte, len(before))
	for i := range before {
		known[before[i].Sum], was[before[i].Key] = true, before[i].Raw
	}
	count, first := 0, error(nil)
	var changed []string
	change := Change{Server: r.name, Kind: kind}
	for i := range s.Lists[kind].Items {
		item := &s.Lists[kind].Items[i]
		old := was[item.Key]
		delete(was, item.Key)
		if known[item.Sum] {
			continue
		}
		if old == nil {
			change.Added = append(change.Added, item.Key)
		}
		if fields := definitions.Changed(kind, old, item.Raw); old != nil && fields != nil {
			change.Changed = append(change.Changed, item.Key)
			changed = append(changed, wire.Shown(item.Key)+" ("+strings.Join(fields, ", ")+")")
		}
		if found := deceptive.Find(item.Raw); found != nil {
			if count++; first == nil {
				first = fmt.Errorf("%s, %s: %s", wire.Shown([]byte(item.Key)), found[0].Place, found[0].What)
			}
		}
	}
	change.Removed = slices.Sorted(maps.Keys(was))
	if before != nil && r.of.opt.Changed != nil && len(change.Added)+len(change.Changed)+len(change.Removed) > 0 {
		r.of.opt.Changed(change)
	}
	if changed != nil && !r.server.Load().Quiet {
		r.of.opt.Note("warn", r.name, "definitions of "+kind.String()+" of a server have changed: "+named(changed), nil)
	}
	if first != nil {
		r.of.opt.Note("warn", r.name, fmt.Sprintf("%d new or changed %s of a server have text that people do not see", count, kind), first)
	}
}

// maxNamed bounds what a line of the log names.
const maxNamed = 10

// named joins names for the log.
func named(all []string) string {
	text := strings.Join(all[:min(len(all), maxNamed)], ", ")
	if more := len(all) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// heard notes a notification of the server.
func (r *reader) heard(m *wire.Message) {
	r.mu.Lock()
	for _, kind := range Changed(m) {
		r.changed[kind] = true
		r.unsettle()
	}
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}
