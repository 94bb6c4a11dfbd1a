package mux

import (
	"context"
	"io"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

const (
	// The queue of one call on a shared channel. A client that does not read must not stop the others: beyond these bounds
	// the oldest notifications are dropped, never the response.
	queueMessages = 1024
	queueBytes    = 8 << 20
	// minKeep is the shortest message that is worth being kept where it was read.
	minKeep = 32 << 10
)

// call is one call. The channel's reader puts its replies in a queue.
type call struct {
	mux              *Mux
	ex               *proxy.Exchange
	n                uint64
	transport.Minted           // replaces the client's id and token
	relayed          bool      // it belongs to the one legacy client that the link serves
	logs             bool      // it wants log messages
	task             bool      // it may ask to run as a task, and asks for progress
	tells            bool      // see telling
	lasts            bool      // it is a listen
	heard            uint64    // bytes that had come from the server when it was made
	began            time.Time // not read unless the server is watched

	positions [listKinds]listPosition

	mu       sync.Mutex
	queue    []queued
	size     int
	ended    bool   // the response is queued or has been returned
	returned bool   // the response has been returned
	closed   bool   // Close has been called
	last     queued // the message returned last; its memory is released by the next call
	err      error
	wake     sync.Cond     // signals the goroutine in Next; uses mu
	until    time.Duration // deadline of the waiting Next, since mux.epoch; 0: none
	late     bool          // that deadline has passed

	// Memory that most calls need, allocated with the call.
	room     [1]queued
	response wire.Message
	edits    [2]wire.Edit // of the response
}

// Clear implements proxy.Clearer.
func (c *call) Clear() { *c = call{} }

// queued is a message in the queue: a copy, or a message kept in the buffer it was read into.
type queued struct {
	raw     []byte
	msg     *wire.Message // nil: raw must be scanned again
	buf     *[]byte       // memory of a copy
	release func()        // releases a kept buffer
}

func (q *queued) drop() {
	copies.put(q.buf)
	if q.release != nil {
		q.release()
	}
	*q = queued{}
}

// copies recycles the memory of copied messages.
var copies copyPool

type copyPool struct{ pool sync.Pool }

func (p *copyPool) get(n int) *[]byte {
	b, ok := p.pool.Get().(*[]byte)
	if !ok {
		b = new([]byte)
	}
	*b = slices.Grow((*b)[:0], n)
	return b
}

// put recycles memory; nil is ignored. Large buffers are left to the collector.
func (p *copyPool) put(b *[]byte) {
	if b != nil && cap(*b) <= 2*minKeep {
		p.pool.Put(b)
	}
}

// put queues a message with its edits: without a copy if it is large, whole, and the channel allows it.
func (c *call) put(m *wire.Message, final, whole bool) {
	q := c.retain(m, final, whole)
	c.mu.Lock()
	if c.ended || c.closed {
		c.mu.Unlock()
		q.drop()
		return
	}
	for !final && len(c.queue) > 0 && (len(c.queue) >= queueMessages || c.size+len(q.raw) > queueBytes) {
		old := c.pop()
		old.drop()
	}
	if c.queue == nil {
		c.queue = c.room[:0]
	}
	c.queue = append(c.queue, q)
	c.size += len(q.raw)
	c.ended = final
	c.wake.Signal() // under the lock: the woken goroutine may recycle c
	c.mu.Unlock()
}

// retain makes a message outlive the Deliver that received it. The response of the call is stored in c.response.
func (c *call) retain(m *wire.Message, final, whole bool) queued {
	if m.Subscription.Present() { // its place may be edited once, and a listen's reader edits it again
		return queued{raw: m.Append(make([]byte, 0, m.Size()))}
	}
	q := queued{msg: &c.response}
	if !final {
		q.msg = new(wire.Message)
	}
	if whole && c.mux.lines != nil && len(m.Raw) >= minKeep {
		q.release = c.mux.lines.Keep()
	}
	*q.msg = *m
	if q.release == nil {
		q.buf = copies.get(len(m.Raw))
		*q.buf = append(*q.buf, m.Raw...)
		q.msg.Raw = *q.buf
	}
	q.raw = q.msg.Raw
	return q
}

// pop removes the oldest message. The caller holds mu; the queue is not empty.
func (c *call) pop() queued {
	q := c.queue[0]
	c.queue[0] = queued{}
	c.queue = c.queue[1:]
	c.size -= len(q.raw)
	return q
}

func (c *call) fail(err error) {
	c.mu.Lock()
	if c.err == nil && !c.ended {
		c.err = err
	}
	c.wake.Signal() // as above
	c.mu.Unlock()
}

// Next implements proxy.Replies.
func (c *call) Next(until time.Time) (*wire.Message, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last.drop()
	for waits := false; ; waits = true {
		switch {
		case len(c.queue) > 0:
			c.until, c.late = 0, false
			c.last = c.pop()
			c.returned = c.ended && len(c.queue) == 0
			if c.last.msg != nil {
				return c.last.msg, nil
			}
			return proxy.Scanned(c.last.raw)
		case c.returned:
			return nil, io.EOF
		case c.err != nil:
			return nil, c.err
		case c.late:
			c.until, c.late = 0, false
			return nil, proxy.ErrNotYet
		}
		if !waits && !until.IsZero() {
			c.until = max(until.Sub(c.mux.epoch), 1)
			c.mux.clock.arm(c.mux, c.until)
		}
		c.wake.Wait()
	}
}

// tick wakes Next if its deadline has passed, and returns a deadline still to come, 0 if there is none.
func (c *call) tick(now time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.until == 0 || c.until > now {
		return c.until
	}
	c.until, c.late = 0, true
	c.wake.Signal()
	return 0
}

// clock wakes the calls of a mux whose deadlines have passed. One timer serves them all. It fires at the earliest
// deadline known when it was set, by which time most calls are over.
type clock struct {
	due   atomic.Int64 // when the timer fires at the latest, since the mux epoch; 0: stopped
	mu    sync.Mutex
	timer *time.Timer
}

const (
	// longTimer bounds the timer, and with it how long an abandoned mux stays in memory.
	longTimer = time.Minute
	// manyCalls is the number of calls beyond which deadlines lose precision: scans of all calls are then at least one
	// microsecond per call apart.
	manyCalls = 64
)

// arm makes the timer fire at the given time at the latest. The call's until must be set before.
func (k *clock) arm(x *Mux, at time.Duration) {
	if due := k.due.Load(); due != 0 && due <= int64(at) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if due := k.due.Load(); due != 0 && due <= int64(at) {
		return
	}
	now := time.Since(x.epoch)
	at = min(at, now+longTimer)
	k.due.Store(int64(max(at, 1)))
	if k.timer == nil {
		k.timer = time.AfterFunc(at-now, x.tick)
	} else {
		k.timer.Reset(at - now)
	}
}

// tick checks the deadlines of all calls.
func (x *Mux) tick() {
	x.clock.due.Store(0) // before the scan: later calls set the timer themselves
	now := time.Since(x.epoch)
	var next time.Duration
	x.mu.Lock()
	for _, c := range x.calls {
		if at := c.tick(now); at != 0 && (next == 0 || at < next) {
			next = at
		}
	}
	if n := len(x.calls); next != 0 && n > manyCalls {
		next = max(next, now+time.Duration(n)*time.Microsecond)
	}
	x.mu.Unlock()
	if next != 0 {
		x.clock.arm(x, next)
	}
}

// Abort implements proxy.Aborter: it ends Next and sends the server a cancellation, without waiting for it to be read.
func (c *call) Abort() {
	if !c.mux.forget(c.n) {
		return
	}
	c.fail(proxy.ErrCancelled)
	c.withdraw()
}

// withdraw sends the server a cancellation in the background.
func (c *call) withdraw() {
	if c.ex.Msg.Is("initialize") {
		return // MUST NOT be cancelled
	}
	x, sent, text := c.mux, c.mux.Begin(), c.cancellation()
	ctx := proxy.WithForwarded(context.Background(), c.ex.Caller.Forwarded)
	go func() {
		defer sent()
		ctx, cancel := context.WithTimeout(ctx, cancelTime)
		defer cancel()
		_ = x.Send(ctx, text) // best effort
	}()
}

// Close implements proxy.Replies.
func (c *call) Close() error {
	c.ex.Detach(c)
	c.Abort()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended { // Deliver may still hold the call until its response
		c.ex.DoNotRecycle()
	}
	c.closed = true
	c.last.drop()
	for len(c.queue) > 0 {
		q := c.pop()
		q.drop()
	}
	return nil
}

// Messages that name no call may belong to one of several calls. A list has the candidates for one kind of message, by age.
const (
	logCalls     = iota // calls that want log messages
	relayedCalls        // calls of the one legacy client that the link serves
	listKinds
)

// callList is a list of calls from oldest to newest.
type callList struct {
	oldest, newest *call
	count          int
}

// listPosition is the position of a call in a list.
type listPosition struct {
	older, newer *call
	in           bool
}

// add appends a call.
func (r *callList) add(c *call, kind int) {
	c.positions[kind] = listPosition{older: r.newest, in: true}
	if r.newest == nil {
		r.oldest = c
	} else {
		r.newest.positions[kind].newer = c
	}
	r.newest = c
	r.count++
}

// remove removes a call that is in the list.
func (r *callList) remove(c *call, kind int) {
	p := c.positions[kind]
	if !p.in {
		return
	}
	c.positions[kind] = listPosition{}
	if p.older == nil {
		r.oldest = p.newer
	} else {
		p.older.positions[kind].newer = p.newer
	}
	if p.newer == nil {
		r.newest = p.older
	} else {
		p.newer.positions[kind].older = p.older
	}
	r.count--
}

// cancellation returns the notifications/cancelled for the call.
func (c *call) cancellation() []byte {
	return append(strconv.AppendUint([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`), c.n, 10), "}}"...)
}

// GiveUp cancels the call at the server and returns once the cancellation is written, so that no later message overtakes
// it. The call still receives replies until Drop.
func (c *call) GiveUp(ctx context.Context) {
	c.ex.Detach(c) // the cancellation is sent once only
	ctx, cancel := context.WithTimeout(ctx, cancelTime)
	defer cancel()
	_ = c.mux.write(ctx, 0, c.cancellation()) // a pipe that is broken ends the call too
}

// Drop ends the call locally with why. Nothing is sent, and later replies are dropped.
func (c *call) Drop(why error) {
	c.mux.forget(c.n)
	c.fail(why)
}

// Requested reports whether the server knows the call as request n.
func (c *call) Requested(n uint64) bool { return c.n == n }
