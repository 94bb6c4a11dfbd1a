package idempotency

import (
	"sync"
	"time"

	"dragoman/policies"
	"dragoman/proxy"
)

// The kinds of entries have a cache each, so that many requests of sessions do not evict those with keys, nor the other way round.
const (
	bySession = iota
	byKey
	kinds
)

// entry is a request that runs or whose response is cached.
type entry struct {
	name    fingerprint
	request fingerprint // of the content; not yet if unread is set

	// The store's lock guards the rest. Once over is set, it and response do not change.
	unread     *content // of a large request, until its fingerprint is needed; the message of the call that runs
	uncompared bool     // the fingerprint of the content was never taken
	stored     bool     // in the store; not after its session has ended
	shared     bool     // a duplicate has it, and may read it for longer than it is cached
	over       bool
	cached     bool // its response is
	response
	waiting  []*duplicate
	finished time.Time
	cost     int
	session  *sessionEntries // nil: it has a key

	inSession, inCache policies.Link[entry]
}

// entryCost is about what an entry takes besides its response, in bytes.
const entryCost = 512

func (e *entry) kind() int {
	if e.session != nil {
		return bySession
	}
	return byKey
}

// sessionEntries is the list of a session's entries.
type sessionEntries struct {
	number uint64 // of the session
	all    policies.List[entry]
}

// store is the replay store: the requests that run, and the cached responses of those that are over, bounded in time, number and bytes.
// Responses are evicted in the order in which the requests ended, of the kind that takes more.
type store struct {
	opt   Options
	seeds seeds

	mu      sync.Mutex
	entries [kinds]kindOfEntries
	spare   []*entry // evicted, for use again
	waiting int      // duplicates

	sessions map[*proxy.Session]*sessionEntries
	numbers  uint64 // of sessions so far
	sweeper  *time.Timer
	sweeping bool // the sweeper is armed
	closed   bool
}

// kindOfEntries is the entries of one kind.
type kindOfEntries struct {
	byName map[fingerprint]*entry
	kept   policies.List[entry] // those that are cached, the oldest first
	cached int                  // entries
	bytes  int                  // that they take
}

// cache adds an entry to those that are cached.
func (k *kindOfEntries) cache(e *entry) {
	e.cached = true
	k.cached++
	k.bytes += e.cost
	k.kept.Add(e)
}

// uncache takes back what cache did.
func (k *kindOfEntries) uncache(e *entry) {
	e.cached = false
	k.cached--
	k.bytes -= e.cost
	k.kept.Remove(e)
}

func newStore(opt Options) *store {
	s := &store{opt: opt, seeds: newSeeds(), sessions: make(map[*proxy.Session]*sessionEntries)}
	for i := range s.entries {
		s.entries[i].byName = make(map[fingerprint]*entry)
		s.entries[i].kept.Link = func(e *entry) *policies.Link[entry] { return &e.inCache }
	}
	return s
}

// total returns how many entries are cached, and their bytes. The caller holds s.mu, here and below.
func (s *store) total() (entries, bytes int) {
	for i := range s.entries {
		entries += s.entries[i].cached
		bytes += s.entries[i].bytes
	}
	return entries, bytes
}

// name returns the name of a request, and its session's entries, nil if it has a key. fresh says that the session is new here.
func (s *store) name(ex *proxy.Exchange) (n fingerprint, of *sessionEntries, fresh bool) {
	if ex.Key != "" {
		return s.seeds.ofKey(ex), nil, false
	}
	if of = s.sessions[ex.Session]; of == nil {
		s.numbers++
		of, fresh = &sessionEntries{number: s.numbers}, true
		of.all.Link = func(e *entry) *policies.Link[entry] { return &e.inSession }
		s.sessions[ex.Session] = of
	}
	return s.seeds.ofID(ex, of.number), of, fresh
}

// find returns the entry of a name; nil if there is none.
func (s *store) find(name fingerprint, of *sessionEntries) *entry {
	kind := byKey
	if of != nil {
		kind = bySession
	}
	e := s.entries[kind].byName[name]
	if e != nil && e.cached && s.opt.Now().Sub(e.finished) >= s.opt.Window {
		s.remove(e)
		return nil
	}
	return e
}

// begin enters a request that runs.
func (s *store) begin(name, request fingerprint, of *sessionEntries) *entry {
	e := s.take()
	e.name, e.request, e.stored, e.session = name, request, true, of
	s.entries[e.kind()].byName[name] = e
	if of != nil {
		of.all.Add(e)
	}
	return e
}

// maxSpare is how many entries are kept for use again, and maxSpareBytes how large a response's memory may be to be kept with one.
const (
	maxSpare      = 64
	maxSpareBytes = 8 << 10
)

// take returns an entry for use, with the memory of one that was evicted: a busy proxy whose store is full makes no garbage.
func (s *store) take() *entry {
	last := len(s.spare) - 1
	if last < 0 {
		return new(entry)
	}
	e := s.spare[last]
	s.spare = s.spare[:last]
	*e = entry{response: response{raw: e.raw[:0]}}
	return e
}

// remove forgets an entry. Its session may have ended before.
func (s *store) remove(e *entry) {
	if !e.stored {
		return
	}
	e.stored = false
	of := &s.entries[e.kind()]
	delete(of.byName, e.name)
	evicted := e.cached
	if evicted {
		of.uncache(e)
	}
	if e.session != nil {
		e.session.all.Remove(e)
	}
	if evicted && !e.shared && len(s.spare) < maxSpare && cap(e.raw) <= maxSpareBytes {
		s.spare = append(s.spare, e)
	}
}

// keep caches the response of a request that ran, and evicts what is too old or too much.
func (s *store) keep(e *entry) {
	now := s.opt.Now()
	e.finished, e.cost = now, entryCost+e.response.size()
	s.entries[e.kind()].cache(e)
	s.expire(now)
	for {
		entries, bytes := s.total()
		switch a, b := &s.entries[bySession], &s.entries[byKey]; {
		case entries > s.opt.Max && a.cached >= b.cached, bytes > s.opt.Bytes && a.bytes >= b.bytes:
			s.remove(a.kept.First())
		case entries > s.opt.Max, bytes > s.opt.Bytes:
			s.remove(b.kept.First())
		default:
			s.arm(s.opt.Window)
			return
		}
	}
}

// expire evicts what is too old. The next entry expires after next; 0: nothing is left.
func (s *store) expire(now time.Time) (next time.Duration) {
	for i := range s.entries {
		for e := s.entries[i].kept.First(); e != nil; e = s.entries[i].kept.First() {
			if left := s.opt.Window - now.Sub(e.finished); left > 0 {
				if next == 0 || left < next {
					next = left
				}
				break
			}
			s.remove(e)
		}
	}
	return next
}

// arm schedules the eviction of expired entries, so that an idle proxy keeps nothing.
func (s *store) arm(after time.Duration) {
	switch {
	case s.sweeping || s.closed:
		return
	case s.sweeper == nil:
		s.sweeper = time.AfterFunc(after, s.sweep)
	default:
		s.sweeper.Reset(after)
	}
	s.sweeping = true
}

func (s *store) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweeping = false
	if next := s.expire(s.opt.Now()); next > 0 {
		s.arm(max(next, s.opt.Window/16)) // many at a time
	}
}

// endSession forgets a session that has ended.
func (s *store) endSession(sess *proxy.Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.sessions[sess]
	if of == nil {
		return
	}
	delete(s.sessions, sess)
	for e := of.all.First(); e != nil; e = of.all.First() {
		s.remove(e)
	}
}

// close forgets everything. Requests may still run.
func (s *store) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.sweeper != nil {
		s.sweeper.Stop()
	}
	for i := range s.entries {
		for e := s.entries[i].kept.First(); e != nil; e = s.entries[i].kept.First() {
			s.remove(e)
		}
	}
	clear(s.sessions)
	s.spare = nil
}

// finish ends a request with its response, keeps that if it is to be kept, and wakes the duplicates that wait for it.
func (s *store) finish(e *entry, r response, keep bool) {
	var request fingerprint
	read := e.unread != nil && !r.tooLarge()
	if read {
		request = s.seeds.ofContent(e.unread)
	}
	s.mu.Lock()
	e.over, e.response, e.unread = true, r, nil
	if read {
		e.request, e.uncompared = request, false
	}
	waiting := e.waiting
	e.waiting = nil
	s.waiting -= len(waiting)
	for _, w := range waiting {
		w.at = -1
	}
	if keep && e.stored && !s.closed {
		s.keep(e)
	} else {
		s.remove(e)
	}
	s.mu.Unlock()
	for _, w := range waiting {
		w.wake <- struct{}{}
	}
}

// abandon ends a call without a response: the first duplicate that waits and still may takes it over.
func (s *store) abandon(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.unread = nil // a duplicate that waits has been compared with it
	for len(e.waiting) > 0 {
		w := e.waiting[0]
		s.leave(w)
		if w.ex.Err() == nil && !w.ex.Late() {
			w.leads = true
			w.wake <- struct{}{}
			return
		}
	}
	s.remove(e)
}

// wait adds a duplicate to those that wait for a response.
func (s *store) wait(w *duplicate) {
	w.at = len(w.entry.waiting)
	w.entry.waiting = append(w.entry.waiting, w)
	s.waiting++
}

// leave removes a duplicate from those that wait, if it is one of them.
func (s *store) leave(w *duplicate) {
	if w.at < 0 {
		return
	}
	all := w.entry.waiting
	last := len(all) - 1
	if w.at < last {
		all[w.at] = all[last]
		all[w.at].at = w.at
	}
	all[last] = nil
	w.entry.waiting, w.at = all[:last], -1
	s.waiting--
}
