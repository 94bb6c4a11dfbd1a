package mux

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

const (
	// cancelTime bounds the writing of a cancellation.
	cancelTime = 5 * time.Second
	// waitingMessages and waitingBytes bound what waits for a server that does not read. A single message may be larger.
	waitingMessages = 16 << 10
	waitingBytes    = 64 << 20
)

// Lines is a channel that can carry large messages without copying them.
type Lines interface {
	// WriteParts writes one message given in parts. The caller guarantees that it contains no line end, which would
	// begin another message. The parts are borrowed until it returns. If it returns an error of ctx, nothing of the
	// message has been or will be written.
	WriteParts(ctx context.Context, parts ...[]byte) error
	// Keep may be called by the delivering goroutine during delivery. The message then stays valid until release, which
	// must be called exactly once, on any goroutine. Nil: the message cannot be kept, or is cheaper to copy.
	Keep() (release func())
	// Run returns what the reader knows of the structure of the message being delivered.
	Run() wire.Run
}

// Mux makes a Link of a channel on which all calls share one stream each way: the pipes of a process, or the two halves
// of HTTP+SSE. It replaces request ids and progress tokens by numbers that no other link has and restores them in
// replies, so several clients may use the same id, "12" and 12 stay distinct, and what a server sends to a channel that it
// is not for finds no call there.
type Mux struct {
	server proxy.Era
	write  func(ctx context.Context, call uint64, msg []byte) error
	lines  Lines // nil if the channel does not support it
	sink   transport.Sink
	transport.Pending
	waiting, waitingBytes atomic.Int64 // messages being written

	epoch time.Time
	clock clock
	watch *watch // nil: the server is not watched

	mu    sync.Mutex
	ids   transport.IDs
	calls map[uint64]*call
	lists [listKinds]callList
	tasks []*task // that calls became
	dead  error
}

// New returns a Mux for a server of the given era. write writes one whole message without line ends; call is the number of its call, 0
// for a message that is no request.
func New(server proxy.Era, write func(ctx context.Context, call uint64, msg []byte) error, sink transport.Sink) *Mux {
	return &Mux{server: server, write: write, sink: sink, epoch: time.Now(), calls: make(map[uint64]*call)}
}

// NewLines is New for a channel of lines.
func NewLines(server proxy.Era, lines Lines, sink transport.Sink) *Mux {
	x := New(server, func(ctx context.Context, _ uint64, msg []byte) error {
		if bytes.IndexByte(msg, '\n') >= 0 || bytes.IndexByte(msg, '\r') >= 0 {
			return errLineEnd
		}
		return lines.WriteParts(ctx, msg)
	}, sink)
	x.lines = lines
	return x
}

// Call implements Link.
func (x *Mux) Call(ex *proxy.Exchange) (proxy.Replies, error) {
	if err := ex.Err(); err != nil {
		return nil, err
	}
	m := &ex.Msg
	relays := x.relays(ex)
	c := proxy.Lend[call](ex, proxy.SlotWire)
	c.mux, c.ex = x, ex
	if w := x.watch; w != nil {
		c.heard, c.lasts, c.began = w.Heard(), m.Is("subscriptions/listen"), ex.Clock.Now()
	}
	c.relayed, c.logs = relays && !m.Is("initialize"), relays || ex.Client.LogLevel != ""
	c.tells, c.task, c.wake.L = telling(m), m.Token.Present() && (m.Task.Present() || !c.relayed), &c.mu
	x.mu.Lock()
	if dead := x.dead; dead != nil {
		x.mu.Unlock()
		return nil, proxy.Unsent(dead)
	}
	c.n = x.ids.Next()
	x.taskAwaited(c, m)
	c.Put(m, c.n)
	x.enter(c)
	x.mu.Unlock()
	if err := x.send(ex, c.n, m); err != nil {
		ex.DoNotRecycle() // Deliver may still hold the call
		if x.forget(c.n) && ex.Err() != nil && x.lines == nil {
			c.withdraw() // cancelled while being written: the server may have it
		}
		if proxy.IsFault(err, proxy.SessionLost) {
			c.Take(m) // another channel may get it
		}
		return nil, proxy.AsError(err)
	}
	ex.Attach(c)
	return c, nil
}

// send writes a message with its edits.
func (x *Mux) send(ctx context.Context, call uint64, m *wire.Message) error {
	size := m.Size()
	if err := x.admit(size); err != nil {
		return err
	}
	defer x.admitted(size)
	if x.lines == nil || !m.OneLine() {
		return x.write(ctx, call, m.AppendLine(make([]byte, 0, size)))
	}
	parts, ok := partLists.Get().(*[][]byte)
	if !ok {
		parts = new([][]byte)
	}
	*parts = m.Parts((*parts)[:0])
	err := x.lines.WriteParts(ctx, *parts...)
	clear(*parts)
	partLists.Put(parts)
	return err
}

// partLists recycles the slices that list the parts of a message.
var partLists sync.Pool

// admit reserves size bytes for a message, or fails if too much waits for a server that does not read. Each success
// needs a call of admitted.
func (x *Mux) admit(size int) error {
	n, bytes := x.waiting.Add(1), x.waitingBytes.Add(int64(size))
	if n > waitingMessages || n > 1 && bytes > waitingBytes {
		x.admitted(size)
		return proxy.Errf(proxy.Overloaded, "the upstream server does not read: %d messages, %d bytes, are waiting for it", n-1, bytes-int64(size))
	}
	return nil
}

func (x *Mux) admitted(size int) {
	x.waiting.Add(-1)
	x.waitingBytes.Add(-int64(size))
}

// enter registers a call. The caller holds mu.
func (x *Mux) enter(c *call) {
	x.calls[c.n] = c
	if c.logs {
		x.lists[logCalls].add(c, logCalls)
	}
	if c.relayed {
		x.lists[relayedCalls].add(c, relayedCalls)
	}
}

// take unregisters a call; nil if there is none. The caller holds mu.
func (x *Mux) take(n uint64) *call {
	c := x.calls[n]
	if c == nil {
		return nil
	}
	delete(x.calls, n)
	for kind := range x.lists {
		x.lists[kind].remove(c, kind)
	}
	return c
}

// only returns the only call in flight; nil if there are none or several. The caller holds mu.
func (x *Mux) only() *call {
	if len(x.calls) == 1 {
		for _, c := range x.calls {
			return c
		}
	}
	return nil
}

// forget unregisters a call that is given up, and reports whether it was registered.
func (x *Mux) forget(n uint64) bool {
	x.mu.Lock()
	c := x.take(n)
	x.mu.Unlock()
	if c == nil {
		return false
	}
	x.gaveUp(c)
	return true
}

// Send implements Link's Send.
func (x *Mux) Send(ctx context.Context, msg []byte) error {
	if err := x.admit(len(msg)); err != nil {
		return err
	}
	defer x.admitted(len(msg))
	return x.write(ctx, 0, msg)
}

// InFlight returns the number of calls that wait for a response.
func (x *Mux) InFlight() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.calls)
}

// Open reports whether a call waits for its response.
func (x *Mux) Open(call uint64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.calls[call] != nil
}

// Refuse ends one call with an error, if it waits for its response.
func (x *Mux) Refuse(call uint64, err error) {
	x.mu.Lock()
	c := x.take(call)
	x.mu.Unlock()
	if c != nil {
		c.fail(err)
	}
}

// Fail ends all calls, and every later one, with err.
func (x *Mux) Fail(err error) {
	x.mu.Lock()
	if x.dead != nil {
		x.mu.Unlock()
		return
	}
	x.dead = err
	x.ids.Release()
	calls := x.calls
	x.calls, x.lists = map[uint64]*call{}, [listKinds]callList{}
	x.mu.Unlock()
	for _, c := range calls {
		c.fail(err)
	}
}

// Deliver dispatches one message from the server to its call or to the sink. raw is borrowed until Deliver returns, or
// longer if Lines.Keep allows. Deliver never blocks. Its error says why raw is not a valid message; the channel stays
// usable.
func (x *Mux) Deliver(raw []byte) error { return x.deliver(raw, true) }

// deliver dispatches a message; whole is false for an element of a batch.
func (x *Mux) deliver(raw []byte, whole bool) error {
	var known wire.Run
	if whole && x.lines != nil {
		known = x.lines.Run()
	}
	m, err := wire.ScanKnown(raw, known)
	if err != nil {
		if m.ID.Present() && !m.Method.Present() && bytes.Contains(raw, []byte(`"jsonrpc"`)) {
			x.failMalformed(&m, proxy.Errf(proxy.BadAnswer, "the upstream server's answer is no JSON-RPC message: %w", err))
		}
		return err
	}
	switch m.Kind {
	case wire.Result, wire.Failure:
		x.respond(&m, whole)
	case wire.Batch:
		return x.unpack(&m, whole)
	default:
		x.announce(m, whole)
	}
	return nil
}

// announce dispatches requests and notifications. It is separate because a message handed to a Sink escapes to the heap.
func (x *Mux) announce(m wire.Message, whole bool) {
	if m.Kind == wire.Request {
		x.question(&m, whole)
	} else {
		x.notify(&m, whole)
	}
}

// errLineEnd rejects a message that contains a line end.
var errLineEnd = errors.New("era: a message with a line end in it is no line")

var errNested = errors.New("era: an array within an array, or without elements, is no message")

// unpack delivers the elements of a batch (revision 2025-03-26). An invalid element does not stop the others.
func (x *Mux) unpack(m *wire.Message, whole bool) error {
	if !whole {
		return errNested
	}
	var first error
	empty := true
	for _, s := range wire.Items(m.Raw, m.Whole()) {
		empty = false
		if err := x.deliver(s.Of(m.Raw), false); first == nil {
			first = err
		}
	}
	if empty {
		return errNested
	}
	return first
}

// TooLong fails the call whose answer could not be read: the one whose id the beginning or the end of the message names (some servers
// write the id last), or the only one in flight. Bytes that do not begin like a response are ignored.
func (x *Mux) TooLong(beginning, end []byte, err error) {
	if text := bytes.TrimSpace(beginning); len(text) == 0 || text[0] != '{' && text[0] != '[' {
		return
	}
	m, _ := wire.Scan(beginning) // fails, but may find the id first
	if m.Method.Present() {
		return
	}
	n, named := number(m.Of(m.ID))
	if !m.ID.Present() {
		n, named = lastID(end)
	}
	x.mu.Lock()
	c := x.only()
	if named {
		c = x.calls[n]
	}
	if c != nil {
		x.take(c.n)
	}
	x.mu.Unlock()
	if c != nil {
		c.fail(err)
	}
}

// failMalformed fails the call that a malformed response names. An id such as 7.0 counts as 7, since the call would
// otherwise wait for an answer in vain.
func (x *Mux) failMalformed(m *wire.Message, err error) {
	n, ok := number(m.Of(m.ID))
	if f, ferr := strconv.ParseFloat(string(m.Of(m.ID)), 64); !ok && ferr == nil && f > 0 && f < 1<<53 && f == math.Trunc(f) {
		n, ok = uint64(f), true
	}
	if !ok {
		return
	}
	x.mu.Lock()
	c := x.take(n)
	x.mu.Unlock()
	if c != nil {
		c.fail(err)
	}
}

func (x *Mux) respond(m *wire.Message, whole bool) {
	n, ok := number(m.Of(m.ID))
	x.mu.Lock()
	c := x.calls[n]
	if !ok {
		c = nil
		if m.Kind == wire.Failure && !m.ID.Present() {
			c = x.only() // an error without id, as to a probe the server could not read
		}
	}
	if c != nil {
		x.take(c.n)
	}
	x.mu.Unlock()
	if c == nil { // the late answer to a cancelled request, or one that is not for this channel
		transport.Report(x.sink, x.stray(n, ok))
		return
	}
	x.taskBegun(c, m)
	m.Edits = c.edits[:0]
	c.Restore(m)
	if s := m.Subscription; s.Present() && string(m.Of(s)) == string(c.ID) {
		m.Replace(s, c.OwnID())
	}
	c.put(m, true, whole)
}

// notify finds the call of a notification by progress token or subscription. Log messages name no call; they go to the
// only call that wants them.
func (x *Mux) notify(m *wire.Message, whole bool) {
	switch {
	case m.Is("notifications/progress"):
		c := x.owner(m.Text(m.ProgressToken))
		if c == nil { // the call has ended, and so must its progress, unless it became a task
			x.taskProgress(m, whole)
			return
		}
		c.Restore(m)
		c.put(m, false, whole)
	case m.Subscription.Present():
		n, ok := number(m.Of(m.Subscription))
		if !ok {
			return
		}
		x.mu.Lock()
		c := x.calls[n]
		x.mu.Unlock()
		if c != nil {
			m.Replace(m.Subscription, c.OwnID())
			c.put(m, false, whole)
		}
	case m.Is("notifications/message"):
		only, oldest := x.candidates(logCalls)
		switch {
		case only != nil && !x.alone(only):
		case only != nil:
			only.put(m, false, whole)
		case x.server == proxy.Legacy && !x.sink.Message(m) && oldest != nil && oldest.ex.Session != nil:
			oldest.put(m, false, whole) // all calls belong to the session that the link serves
		}
	case m.Is("notifications/cancelled"):
		x.question(m, whole) // it withdraws a question and follows the same route
	default:
		x.sink.Message(m)
	}
}

func (x *Mux) owner(token []byte) *call {
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

// candidates returns the oldest call in a list, and the only one if there is exactly one.
func (x *Mux) candidates(kind int) (only, oldest *call) {
	x.mu.Lock()
	defer x.mu.Unlock()
	r := &x.lists[kind]
	if r.count == 1 {
		only = r.oldest
	}
	return only, r.oldest
}

// question routes a request from the server, which names no call: to the only relayed call in flight, else to the sink,
// else to the oldest relayed call.
func (x *Mux) question(m *wire.Message, whole bool) {
	only, oldest := x.candidates(relayedCalls)
	switch {
	case only != nil:
		only.put(m, false, whole)
	case !x.sink.Message(m) && oldest != nil:
		oldest.put(m, false, whole)
	}
}

// relays reports whether an exchange belongs to the legacy client that the link serves.
func (x *Mux) relays(ex *proxy.Exchange) bool {
	return x.server == proxy.Legacy && ex.Client.Era == proxy.Legacy && ex.Session != nil
}
