package era

import (
	"context"
	"io"
	"sync"
	"time"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

const (
	// The queue of one call on a shared channel. A client that does not read must not stop the others: beyond these bounds
	// the oldest notifications are dropped, never the response.
	queueMessages = 1024
	queueBytes    = 8 << 20
	// keepLeast is the shortest message that is worth being kept where it was read.
	keepLeast = 32 << 10
)

// muxCall is one call: its replies wait in a queue that the reader of the channel fills.
type muxCall struct {
	mux     *Mux
	ex      *proxy.Exchange
	n       uint64
	*Minted      // what stands for the client's own id and token
	relayed bool // it is of the one legacy client that the link is for
	logs    bool // it wants log messages

	places [rows]place

	mu     sync.Mutex
	queue  []queued
	size   int
	ended  bool   // the response is in the queue, or has been given out
	given  bool   // the response has been given out
	closed bool   // nobody will ask any more
	lent   func() // gives back the message that was given out last; nil if it needs none
	err    error
	wake   chan struct{}
}

// queued is a message that waits: a copy, or one that is kept where it was read.
type queued struct {
	raw     []byte
	msg     *wire.Message // if it is kept
	release func()        // likewise
}

func (q queued) drop() {
	if q.release != nil {
		q.release()
	}
}

// put takes a message, with its edits, into the queue: as it is, if it is large, whole, and the channel lets it be kept; else
// a copy.
func (c *muxCall) put(m *wire.Message, final, whole bool) {
	q := c.mux.hold(m, whole)
	c.mu.Lock()
	if c.ended || c.closed {
		c.mu.Unlock()
		q.drop()
		return
	}
	for !final && len(c.queue) > 0 && (len(c.queue) >= queueMessages || c.size+len(q.raw) > queueBytes) {
		c.pop().drop()
	}
	c.queue = append(c.queue, q)
	c.size += len(q.raw)
	c.ended = final
	c.mu.Unlock()
	c.signal()
}

// hold makes a message last beyond the Deliver it came with.
func (x *Mux) hold(m *wire.Message, whole bool) queued {
	tagged := m.Subscription.Present() // its place may be edited once, and a listen's reader edits it again
	if whole && x.lines != nil && !tagged && len(m.Raw) >= keepLeast {
		if release := x.lines.Keep(); release != nil {
			kept := *m
			return queued{raw: m.Raw, msg: &kept, release: release}
		}
	}
	return queued{raw: m.Append(make([]byte, 0, m.Size()))}
}

// pop takes the oldest message out. The caller holds mu, and there is one.
func (c *muxCall) pop() queued {
	q := c.queue[0]
	c.queue[0] = queued{}
	c.queue = c.queue[1:]
	c.size -= len(q.raw)
	return q
}

func (c *muxCall) fail(err error) {
	c.mu.Lock()
	if c.err == nil && !c.ended {
		c.err = err
	}
	c.mu.Unlock()
	c.signal()
}

func (c *muxCall) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Next implements proxy.Replies.
func (c *muxCall) Next(until time.Time) (wire.Message, error) {
	var timer *time.Timer
	for {
		c.mu.Lock()
		c.giveBack()
		if len(c.queue) > 0 {
			q := c.pop()
			c.given = c.ended && len(c.queue) == 0
			c.lent = q.release
			c.mu.Unlock()
			if q.msg != nil {
				return *q.msg, nil
			}
			return wire.Scan(q.raw)
		}
		given, err := c.given, c.err
		c.mu.Unlock()
		switch {
		case given:
			return wire.Message{}, io.EOF
		case err != nil:
			return wire.Message{}, err
		}
		if timer == nil && !until.IsZero() {
			timer = time.NewTimer(time.Until(until))
			defer timer.Stop()
		}
		if !c.wait(timer) {
			return wire.Message{}, proxy.ErrNotYet
		}
	}
}

// giveBack ends the loan of the message that was given out last. The caller holds mu.
func (c *muxCall) giveBack() {
	if c.lent != nil {
		c.lent()
		c.lent = nil
	}
}

func (c *muxCall) wait(timer *time.Timer) bool {
	if timer == nil {
		<-c.wake
		return true
	}
	select {
	case <-c.wake:
		return true
	case <-timer.C:
		return false
	}
}

// Abort implements proxy.Aborter: the server is told, and Next ends. It does not wait for the server to read.
func (c *muxCall) Abort() {
	if !c.mux.forget(c.n) {
		return
	}
	c.fail(proxy.ErrCancelled)
	c.withdraw()
}

// withdraw tells the server that the call is given up.
func (c *muxCall) withdraw() {
	if c.ex.Msg.Is("initialize") {
		return // MUST NOT be cancelled
	}
	sent := c.mux.Begin()
	ctx := proxy.Carry(context.Background(), c.ex.Caller.Carried)
	go func() {
		defer sent()
		ctx, cancel := context.WithTimeout(ctx, cancelTime)
		defer cancel()
		_ = c.mux.Send(ctx, c.cancellation()) // a server that does not read needs no more than the others
	}()
}

// Close implements proxy.Replies.
func (c *muxCall) Close() error {
	c.ex.Detach(c)
	c.Abort()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.giveBack()
	for len(c.queue) > 0 {
		c.pop().drop()
	}
	return nil
}

// Calls that something could be meant for which names none stand in a row by age, a row for each kind of thing.
const (
	rowLogs    = iota // those that want log messages
	rowRelayed        // those of the one legacy client that the link is for
	rows
)

// row is the calls of a kind.
type row struct {
	oldest, newest *muxCall
	count          int
}

// place is where a call stands in a row.
type place struct {
	older, newer *muxCall
	in           bool
}

// add puts a call behind all others.
func (r *row) add(c *muxCall, kind int) {
	c.places[kind] = place{older: r.newest, in: true}
	if r.newest == nil {
		r.oldest = c
	} else {
		r.newest.places[kind].newer = c
	}
	r.newest = c
	r.count++
}

// remove takes a call out, if it is in.
func (r *row) remove(c *muxCall, kind int) {
	p := c.places[kind]
	if !p.in {
		return
	}
	c.places[kind] = place{}
	if p.older == nil {
		r.oldest = p.newer
	} else {
		p.older.places[kind].newer = p.newer
	}
	if p.newer == nil {
		r.newest = p.older
	} else {
		p.newer.places[kind].older = p.older
	}
	r.count--
}
