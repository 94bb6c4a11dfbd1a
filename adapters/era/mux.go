package era

import (
	"bytes"
	"context"
	"io"
	"strconv"
	"sync"
	"time"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// The queue of one call on a shared channel. A client that does not read must not stop the others: beyond these bounds
// the oldest notifications are dropped, never the response.
const (
	queueMessages = 1024
	queueBytes    = 8 << 20
	// cancelTime bounds how long telling the server of a cancellation may wait for it to read.
	cancelTime = 5 * time.Second
)

// Mux makes a Link of a channel on which everything shares one stream each way: a process's pipes, or the two halves of
// HTTP+SSE. Request ids and progress tokens are its own, minted by counting, and restored on the way back; so several
// clients may use one id, and "12" and 12 stay two.
type Mux struct {
	server proxy.Era
	write  func(ctx context.Context, msg []byte) error
	sink   Sink
	Errands

	mu    sync.Mutex
	next  uint64
	calls map[uint64]*muxCall
	dead  error
}

// NewMux makes a mux for a server of the given era that writes whole messages, without line ends in them, with write.
func NewMux(server proxy.Era, write func(ctx context.Context, msg []byte) error, sink Sink) *Mux {
	return &Mux{server: server, write: write, sink: sink, calls: make(map[uint64]*muxCall)}
}

// Call implements Link.
func (x *Mux) Call(ex *proxy.Exchange) (proxy.Replies, error) {
	if err := ex.Err(); err != nil {
		return nil, err
	}
	m := &ex.Msg
	c := &muxCall{mux: x, ex: ex,
		relayed: x.relays(ex) && !m.Is("initialize"), logs: ex.Client.LogLevel != "" || x.relays(ex), wake: make(chan struct{}, 1)}
	x.mu.Lock()
	if dead := x.dead; dead != nil {
		x.mu.Unlock()
		return nil, unsent(dead)
	}
	x.next++
	c.n, c.Minted = x.next, Mint(m, x.next)
	x.calls[c.n] = c
	x.mu.Unlock()
	if err := x.write(ex, m.AppendLine(nil)); err != nil {
		if x.forget(c.n) && ex.Err() != nil {
			c.withdraw() // cancelled while being written: the server may have it
		}
		return nil, proxy.AsError(err)
	}
	ex.Attach(c)
	return c, nil
}

// unsent says of a call on a dead channel that it was not sent: it may be made anew elsewhere.
func unsent(dead error) error {
	return proxy.Errf(proxy.SessionLost, "%s", proxy.AsError(dead).Message)
}

func (x *Mux) forget(n uint64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	_, was := x.calls[n]
	delete(x.calls, n)
	return was
}

// Send implements Link's Send.
func (x *Mux) Send(ctx context.Context, msg []byte) error { return x.write(ctx, msg) }

// InFlight tells how many calls wait for their response.
func (x *Mux) InFlight() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.calls)
}

// Fail ends all calls with err, and every later one.
func (x *Mux) Fail(err error) {
	x.mu.Lock()
	if x.dead != nil {
		x.mu.Unlock()
		return
	}
	x.dead = err
	calls := x.calls
	x.calls = map[uint64]*muxCall{}
	x.mu.Unlock()
	for _, c := range calls {
		c.fail(err)
	}
}

// Deliver takes one message from the server: to the call it belongs to, or to the sink. raw is borrowed until it
// returns. It never waits. An error says why the bytes are no message; the channel goes on.
func (x *Mux) Deliver(raw []byte) error {
	m, err := wire.Scan(raw)
	if err != nil {
		if m.ID.Present() && !m.Method.Present() && bytes.Contains(raw, []byte(`"jsonrpc"`)) {
			x.garbled(&m, proxy.Errf(proxy.BadAnswer, "the upstream server's answer is no JSON-RPC message: %w", err))
		}
		return err
	}
	switch m.Kind {
	case wire.Result, wire.Failure:
		x.respond(&m)
	case wire.Batch:
		for _, s := range wire.Items(m.Raw, m.Whole()) {
			if err := x.Deliver(s.Of(m.Raw)); err != nil {
				return err
			}
		}
	case wire.Request:
		x.question(&m)
	default:
		x.notify(&m)
	}
	return nil
}

// Unreadable ends the call that was answered with what cannot be read, as far as its beginning tells which that was: the
// one whose id it names, or the only one there is.
func (x *Mux) Unreadable(beginning []byte, err error) {
	m, _ := wire.Scan(beginning) // it fails at the end at the latest; the id may come before
	n, perr := strconv.ParseUint(string(m.Of(m.ID)), 10, 64)
	x.mu.Lock()
	if perr != nil && len(x.calls) == 1 {
		for n = range x.calls {
			break
		}
	}
	c := x.calls[n]
	delete(x.calls, n)
	x.mu.Unlock()
	if c != nil {
		c.fail(err)
	}
}

// garbled ends the call whose answer names it, and is no message.
func (x *Mux) garbled(m *wire.Message, err error) {
	n, perr := strconv.ParseUint(string(m.Of(m.ID)), 10, 64)
	x.mu.Lock()
	c := x.calls[n]
	delete(x.calls, n)
	x.mu.Unlock()
	if perr == nil && c != nil {
		c.fail(err)
	}
}

func (x *Mux) respond(m *wire.Message) {
	n, err := strconv.ParseUint(string(m.Of(m.ID)), 10, 64)
	x.mu.Lock()
	if err != nil && m.Kind == wire.Failure && !m.ID.Present() && len(x.calls) == 1 {
		for n = range x.calls { // an error without id, as to a probe the server could not read
			break
		}
	}
	c := x.calls[n]
	delete(x.calls, n)
	x.mu.Unlock()
	if c == nil {
		return // the late answer to a cancelled request
	}
	c.Restore(m)
	if s := m.Subscription; s.Present() && string(m.Of(s)) == strconv.FormatUint(n, 10) {
		m.Replace(s, c.id)
	}
	c.put(m, true)
}

// notify finds the call a notification belongs to: by progress token, by subscription, or, for log messages, which name
// none, by being the only one that wants any.
func (x *Mux) notify(m *wire.Message) {
	switch {
	case m.Is("notifications/progress"):
		c := x.owner(m.Text(m.ProgressToken))
		if c == nil {
			return // the call has ended, and so must its progress
		}
		c.Restore(m)
		c.put(m, false)
	case m.Subscription.Present():
		n, err := strconv.ParseUint(string(m.Of(m.Subscription)), 10, 64)
		if err != nil {
			return
		}
		x.mu.Lock()
		c := x.calls[n]
		x.mu.Unlock()
		if c != nil {
			m.Replace(m.Subscription, c.id)
			c.put(m, false)
		}
	case m.Is("notifications/message"):
		only, oldest := x.among(func(c *muxCall) bool { return c.logs })
		switch {
		case only != nil:
			only.put(m, false)
		case x.server == proxy.Legacy && !x.sink.Message(m) && oldest != nil && oldest.ex.Session != nil:
			oldest.put(m, false) // all calls are of the one session that the link is for
		}
	case m.Is("notifications/cancelled"):
		x.question(m) // of a question: it goes where that went
	default:
		x.sink.Message(m)
	}
}

func (x *Mux) owner(token []byte) *muxCall {
	if len(token) < 2 || token[0] != 'p' {
		return nil
	}
	n, err := strconv.ParseUint(string(token[1:]), 10, 64)
	if err != nil {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.calls[n]
}

// among finds the only call that is meant, if there is exactly one, and the oldest.
func (x *Mux) among(meant func(c *muxCall) bool) (only, oldest *muxCall) {
	x.mu.Lock()
	defer x.mu.Unlock()
	count := 0
	for _, c := range x.calls {
		if meant(c) {
			count++
			if oldest == nil || c.n < oldest.n {
				oldest = c
			}
		}
	}
	if count == 1 {
		only = oldest
	}
	return only, oldest
}

// question finds the call that a server's question belongs to, which names none: of a link that one legacy client has to
// itself, the only call in flight; else the client's stream for what belongs to none; else the oldest call.
func (x *Mux) question(m *wire.Message) {
	only, oldest := x.among(func(c *muxCall) bool { return c.relayed })
	switch {
	case only != nil:
		only.put(m, false)
	case !x.sink.Message(m) && oldest != nil:
		oldest.put(m, false)
	}
}

// relays tells whether an exchange is of the legacy client that the link is for.
func (x *Mux) relays(ex *proxy.Exchange) bool {
	return x.server == proxy.Legacy && ex.Client.Era == proxy.Legacy && ex.Session != nil
}

// muxCall is one call: its replies wait in a queue that the reader of the channel fills.
type muxCall struct {
	mux     *Mux
	ex      *proxy.Exchange
	n       uint64
	*Minted      // what stands for the client's own id and token
	relayed bool // it is of the one legacy client that the link is for
	logs    bool // it wants log messages

	mu    sync.Mutex
	queue [][]byte
	size  int
	ended bool // the response is in the queue, or has been given out
	given bool // the response has been given out
	err   error
	wake  chan struct{}
}

// put copies a message, with its edits, into the queue.
func (c *muxCall) put(m *wire.Message, final bool) {
	raw := m.Append(nil)
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return
	}
	for !final && len(c.queue) > 0 && (len(c.queue) >= queueMessages || c.size+len(raw) > queueBytes) {
		c.size -= len(c.queue[0])
		c.queue = c.queue[1:]
	}
	c.queue = append(c.queue, raw)
	c.size += len(raw)
	c.ended = final
	c.mu.Unlock()
	c.signal()
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
		if len(c.queue) > 0 {
			raw := c.queue[0]
			c.queue = c.queue[1:]
			c.size -= len(raw)
			c.given = c.ended && len(c.queue) == 0
			c.mu.Unlock()
			return wire.Scan(raw)
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
	go func() {
		defer sent()
		ctx, cancel := context.WithTimeout(context.Background(), cancelTime)
		defer cancel()
		msg := strconv.AppendUint([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`), c.n, 10)
		_ = c.mux.write(ctx, append(msg, "}}"...))
	}()
}

// Close implements proxy.Replies.
func (c *muxCall) Close() error {
	c.ex.Detach(c)
	c.Abort()
	return nil
}
