package idempotency

import (
	"time"

	"dragoman/proxy"
)

// Kept tells how many requests are remembered with their outcome, and how many bytes that takes.
func (p *Policy) Kept() (requests, bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.opt.Mode == Off {
		return 0, 0
	}
	return p.total()
}

// Waiting tells how many repeats wait for the answer to the first.
func (p *Policy) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting
}

func (p *Policy) total() (requests, bytes int) {
	for i := range p.kept {
		requests += p.kept[i].count
		bytes += p.kept[i].bytes
	}
	return requests, bytes
}

// Close forgets everything. Requests may still run.
func (p *Policy) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.sweeper != nil {
		p.sweeper.Stop()
	}
	for i := range p.kept {
		s := &p.kept[i]
		for s.count > 0 {
			p.drop(s, s.first)
		}
		s.letGo()
	}
	clear(p.sessions)
	p.spare = spares{}
}

// memosOf gives the memos of a request's session; nil if it has a key. fresh says that they are new here. The caller holds p.mu,
// here and below.
func (p *Policy) memosOf(ex *proxy.Exchange) (of *memos, fresh bool) {
	if ex.Key != "" {
		return nil, false
	}
	if of = p.sessions[ex.Session]; of == nil {
		p.numbers++
		of, fresh = &memos{number: p.numbers}, true
		p.sessions[ex.Session] = of
	}
	return of, fresh
}

// find gives the memo of a name, and where it is in the index; nil if there is none, and where it belongs.
func (p *Policy) find(s *shelf, n sum) (i int, m *memo) {
	if i, m = s.find(n); m == nil {
		return i, nil
	}
	if at, kept := s.placeOf(s.slots[i]); kept && p.now()-s.place(at).born >= p.opt.Window {
		p.drop(s, at)
		return s.find(n)
	}
	return i, m
}

// now is the time that has gone by.
func (p *Policy) now() time.Duration { return p.opt.Now().Sub(p.began) }

// put keeps a memo that is over, and lets go of what is too old or too much.
func (p *Policy) put(m *memo) {
	now := p.now()
	p.kept[m.kind].keep(m, now)
	p.expire(now)
	for {
		requests, bytes := p.total()
		var s *shelf
		switch a, b := &p.kept[ofSessions], &p.kept[ofKeys]; {
		case requests > p.opt.Max && a.count >= b.count, bytes > p.opt.Bytes && a.bytes >= b.bytes:
			s = a
		case requests > p.opt.Max, bytes > p.opt.Bytes:
			s = b
		default:
			p.arm(p.opt.Window)
			return
		}
		p.drop(s, s.first)
	}
}

// drop forgets a memo that is kept.
func (p *Policy) drop(s *shelf, at uint64) { p.spare.give(s.take(at)) }

// expire forgets what is too old. The next will be in so long; 0: nothing is left.
func (p *Policy) expire(now time.Duration) (next time.Duration) {
	for i := range p.kept {
		for s := &p.kept[i]; s.count > 0; {
			if left := p.opt.Window - (now - s.place(s.first).born); left > 0 {
				if next == 0 || left < next {
					next = left
				}
				break
			}
			p.drop(s, s.first)
		}
	}
	return next
}

// arm has what is too old swept after a while, so that a proxy that nobody uses keeps nothing.
func (p *Policy) arm(after time.Duration) {
	switch {
	case p.sweeping || p.closed:
		return
	case p.sweeper == nil:
		p.sweeper = time.AfterFunc(after, p.sweep)
	default:
		p.sweeper.Reset(after)
	}
	p.sweeping = true
}

func (p *Policy) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweeping = false
	if next := p.expire(p.now()); next > 0 {
		p.arm(max(next, p.opt.Window/16)) // not for each by itself
	}
	for i := range p.kept {
		p.kept[i].letGo()
	}
}

// settle ends a memo with an outcome, and tells those who wait for it.
func (p *Policy) settle(m *memo, out outcomeOf, keep bool) {
	var late sum
	summed := m.late != nil && (out.raw != nil || out.err != nil)
	if summed {
		late = p.sumOf(m.late)
	}
	p.mu.Lock()
	m.over, m.outcomeOf, m.late = true, out, nil
	if summed {
		m.sum, m.owes = late, false
	}
	var waiting []*repeat
	if m.waiting != nil {
		waiting, m.waiting = *m.waiting, nil
		p.waiting -= len(waiting)
	}
	for _, w := range waiting {
		w.at = -1
	}
	if keep && m.run != 0 && !p.closed {
		p.put(m)
	} else {
		p.stop(m)
	}
	p.mu.Unlock()
	for _, w := range waiting {
		w.wake <- struct{}{}
	}
}

// abandon ends a memo without an outcome: the first who waits for it, and still may, takes it over.
func (p *Policy) abandon(m *memo) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.late = nil // who takes it over has been compared with it
	for m.waiting != nil && len(*m.waiting) > 0 {
		w := (*m.waiting)[0]
		p.leave(w)
		if w.ex.Err() == nil && !w.ex.Late() {
			w.leads = true
			w.wake <- struct{}{}
			return
		}
	}
	p.stop(m)
}

// stop forgets a memo that runs, or of which nothing is to be kept. Its session's end may have come first.
func (p *Policy) stop(m *memo) {
	if m.run == 0 {
		return
	}
	s := &p.kept[m.kind]
	i, _ := s.end(m)
	s.empty(i)
}

// leave takes a repeat out of those that wait, if it is one of them.
func (p *Policy) leave(w *repeat) {
	if w.at < 0 {
		return
	}
	all := *w.memo.waiting
	last := len(all) - 1
	if w.at < last {
		all[w.at] = all[last]
		all[w.at].at = w.at
	}
	all[last] = nil
	*w.memo.waiting, w.at = all[:last], -1
	p.waiting--
}

// forget drops all that is remembered of a session, which has ended.
func (p *Policy) forget(s *proxy.Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := p.sessions[s]
	if of == nil {
		return
	}
	delete(p.sessions, s)
	kept := &p.kept[ofSessions]
	for of.runs != 0 {
		p.stop(kept.runners[of.runs].m)
	}
	for at := of.last; at >= kept.first; {
		x := kept.place(at)
		before := uint64(x.before)
		if x.m != nil {
			p.drop(kept, at)
		}
		if before == 0 {
			break
		}
		at -= before
	}
}
