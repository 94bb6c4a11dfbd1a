package policies

import (
	"time"

	"dragoman/proxy"
)

// Kept tells how many requests are remembered with their outcome, and how many bytes that takes.
func (p *Idempotency) Kept() (requests, bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.opt.Mode == IgnoreRepeats {
		return 0, 0
	}
	return p.total()
}

// Waiting tells how many repeats wait for the answer to the first.
func (p *Idempotency) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting
}

func (p *Idempotency) total() (requests, bytes int) {
	for i := range p.kept {
		requests += p.kept[i].count
		bytes += p.kept[i].bytes
	}
	return requests, bytes
}

// Close forgets everything. Requests may still run.
func (p *Idempotency) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.sweeper != nil {
		p.sweeper.Stop()
	}
	for i := range p.kept {
		for s := &p.kept[i]; s.oldest != nil; {
			p.drop(s.oldest)
		}
	}
	clear(p.sessions)
	p.spare = spares{}
}

// memosOf gives the memos of a request's session; nil if it has a key. fresh says that they are new here. The caller holds p.mu,
// here and below.
func (p *Idempotency) memosOf(ex *proxy.Exchange) (of *memos, fresh bool) {
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

// find gives the memo of a name, nil if there is none.
func (p *Idempotency) find(n sum) *memo {
	m := p.memos[n]
	if m != nil && m.over && !p.opt.Now().Before(m.until) {
		p.drop(m)
		return nil
	}
	return m
}

// put keeps a memo that is over, and lets go of what is too old or too much.
func (p *Idempotency) put(m *memo) {
	now := p.opt.Now()
	m.until = now.Add(p.opt.Window)
	p.shelfOf(m).add(m)
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
		p.drop(s.oldest)
	}
}

// drop forgets a memo that is kept.
func (p *Idempotency) drop(m *memo) {
	delete(p.memos, m.name)
	p.shelfOf(m).remove(m)
	m.unlink()
	p.spare.give(m)
}

func (p *Idempotency) expire(now time.Time) (next time.Time) {
	for i := range p.kept {
		for s := &p.kept[i]; s.oldest != nil; {
			if m := s.oldest; now.Before(m.until) {
				if next.IsZero() || m.until.Before(next) {
					next = m.until
				}
				break
			}
			p.drop(s.oldest)
		}
	}
	return next
}

// arm has what is too old swept after a while, so that a proxy that nobody uses keeps nothing.
func (p *Idempotency) arm(after time.Duration) {
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

func (p *Idempotency) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweeping = false
	now := p.opt.Now()
	if next := p.expire(now); !next.IsZero() {
		p.arm(max(next.Sub(now), p.opt.Window/16)) // not for each by itself
	}
}

// settle ends a memo with an outcome, and tells those who wait for it.
func (p *Idempotency) settle(m *memo, out outcomeOf, keep bool) {
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
	waiting := m.waiting
	m.waiting = nil
	p.waiting -= len(waiting)
	for _, w := range waiting {
		w.at = -1
	}
	if keep && !m.gone && !p.closed {
		p.running--
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
func (p *Idempotency) abandon(m *memo) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.late = nil // who takes it over has been compared with it
	for len(m.waiting) > 0 {
		w := m.waiting[0]
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
func (p *Idempotency) stop(m *memo) {
	if m.gone {
		return
	}
	m.gone = true
	p.running--
	delete(p.memos, m.name)
	m.unlink()
}

// leave takes a repeat out of those that wait, if it is one of them.
func (p *Idempotency) leave(w *repeat) {
	if w.at < 0 {
		return
	}
	all := w.memo.waiting
	last := len(all) - 1
	if w.at < last {
		all[w.at] = all[last]
		all[w.at].at = w.at
	}
	all[last] = nil
	w.memo.waiting, w.at = all[:last], -1
	p.waiting--
}

// forget drops all that is remembered of a session, which has ended.
func (p *Idempotency) forget(s *proxy.Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := p.sessions[s]
	delete(p.sessions, s)
	for of != nil && of.head != nil {
		if m := of.head; m.over {
			p.drop(m)
		} else {
			p.stop(m)
		}
	}
}
