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

// call is one call: its replies wait in a queue that the reader of the channel fills.
type call struct {
	mux              *Mux
	ex               *proxy.Exchange
	n                uint64
	transport.Minted      // what stands for the client's own id and token
	relayed          bool // it is of the one legacy client that the link is for
	logs             bool // it wants log messages

	places [rows]place

	mu     sync.Mutex
	queue  []queued
	size   int
	ended  bool   // the response is in the queue, or has been given out
	given  bool   // the response has been given out
	closed bool   // nobody will ask any more
	lent   queued // the message that was given out last; what it stands in is given back
	err    error
	wake   sync.Cond     // of mu: for who waits in Next
	until  time.Duration // till when he does, since mux.epoch; 0: for ever, or nobody does
	late   bool          // that time has come

	// What most calls need of memory, in one piece with the rest.
	room     [1]queued
	response wire.Message
	edits    [2]wire.Edit // of the response
}

// Clear implements proxy.Clearer.
func (c *call) Clear() { *c = call{} }

// queued is a message that waits: a copy, or one that is kept where it was read.
type queued struct {
	raw     []byte
	msg     *wire.Message // nil: raw is to be read anew
	buf     *[]byte       // the memory of a copy
	release func()        // of what is kept
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

// put takes memory back; nil is nothing. What may have been large is left to the collector.
func (p *copyPool) put(b *[]byte) {
	if b != nil && cap(*b) <= 2*minKeep {
		p.pool.Put(b)
	}
}

// put takes a message, with its edits, into the queue: as it is, if it is large, whole, and the channel lets it be kept; else
// a copy.
func (c *call) put(m *wire.Message, final, whole bool) {
	q := c.hold(m, final, whole)
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
	c.wake.Signal() // under the lock: who is woken may give c back
	c.mu.Unlock()
}

// hold makes a message last beyond the Deliver it came with. The one response of the call becomes c.response.
func (c *call) hold(m *wire.Message, final, whole bool) queued {
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

// pop takes the oldest message out. The caller holds mu, and there is one.
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
	c.lent.drop()
	for waits := false; ; waits = true {
		switch {
		case len(c.queue) > 0:
			c.until, c.late = 0, false
			c.lent = c.pop()
			c.given = c.ended && len(c.queue) == 0
			if c.lent.msg != nil {
				return c.lent.msg, nil
			}
			return proxy.Scanned(c.lent.raw)
		case c.given:
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

// tick tells who waits in Next if his time has come by now, and answers when it will come: 0 if never.
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

// clock wakes those of a mux's calls whose time has come. One timer serves them all: it runs until the first of those times that
// was known when it was set, by which time most calls are over.
type clock struct {
	due   atomic.Int64 // when the timer fires at the latest, since the mux's epoch; 0: it does not run
	mu    sync.Mutex
	timer *time.Timer
}

const (
	// longTimer bounds how long the timer runs, and with it how long it may keep a mux that nobody needs any more.
	longTimer = time.Minute
	// Beyond so many calls their times are not kept to the microsecond: as many of these as there are calls lie between two looks
	// at all of them.
	manyCalls = 64
)

// arm has the timer fire at the given time at the latest. The call's own until must be set before.
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

// tick looks at all calls.
func (x *Mux) tick() {
	x.clock.due.Store(0) // before looking: who comes later sets the timer himself
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

// Abort implements proxy.Aborter: the server is told, and Next ends. It does not wait for the server to read.
func (c *call) Abort() {
	if !c.mux.forget(c.n) {
		return
	}
	c.fail(proxy.ErrCancelled)
	c.withdraw()
}

// withdraw tells the server that the call is given up.
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
		_ = x.Send(ctx, text) // a server that does not read needs no more than the others
	}()
}

// Close implements proxy.Replies.
func (c *call) Close() error {
	c.ex.Detach(c)
	c.Abort()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended { // whoever delivers may hold it, and find another's call in its place; after the response nobody does
		c.ex.DoNotRecycle()
	}
	c.closed = true
	c.lent.drop()
	for len(c.queue) > 0 {
		q := c.pop()
		q.drop()
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
	oldest, newest *call
	count          int
}

// place is where a call stands in a row.
type place struct {
	older, newer *call
	in           bool
}

// add puts a call behind all others.
func (r *row) add(c *call, kind int) {
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
func (r *row) remove(c *call, kind int) {
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

// cancellation is the notification that gives the call up.
func (c *call) cancellation() []byte {
	return append(strconv.AppendUint([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`), c.n, 10), "}}"...)
}

// GiveUp tells the server that the call is given up and returns when that is written, so that nothing is written before it. The
// call goes on to receive what the server still sends, until Drop.
func (c *call) GiveUp(ctx context.Context) {
	c.ex.Detach(c) // the server is told once only
	ctx, cancel := context.WithTimeout(ctx, cancelTime)
	defer cancel()
	_ = c.mux.write(ctx, c.cancellation()) // a pipe that is broken ends the call too
}

// Drop ends the call on this side, with why. The server is told nothing, and what it still sends is dropped.
func (c *call) Drop(why error) {
	c.mux.forget(c.n)
	c.fail(why)
}

// Requested reports whether the server knows the call as request n.
func (c *call) Requested(n uint64) bool { return c.n == n }
