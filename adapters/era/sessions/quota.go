package sessions

import (
	"context"
	"fmt"
	"sync"
	"time"

	"dragoman/adapters/transport"
	"dragoman/proxy"
)

// Quota counts the processes of a server, those that are ending included, and enforces the limits in all and per principal. Links that
// are no processes are not counted. A Quota is safe for concurrent use.
type Quota struct {
	name   string        // of the server, for errors
	limits Processes     // Max is 0 if links are no processes
	wait   time.Duration // for a process that is ending
	evict  func(principal string, own bool) bool
	stray  func(of transport.Stray) // of Options

	mu     sync.Mutex
	taken  int
	of     map[string]int // by principal; "" for processes that several principals use
	ending int            // of these, being closed
	freed  chan struct{}  // closed and replaced when a process has ended
}

// NewQuota returns the quota of a server. evict ends the session that has been idle for longest, of the principal if own is set; it
// returns false if all are in use.
func NewQuota(server *transport.Server, opt Options, evict func(principal string, own bool) bool) *Quota {
	limits := opt.Processes
	if !server.Wires.Stdio {
		limits.Max = 0
	}
	if opt.Isolation.Anonymous() {
		limits.PerPrincipal = 0
	}
	return &Quota{name: server.Name, limits: limits, wait: opt.LeaseWait, evict: evict, stray: opt.Stray, of: make(map[string]int), freed: make(chan struct{})}
}

// Dial opens a link for a principal within the limits. At a limit it evicts the session that has been idle for longest, since most
// clients leave without ending theirs. If all are in use, the error is TooManySessions. Without a principal several callers use the
// link, unless ctx says otherwise.
func (q *Quota) Dial(ctx context.Context, dial transport.Dial, principal string, sink transport.Sink) (transport.Link, error) {
	if principal != "" {
		ctx = transport.Owned(ctx)
	}
	if q.stray != nil {
		sink = &watched{sink, q.stray} // a pointer, so that it can be compared
	}
	if !q.counts() {
		return dial(ctx, sink)
	}
	if err := q.acquire(ctx, principal); err != nil {
		return nil, err
	}
	link, err := dial(ctx, sink)
	if err != nil {
		q.release(principal, false)
		return nil, err
	}
	return &counted{Link: link, q: q, principal: principal}, nil
}

// watched is the sink of a link whose strays are watched.
type watched struct {
	transport.Sink
	stray func(of transport.Stray)
}

// Stray implements transport.Watcher.
func (w *watched) Stray(of transport.Stray) { w.stray(of) }

// Count counts a process that exists already.
func (q *Quota) Count(link transport.Link, principal string) transport.Link {
	if !q.counts() {
		return link
	}
	q.mu.Lock()
	q.add(principal, 1)
	q.mu.Unlock()
	return &counted{Link: link, q: q, principal: principal}
}

// Processes returns the number of processes, those that are ending included; 0 if links are not processes.
func (q *Quota) Processes() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.taken
}

func (q *Quota) counts() bool { return q.limits.Max > 0 }

// full reports which limit a further process would exceed. The caller holds q.mu.
func (q *Quota) full(principal string) (own, all bool) {
	own = q.limits.PerPrincipal > 0 && q.of[principal] >= q.limits.PerPrincipal
	return own, q.taken >= max(q.limits.Max-q.limits.Spares, 1) // a spare that is taken is replaced
}

// add changes the counts. The caller holds q.mu.
func (q *Quota) add(principal string, n int) {
	q.taken += n
	if q.of[principal] += n; q.of[principal] == 0 {
		delete(q.of, principal)
	}
}

// acquire counts one process more, and waits for that while one is about to end.
func (q *Quota) acquire(ctx context.Context, principal string) error {
	var late <-chan time.Time
	for {
		q.mu.Lock()
		own, all := q.full(principal)
		if !own && !all {
			q.add(principal, 1)
			q.mu.Unlock()
			return nil
		}
		freed, ending := q.freed, q.ending
		q.mu.Unlock()
		if ending == 0 && !q.evict(principal, own) {
			return q.exceeded(own)
		}
		if late == nil {
			late = time.After(q.wait)
		}
		select {
		case <-freed:
		case <-late:
			return q.exceeded(own)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// exceeded makes the error of a process that would exceed a limit.
func (q *Quota) exceeded(own bool) *proxy.Error {
	name, limit, whose := "max_processes", q.limits.Max, "all"
	if own {
		name, limit, whose = "max_processes_per_principal", q.limits.PerPrincipal, "all of this caller's"
	}
	spares := ""
	if q.limits.Spares > 0 && !own {
		spares = fmt.Sprintf(" (%d of them spares)", q.limits.Spares)
	}
	e := proxy.Errf(proxy.TooManySessions, "%s %d processes of the upstream server are in use%s; end a session, or raise upstreams.%s.%s",
		whose, limit, spares, q.name, name)
	e.RetryAfter = 5
	return e
}

// leaving records that a process is being ended.
func (q *Quota) leaving() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ending++
}

// release counts one process less; left says that leaving has been called for it.
func (q *Quota) release(principal string, left bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(principal, -1)
	if left {
		q.ending--
	}
	close(q.freed)
	q.freed = make(chan struct{})
}

// counted is a link that is counted until it is closed.
type counted struct {
	transport.Link
	q         *Quota
	principal string
	once      sync.Once
}

// Under returns the link that is counted.
func (l *counted) Under() transport.Link { return l.Link }

// Close implements transport.Link.
func (l *counted) Close() (err error) {
	l.once.Do(func() {
		l.q.leaving()
		err = l.Link.Close()
		l.q.release(l.principal, true)
	})
	return err
}
