package sessions

import "dragoman/proxy"

// Some servers send what is for one session to all: a bridge that has one child behind many event streams, for example. Their answers
// find no call in a session that they are not for, since ids are unique. But nothing tells for which session a question, a log message or a
// change notice is. Once a server was seen to do so, one session is open at a time, and what it receives is its own.

// MakeSingle makes the pool have one session at a time from now on. Surplus ones are closed when their calls have ended.
func (p *Pool) MakeSingle() {
	p.single.Store(true)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.yield()
}

// Single reports whether the pool has one session at a time.
func (p *Pool) Single() bool { return p.single.Load() }

// Wake makes calls that wait look again whether a session is free.
func (p *Pool) Wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wake()
}

// onlySession opens a session for an identity, in place of one that is not in use. The error says that another client's is in use. The
// caller holds p.mu.
func (p *Pool) onlySession(id *identity) (*Session, error) {
	if p.others() == 0 && p.count == 1 {
		if s := p.longestUnused("", false); s != nil {
			p.drop(s)
		}
	}
	if p.others() > 0 || p.count > 0 {
		return nil, p.taken()
	}
	return p.add(id), nil
}

func (p *Pool) others() int {
	if p.opt.Others == nil {
		return 0
	}
	return p.opt.Others()
}

// taken returns the error of a call that has waited in vain.
func (p *Pool) taken() *proxy.Error {
	e := proxy.Errf(proxy.TooManySessions, "the upstream server sends what is for one session to all, so it gets one session at a time, and calls in another "+
		"go on longer than questions.lease_wait; run its command under Dragoman instead, or set upstreams.%s.isolation to shared", p.server.Name)
	e.RetryAfter = 5
	return e
}

// yield closes unused sessions until one is left, if the pool has one at a time. The caller holds p.mu.
func (p *Pool) yield() {
	for p.single.Load() && p.count > 1 {
		s := p.longestUnused("", false)
		if s == nil {
			return
		}
		p.drop(s)
	}
}

// crowded reports whether sessions from before MakeSingle are still open beside the single one. A message that names no call cannot be
// assigned to any of them then.
func (p *Pool) crowded() bool {
	if !p.single.Load() {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count+p.others() > 1
}
