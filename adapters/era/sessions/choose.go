package sessions

import "time"

// choose returns one of the sessions of an identity; nil if another should be opened. With isolation Pooled it prefers the last used of
// the idle sessions, so that surplus ones expire, and otherwise the one with the fewest calls.
func (p *Pool) choose(all []*Session, r *request) (*Session, error) {
	if p.opt.Isolation.Sharing == Pooled {
		return p.leastUsed(all), nil
	}
	return best(all, r)
}

func (p *Pool) leastUsed(all []*Session) *Session {
	var free, least *Session
	var last time.Time
	fewest := 0
	for _, s := range all {
		s.mu.Lock()
		dead, uses, used := s.dead, s.uses, s.last
		s.mu.Unlock()
		switch {
		case dead:
		case uses == 0 && (free == nil || used.After(last)):
			free, last = s, used
		case least == nil || uses < fewest:
			least, fewest = s, uses
		}
	}
	if free != nil || len(all) < p.opt.Isolation.most() && opening(all) < maxOpening {
		return free
	}
	return least
}

// best chooses among the sessions of one identity: one with a listen, since the server announces there what a call changes; otherwise
// the last used, so that consecutive calls of a client stay in one session. It is nil if calls run in all of them. If that session rests
// or may be about to, the error is errRests or errEngaged.
func best(all []*Session, r *request) (*Session, error) {
	var found, first *Session // first: even if it is engaged
	var state availability
	for _, s := range all {
		s.mu.Lock()
		dead, is := s.dead, s.available(r)
		s.mu.Unlock()
		if dead || is == rests && r.hasty {
			continue
		}
		if first.before(s) {
			first = s
		}
		if is != engaged && found.before(s) {
			found, state = s, is
		}
	}
	switch {
	case first != found && !r.looked:
		return nil, errEngaged
	case state == rests:
		return nil, errRests
	}
	return found, nil
}

// before reports whether o is to be preferred to s, which may be nil.
func (s *Session) before(o *Session) bool {
	if s == nil {
		return true
	}
	listens, last := s.usedBy()
	others, used := o.usedBy()
	if listens != others {
		return others
	}
	return used.After(last)
}

// usedBy reports whether the session has listens, and when it was last used.
func (s *Session) usedBy() (listens bool, last time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listens > 0, s.last
}
