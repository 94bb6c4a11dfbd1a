package drive

import (
	"context"
	"errors"
	"time"
)

// Callers opens the clients of one plan one by one, for measurements that count sessions rather than calls.
type Callers struct{ d *driver }

// NewCallers checks a plan. Its connections, durations and numbers of calls are ignored.
func NewCallers(ctx context.Context, p Plan) (*Callers, error) {
	p.Connections, p.Processes, p.Duration, p.Requests, p.Warmup, p.Rate = 1, 0, 0, 1, 0, 0
	if p.Face.Stdio() {
		return nil, errors.New("drive: the clients of a stdio server are not opened one by one")
	}
	if err := p.complete(); err != nil {
		return nil, err
	}
	return &Callers{newDriver(ctx, &p)}, nil
}

// Open connects a client and opens its session, if the face has sessions. It may be called concurrently.
func (c *Callers) Open() (*Caller, error) {
	l := newHTTPLink(c.d)
	if err := l.open(c.d.ctx); err != nil {
		l.hangUp()
		l.endStream()
		return nil, err
	}
	return &Caller{link: l, w: &worker{d: c.d, link: l, digits: make([]byte, numberLen), at: -1}}, nil
}

// Caller is one client, with a connection and a session of its own. It is used by one goroutine at a time.
type Caller struct {
	link *httpLink
	w    *worker
}

// Call makes the plan's first call and returns what is wrong with the answer.
func (c *Caller) Call() error { return c.w.call(0, time.Now()) }

// Session is the id of the session; empty if the server gave none.
func (c *Caller) Session() string { return c.link.session.id }

// Leave closes the connections without ending the session: no DELETE is sent. It may be called again.
func (c *Caller) Leave() {
	c.link.hangUp()
	c.link.endStream()
}
