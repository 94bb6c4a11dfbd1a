package drive

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"sync"
)

// MaxSessions is how many idle sessions there may be.
const MaxSessions = 20_000

// Idle is sessions that are open and do nothing: those of streamable HTTP without a connection, those of HTTP+SSE with their stream.
type Idle struct {
	d     *driver
	links []*httpLink
}

// NewIdle makes an Idle without sessions. Of the plan it needs what says where the server is. Close it.
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
		l.reader = nil // sixteen kilobytes for nobody
		mu.Lock()
		defer mu.Unlock()
		if err == nil && l.session.id == "" && l.stream == nil {
			err = errors.New("the server gives no session ids")
		}
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

// Close ends the sessions.
func (i *Idle) Close() {
	i.each(len(i.links), func(at int) {
		i.links[at].reader = bufio.NewReaderSize(nil, readBuffer)
		i.links[at].close()
	})
	i.links = nil
}

// each runs f so many times, some at a time.
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
