package session

import (
	"bytes"
	"errors"
	"runtime"
	"time"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Run passes one request of a legacy client to the handler, as part of its session: the exchange gets the client of the handshake, it is
// in flight until its replies are closed, and its success is recorded in the session. The exchange must not be used for anything else.
func Run(s *proxy.Session, ex *proxy.Exchange, handle proxy.Handler) (proxy.Replies, error) {
	c := proxy.Lend[trackedReplies](ex, proxy.SlotSession)
	if err := c.enter(s, ex); err != nil {
		return nil, refuse(ex, err, s.Refused)
	}
	return c.run(handle)
}

// Entry is a request that is in flight in its session, but not passed to the handler yet.
type Entry struct {
	c       *trackedReplies
	refused *proxy.Error // why it was refused
}

// Begin is the first part of Run; Entry.Run is the rest and must be called once. An adapter that runs requests on other goroutines calls
// Begin before, in the order of the client's messages: then a cancellation that follows finds the request, which reaches the handler as
// a cancelled exchange.
func Begin(s *proxy.Session, ex *proxy.Exchange) Entry {
	c := proxy.Lend[trackedReplies](ex, proxy.SlotSession)
	return Entry{c, c.enter(s, ex)}
}

// Run passes the request to the handler.
func (e Entry) Run(handle proxy.Handler) (proxy.Replies, error) {
	if e.refused != nil {
		return nil, refuse(e.c.ex, e.refused, e.c.s.Refused)
	}
	if ex := e.c.ex; !ex.Msg.Is("initialize") {
		ex.Client = e.c.s.Client() // it may have changed since Begin
	}
	return e.c.run(handle)
}

// refuse has the refusal of an exchange recorded, and returns it.
func refuse(ex *proxy.Exchange, err *proxy.Error, record proxy.Handler) error {
	if record == nil {
		return err
	}
	ex.Refusal = err
	_, again := record(ex)
	return again
}

// Enter is Begin, and returns Entry.Run as a handler.
func Enter(s *proxy.Session, ex *proxy.Exchange, handle proxy.Handler) proxy.Handler {
	e := Begin(s, ex)
	return func(*proxy.Exchange) (proxy.Replies, error) { return e.Run(handle) }
}

func (c *trackedReplies) enter(s *proxy.Session, ex *proxy.Exchange) *proxy.Error {
	ex.Session, ex.Server = s, s.Server
	claim(s, ex)
	ex.Client = s.Client()
	m := &ex.Msg
	c.s, c.ex = s, ex
	if m.Is("initialize") {
		if s.State() == proxy.Initialized {
			return proxy.Errf(proxy.InvalidRequest, "this session is initialized already")
		}
		c.offer = proxy.Client{Version: string(m.Text(m.ParamsVersion)),
			Info: bytes.Clone(m.Of(m.ParamsInfo)), Caps: bytes.Clone(m.Of(m.ParamsCaps))}
		ex.Client = c.offer
	}
	if m.Is("logging/setLevel") {
		c.level = string(m.Text(m.Level))
	}
	return s.Begin(ex)
}

func (c *trackedReplies) run(handle proxy.Handler) (proxy.Replies, error) {
	replies, err := handle(c.ex)
	if err != nil || replies == nil {
		c.s.Finish(c.ex)
		return nil, err
	}
	c.Replies = replies
	return c, nil
}

// claim sets the caller of the exchange. It keeps one with a credential of its own, which may differ from the one that opened the session;
// without one, the caller is the session's.
func claim(s *proxy.Session, ex *proxy.Exchange) {
	carried := ex.Caller.Forwarded
	switch {
	case !ex.Caller.Is(&s.Caller):
		ex.Caller = s.Caller
	case ex.Caller.Rights == nil:
		ex.Caller = s.Caller
		ex.Caller.Forwarded = carried // each request has its own
	}
}

// trackedReplies records in the session what the replies of a request change.
type trackedReplies struct {
	proxy.Replies
	s     *proxy.Session
	ex    *proxy.Exchange
	offer proxy.Client // of an initialize request
	level string       // of a logging/setLevel
}

// Clear implements proxy.Clearer.
func (c *trackedReplies) Clear() { *c = trackedReplies{} }

func (c *trackedReplies) Next(until time.Time) (m *wire.Message, err error) {
	m, err = c.Replies.Next(until)
	if err != nil || m.Kind != wire.Result {
		return m, err
	}
	if c.offer.Version != "" || c.offer.Info != nil || c.offer.Caps != nil {
		if v := wire.Get(m.Raw, m.Result, "protocolVersion"); v.Present() {
			c.offer.Version = string(v.Text(m.Raw))
			c.s.Initialize(c.offer)
		}
	}
	if c.level != "" {
		c.s.SetLogLevel(c.level)
	}
	return m, nil
}

func (c *trackedReplies) Close() error {
	c.s.Finish(c.ex)
	return c.Replies.Close()
}

// Deliver passes a notification or an answer of a legacy client on. An answer without a question here goes to the handler, as an exchange
// without replies, since the question may be the server's. Errors are not reported to the client: an error status ends some clients.
func Deliver(s *proxy.Session, ex *proxy.Exchange, handle proxy.Handler) {
	ex.Session, ex.Server, ex.Client = s, s.Server, s.Client()
	claim(s, ex)
	m := &ex.Msg
	switch {
	case m.IsResponse() && s.Answer(m):
		return
	case m.Is("notifications/cancelled"):
		s.CancelRequest(m.Of(m.RequestID))
		return
	case !m.IsResponse() && !bytes.HasPrefix(m.Text(m.Method), []byte("notifications/")):
		return // some servers run a request without an id, which would bypass the policies
	}
	if replies, err := handle(ex); err == nil && replies != nil {
		_ = replies.Close()
	}
}

// Handshake drops everything but the response from the replies to an initialize request: nothing may precede it, since the client does
// not know its session yet.
func Handshake(r proxy.Replies) proxy.Replies {
	if r == nil {
		return nil
	}
	return handshake{r}
}

type handshake struct{ proxy.Replies }

func (h handshake) Next(until time.Time) (*wire.Message, error) {
	for {
		if m, err := h.Replies.Next(until); err != nil || m.IsResponse() {
			return m, err
		}
	}
}

// Answerable reports whether a failed exchange is to be answered: not if the client has cancelled it, or left.
func Answerable(ex *proxy.Exchange) bool {
	var e *proxy.Error
	cause := ex.Err()
	return cause == nil || errors.As(cause, &e)
}

// endListen ends a listen on a channel that stays open: it writes the result, and the notification that the revision demands as well
// (2026-07-28 cancellation).
func endListen(id []byte, write func(m *wire.Message) error) {
	m := proxy.ListenEnd(id)
	_ = write(&m)
	raw := append([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`), id...)
	if m, err := wire.Scan(append(raw, "}}"...)); err == nil {
		_ = write(&m)
	}
}

// Task serves one request. Both methods are called on one goroutine, Run first and once.
type Task interface {
	Run(ex *proxy.Exchange) (proxy.Replies, error)
	// Write writes a reply, which is borrowed until it returns. The reader of the channel handles failures.
	Write(m *wire.Message) error
}

// Pump runs one request of a client that receives everything on one channel, and writes its replies there as they come. It always writes
// a response, unless the client has cancelled the request. It returns when the request has ended.
func Pump(ex *proxy.Exchange, run proxy.Handler, limit time.Duration, write func(m *wire.Message) error) {
	GrowStack()
	Serve(ex, limit, task{run, write})
}

type task struct {
	run   proxy.Handler
	write func(m *wire.Message) error
}

func (c task) Run(ex *proxy.Exchange) (proxy.Replies, error) { return c.run(ex) }
func (c task) Write(m *wire.Message) error                   { return c.write(m) }

// Serve is Pump for a Task, on a goroutine whose stack has grown (GrowStack).
func Serve(ex *proxy.Exchange, limit time.Duration, c Task) {
	end := ex.GiveUp(limit)
	defer ex.Release()
	replies, err := c.Run(ex)
	if err != nil {
		fail(ex, c, err)
		return
	}
	defer func() { _ = replies.Close() }()
	for {
		m, err := replies.Next(end)
		switch {
		case err == proxy.ErrNotYet:
			fail(ex, c, proxy.Overdue(limit))
			return
		case err != nil:
			fail(ex, c, err)
			return
		}
		if c.Write(m) != nil || m.IsResponse() {
			return
		}
	}
}

// fail writes the error of a failed request, if it is Answerable.
func fail(ex *proxy.Exchange, c Task, err error) {
	id := ex.Msg.Of(ex.Msg.ID)
	switch {
	case errors.Is(ex.Err(), proxy.ErrDraining):
		endListen(id, c.Write)
	case Answerable(ex):
		m := proxy.ErrorMessage(id, proxy.AsError(ex.Why(err)))
		_ = c.Write(&m)
	}
}

// GrowStack gives a new goroutine the stack that a request needs in the policies. Without it the runtime doubles and copies the stack
// several times on the way down: 9 % of a call over HTTP+SSE. The memory is not touched.
func GrowStack() { grow(true) }

//go:noinline
func grow(enough bool) {
	if enough {
		return
	}
	var room [9 << 10]byte
	runtime.KeepAlive(&room)
}
