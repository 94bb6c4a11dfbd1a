package era

import (
	"context"
	"fmt"
	"sync"
	"time"

	"dragoman/adapters/transport"
	"dragoman/proxy"
)

// seats count the processes of a server, those that are ending included, and keep them within the limits: in all, and of
// one principal. It counts where a link is a process; elsewhere a link costs no more than its session.
type seats struct {
	u *Upstream

	mu     sync.Mutex
	taken  int
	of     map[string]int // by principal; "" where none has it to himself
	ending int            // of these, being closed
	freed  chan struct{}  // closed, and made anew, when one becomes free
}

func (s *seats) init(u *Upstream) { s.u, s.of, s.freed = u, make(map[string]int), make(chan struct{}) }

// dial opens a link for a principal, within the limits. If there is no seat, the longest unused session is closed for it:
// most clients leave without a word. A session with a call in flight or a stream open is in use.
func (u *Upstream) dial(ctx context.Context, dial transport.Dial, principal string, sink transport.Sink) (transport.Link, error) {
	if !u.seats.counts() {
		return dial(ctx, sink)
	}
	if err := u.seats.take(ctx, principal); err != nil {
		return nil, err
	}
	link, err := dial(ctx, sink)
	if err != nil {
		u.seats.give(principal, false)
		return nil, err
	}
	return &seated{Link: link, s: &u.seats, principal: principal}, nil
}

// seated counts a process that is there already.
func (u *Upstream) seated(link transport.Link, principal string) transport.Link {
	if !u.seats.counts() {
		return link
	}
	u.seats.mu.Lock()
	u.seats.add(principal, 1)
	u.seats.mu.Unlock()
	return &seated{Link: link, s: &u.seats, principal: principal}
}

// counts tells whether links are processes, of which there is a limit.
func (s *seats) counts() bool { return s.u.opt.Wires.Stdio && s.u.opt.MaxProcesses > 0 }

// full tells which limit a further process would exceed. The caller holds s.mu.
func (s *seats) full(principal string) (own, all bool) {
	if s.u.opt.MaxPrincipal > 0 && s.of[principal] >= s.u.opt.MaxPrincipal && !s.u.opt.Isolation.anonymous() {
		own = true
	}
	return own, s.taken >= max(s.u.opt.MaxProcesses-s.u.opt.Spares, 1) // a spare that is used is replaced
}

func (s *seats) add(principal string, n int) {
	s.taken += n
	if s.of[principal] += n; s.of[principal] == 0 {
		delete(s.of, principal)
	}
}

// take waits for a seat while one is about to become free.
func (s *seats) take(ctx context.Context, principal string) error {
	var late <-chan time.Time
	for {
		s.mu.Lock()
		own, all := s.full(principal)
		if !own && !all {
			s.add(principal, 1)
			s.mu.Unlock()
			return nil
		}
		freed, ending := s.freed, s.ending
		s.mu.Unlock()
		if ending == 0 && !s.u.makeRoom(principal, own) {
			return s.none(own)
		}
		if late == nil {
			timer := time.NewTimer(s.u.lot.opt.LeaseWait)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-freed:
		case <-late:
			return s.none(own)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// none says that there is no seat, and which limit that is due to.
func (s *seats) none(own bool) *proxy.Error {
	name, limit, whose := "max_processes", s.u.opt.MaxProcesses, "all"
	if own {
		name, limit, whose = "max_processes_per_principal", s.u.opt.MaxPrincipal, "all of this caller's"
	}
	spares := ""
	if s.u.opt.Spares > 0 && !own {
		spares = fmt.Sprintf(" (%d of them spares)", s.u.opt.Spares)
	}
	e := proxy.Errf(proxy.TooManySessions, "%s %d processes of the upstream server are in use%s; end a session, or raise upstreams.%s.%s",
		whose, limit, spares, s.u.opt.Name, name)
	e.RetryAfter = 5
	return e
}

// leaving notes that a process is being ended.
func (s *seats) leaving() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending++
}

// give gives a seat back.
func (s *seats) give(principal string, left bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(principal, -1)
	if left {
		s.ending--
	}
	close(s.freed)
	s.freed = make(chan struct{})
}

// Processes tells how many processes there are, those that are ending included; 0 where links are none.
func (u *Upstream) Processes() int {
	u.seats.mu.Lock()
	defer u.seats.mu.Unlock()
	return u.seats.taken
}

// seated is a link that has a seat until it is closed.
type seated struct {
	transport.Link
	s         *seats
	principal string
	once      sync.Once
}

func (l *seated) Under() transport.Link { return l.Link }

// Close implements Link.
func (l *seated) Close() (err error) {
	l.once.Do(func() {
		l.s.leaving()
		err = l.Link.Close()
		l.s.give(l.principal, true)
	})
	return err
}

// makeRoom ends the longest unused session, of the principal if own says so; false if all are in use.
func (u *Upstream) makeRoom(principal string, own bool) bool {
	pooled, since := u.pool.unused(principal, own)
	relayed := u.idleRelay(principal, own, since)
	switch {
	case relayed != nil:
		u.work.Note("info", "the longest unused session is ended to make room for another (max_processes)", nil)
		relayed.session.EndFor(proxy.Expired, proxy.Errf(proxy.SessionLost, "the session was unused, and another needed its process"))
	case pooled != nil:
		u.pool.discard(pooled)
	default:
		return false
	}
	return true
}

// idleRelay finds the session of a legacy client that has been without a request the longest, nobody listening, if that is
// longer than since; the zero time: whatever it is.
func (u *Upstream) idleRelay(principal string, own bool, since time.Time) (found *relay) {
	u.mu.Lock()
	all := make([]*relay, 0, len(u.relays))
	for _, r := range u.relays {
		all = append(all, r)
	}
	u.mu.Unlock()
	for _, r := range all {
		last, busy := r.session.Idle()
		if busy || r.absent() || r.session.HasOutlet() || r.session.State() != proxy.Initialized || own && r.session.Caller.Principal != principal {
			continue
		}
		if since.IsZero() || last.Before(since) {
			found, since = r, last
		}
	}
	return found
}
