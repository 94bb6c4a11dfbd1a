package drive

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// MaxSessions limits the idle sessions.
const MaxSessions = 20_000

// Idle is a set of open sessions without calls: sessions of streamable HTTP without a connection or with an open GET stream, and sessions
// of HTTP+SSE with their stream.
type Idle struct {
	d       *driver
	listens bool
	links   []*httpLink
}

// NewListening is NewIdle for sessions of streamable HTTP that each hold a GET stream open.
func NewListening(ctx context.Context, p Plan) (*Idle, error) {
	if p.Face != LegacyHTTP {
		return nil, fmt.Errorf("drive: sessions over %s do not open streams by themselves", p.Face)
	}
	i, err := NewIdle(ctx, p)
	if err == nil {
		i.listens = true
	}
	return i, err
}

// NewIdle returns an Idle without sessions. It uses the address, path and headers of the plan. Close it.
func NewIdle(ctx context.Context, p Plan) (*Idle, error) {
	if !p.Face.Sessions() {
		return nil, fmt.Errorf("drive: there are no sessions over %s", p.Face)
	}
	p.Calls, p.Rounds, p.Connections = nil, 1, 1
	if p.Timeout <= 0 {
		p.Timeout = defaultTimeout
	}
	return &Idle{d: &driver{ctx: ctx, plan: &p, tally: newTally(&p)}}, nil
}

// Grow opens sessions until there are n.
func (i *Idle) Grow(n int) error {
	if n > MaxSessions {
		return fmt.Errorf("drive: %d sessions are out of bounds; fix: at most %d", n, MaxSessions)
	}
	var mu sync.Mutex
	var failed error
	i.each(max(0, n-len(i.links)), func(int) {
		l := newHTTPLink(i.d)
		err := l.open(i.d.ctx)
		l.hangUp()
		l.reader = nil // saves 16 KiB
		if err == nil && l.session.id == "" && l.stream == nil {
			err = errors.New("the server gives no session ids")
		}
		if err == nil && i.listens {
			err = l.listen(i.d.ctx)
		}
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed = err
			l.endStream()
			return
		}
		i.links = append(i.links, l)
	})
	if failed != nil {
		return fmt.Errorf("drive: session %d: %w", len(i.links)+1, failed)
	}
	return i.d.ctx.Err()
}

// listen opens a session's stream. It is not read: the kernel's buffer has room for the keep-alive comments.
func (l *httpLink) listen(ctx context.Context) error {
	conn, err := l.d.plan.connect(ctx)
	if err != nil {
		return err
	}
	_, _, err = l.d.plan.openEvents(conn, l.path, "MCP-Protocol-Version: "+l.session.version+"\r\nMcp-Session-Id: "+l.session.id+"\r\n")
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		_ = conn.Close() // the connection is of no further use
		return faultf(kindHandshake, "event stream: %v", broken(err))
	}
	l.mu.Lock()
	l.stream = &stream{conn: conn}
	l.mu.Unlock()
	return nil
}

// Close ends the sessions.
func (i *Idle) Close() {
	i.each(len(i.links), func(at int) {
		i.links[at].reader = bufio.NewReaderSize(nil, readBuffer)
		i.links[at].close()
	})
	i.links = nil
}

// Leave closes the connections without ending the sessions.
func (i *Idle) Leave() {
	for _, l := range i.links {
		l.hangUp()
		l.endStream()
	}
	i.links = nil
}

// each runs f n times, a bounded number at a time.
func (i *Idle) each(n int, f func(at int)) {
	places := make(chan struct{}, openers)
	var all sync.WaitGroup
	for at := range n {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			f(at)
		})
	}
	all.Wait()
}
