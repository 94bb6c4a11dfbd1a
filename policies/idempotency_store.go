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
		requests += p.kept[i].lru.Len()
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
		if l := p.kept[i].lru; l != nil {
			l.Purge()
			p.kept[i].bytes = 0
		}
	}
	clear(p.sessions)
}

// find gives the memo of a name, nil if there is none. The caller holds p.mu, here and below.
func (p *Idempotency) find(n name) *memo {
	if m := p.running[n]; m != nil {
		return m
	}
	m, ok := p.kept[n.kind()].lru.Peek(n)
	if ok && !p.opt.Now().Before(m.until) {
		p.drop(m)
		return nil
	}
	return m
}

// put keeps a memo that is over, and lets go of what is too old or too much.
func (p *Idempotency) put(m *memo) {
	now := p.opt.Now()
	m.until = now.Add(p.opt.Window)
	s := &p.kept[m.name.kind()]
	s.lru.Add(m.name, m)
	s.bytes += m.size()
	p.expire(now)
	for {
		requests, bytes := p.total()
		switch a, b := &p.kept[ofSessions], &p.kept[ofKeys]; {
		case requests > p.opt.Max && a.lru.Len() >= b.lru.Len(), bytes > p.opt.Bytes && a.bytes >= b.bytes:
			s = a
		case requests > p.opt.Max, bytes > p.opt.Bytes:
			s = b
		default:
			p.arm(p.opt.Window)
			return
		}
		_, oldest, _ := s.lru.GetOldest()
		p.drop(oldest)
	}
}

// drop forgets a memo that is kept.
func (p *Idempotency) drop(m *memo) {
	s := &p.kept[m.name.kind()]
	if s.lru.Remove(m.name) {
		s.bytes -= m.size()
	}
	p.unlink(m)
}

func (p *Idempotency) expire(now time.Time) (next time.Time) {
	for i := range p.kept {
		for {
			_, m, ok := p.kept[i].lru.GetOldest()
			if !ok {
				break
			}
			if now.Before(m.until) {
				if next.IsZero() || m.until.Before(next) {
					next = m.until
				}
				break
			}
			p.drop(m)
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
	p.mu.Lock()
	m.over, m.outcomeOf = true, out
	p.stop(m)
	waiting := m.waiting
	m.waiting = nil
	p.waiting -= len(waiting)
	for _, w := range waiting {
		w.at = -1
	}
	if keep && !m.gone && !p.closed {
		p.put(m)
	} else {
		p.unlink(m)
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
	p.unlink(m)
}

// stop takes a memo out of those that run.
func (p *Idempotency) stop(m *memo) {
	if p.running[m.name] == m {
		delete(p.running, m.name)
	}
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

// link enters a memo with its session; true if that is new here.
func (p *Idempotency) link(m *memo) bool {
	of := p.sessions[m.name.session]
	fresh := of == nil
	if fresh {
		of = new(memos)
		p.sessions[m.name.session] = of
	}
	if m.next = of.head; m.next != nil {
		m.next.prev = m
	}
	of.head = m
	return fresh
}

// unlink takes a memo out of its session's.
func (p *Idempotency) unlink(m *memo) {
	if of := p.sessions[m.name.session]; of != nil && of.head == m {
		of.head = m.next
	}
	if m.prev != nil {
		m.prev.next = m.next
	}
	if m.next != nil {
		m.next.prev = m.prev
	}
	m.prev, m.next = nil, nil
}

// forget drops all that is remembered of a session, which has ended.
func (p *Idempotency) forget(s *proxy.Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := p.sessions[s]
	delete(p.sessions, s)
	for of != nil && of.head != nil {
		m := of.head
		of.head = m.next
		m.gone = true
		if m.over {
			p.drop(m)
			continue
		}
		p.stop(m)
		p.unlink(m)
	}
}
