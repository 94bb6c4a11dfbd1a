package mcphttp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/eventstream"
	"dragoman/adapters/httpd/httpserver"
	"dragoman/proxy"
	"dragoman/proxy/session"
	"dragoman/proxy/wire"
)

// ResponseOptions configure how exchanges are answered over HTTP.
type ResponseOptions struct {
	Patience  time.Duration // time without a reply after which an answer becomes an event stream, which can be kept alive
	KeepAlive time.Duration // interval of comments on an answer stream without events
	Cap       time.Duration // time after which a request without a response is given up, even if other replies came
	// Status returns the HTTP status for an error response that is not sent as an event.
	Status func(code int) int
	// Draining, if not nil, ends when the proxy begins to shut down. Listens are then ended as the protocol specifies, so
	// that they do not delay the shutdown.
	Draining context.Context
	// Leaves reports that closing the connection cancels the request (modern). Otherwise the client has only lost the
	// answer (legacy).
	Leaves bool
	Resume Resume // how answer streams can be resumed; unused by modern HTTP
}

// Message answers with one message as JSON.
func Message(ctx *fasthttp.RequestCtx, status int, m *wire.Message) {
	ctx.SetStatusCode(status)
	ctx.SetContentType("application/json")
	_ = m.WriteOut(ctx.Response.BodyWriter()) // writes to memory
}

// Fail refuses a request that does not become an exchange: it answers with an error as JSON, and notes it (Deny). It sets the
// headers WWW-Authenticate and Retry-After where the error has them. id is raw JSON, nil if it could not be read.
func Fail(ctx *fasthttp.RequestCtx, status int, id []byte, err *proxy.Error) {
	Deny(ctx, err)
	fail(ctx, status, id, err)
}

// fail answers with an error.
func fail(ctx *fasthttp.RequestCtx, status int, id []byte, err *proxy.Error) {
	if err.Challenge != "" {
		ctx.Response.Header.Set(fasthttp.HeaderWWWAuthenticate, err.Challenge)
	}
	if err.RetryAfter > 0 {
		ctx.Response.Header.Set("Retry-After", strconv.Itoa(err.RetryAfter))
	}
	m := proxy.ErrorMessage(id, err)
	Message(ctx, status, &m)
}

// Accepted answers a notification with 202.
func Accepted(ctx *fasthttp.RequestCtx) { ctx.SetStatusCode(fasthttp.StatusAccepted) }

// Plan is how a POST is answered: the exchange that an EraHandler made of it, or the exchanges of a batch, and how they
// run. The zero Plan has nothing to run.
type Plan struct {
	Exchange *proxy.Exchange
	Batch    []*proxy.Exchange // in place of Exchange: run one after the other and answered by one event stream (2025-03-26)
	Session  *proxy.Session    // in which Exchange runs; nil: in none
	Handle   proxy.Handler     // runs the exchanges
	Options  *ResponseOptions
	Record   Recording                      // for the answer, if it becomes a stream
	Settle   func(ctx *fasthttp.RequestCtx) // if not nil, called once Exchange has an answer or a stream: it may change the head
}

// run runs the plan and answers ctx. It returns when the answer is complete or has become a stream.
func (p *Plan) run(ctx *fasthttp.RequestCtx) {
	switch {
	case p.Exchange != nil:
		p.runOne(ctx)
		if p.Settle != nil {
			p.Settle(ctx)
		}
	case len(p.Batch) > 0:
		a := &answer{n: p.Options, ex: p.Batch[0], rest: p.Batch[1:], handle: p.Handle, end: p.Batch[0].GiveUp(p.Options.Cap),
			recorded: recorded{record: p.Record}}
		httpserver.StreamFrom(ctx, a.begin(nil), a)
	}
}

// runOne runs the plan's only exchange.
func (p *Plan) runOne(ctx *fasthttp.RequestCtx) {
	n, ex := p.Options, p.Exchange
	a := proxy.Lend[answer](ex, proxy.SlotDownstream)
	a.ctx, a.n, a.ex, a.end, a.record = ctx, n, ex, ex.GiveUp(n.Cap), p.Record
	ex.Polls = p.Record.Polls && p.Record.Events != nil
	if n.Leaves {
		a.watch = httpserver.WatchClient(ctx, ex)
	}
	if n.Draining != nil && ex.Msg.Is("subscriptions/listen") {
		a.undrain = context.AfterFunc(n.Draining, func() { ex.Cancel(proxy.ErrDraining) })
	}
	replies, err := p.handle(ex)
	a.replies = replies
	correlated(ctx, ex)
	if err != nil {
		n.fail(ctx, ex, err)
		a.release(false)
		return
	}
	m, err := replies.Next(a.until(n.Patience))
	switch {
	case err == nil && m.IsResponse() && len(m.Raw) >= inPlace:
		if limit := httpserver.ReserveAnswer(ctx, m.Size()); limit != httpserver.AnswersFit {
			n.fail(ctx, ex, Unwritable(limit))
			a.release(false)
			return
		}
		replayed(ctx, ex)
		large(ctx, n.status(m), m, a)
	case err == nil && m.IsResponse():
		replayed(ctx, ex)
		Message(ctx, n.status(m), m)
		a.release(false)
	case err == nil:
		first, _ := a.event(a.begin(nil), m)
		httpserver.StreamFrom(ctx, first, a)
	case errors.Is(err, proxy.ErrNotYet) && !time.Now().Before(a.end):
		n.fail(ctx, ex, proxy.Overdue(n.Cap))
		a.release(false)
	case errors.Is(err, proxy.ErrNotYet):
		httpserver.StreamFrom(ctx, a.begin(nil), a)
	default:
		n.fail(ctx, ex, err)
		a.release(false)
	}
}

func (p *Plan) handle(ex *proxy.Exchange) (proxy.Replies, error) {
	if p.Session != nil {
		return session.Run(p.Session, ex, p.Handle)
	}
	return p.Handle(ex)
}

func (n *ResponseOptions) status(m *wire.Message) int {
	if m.Kind == wire.Failure {
		return n.Status(m.ErrorCode)
	}
	return fasthttp.StatusOK
}

// fail answers an error before anything was sent. A legacy client that cancelled gets no response, but its HTTP answer
// still ends: official clients keep it open otherwise.
func (n *ResponseOptions) fail(ctx *fasthttp.RequestCtx, ex *proxy.Exchange, err error) {
	replayed(ctx, ex)
	e := proxy.AsError(ex.Why(err))
	if !n.Leaves && errors.Is(ex.Err(), proxy.ErrCancelled) {
		ctx.SetContentType("text/event-stream")
		return
	}
	status := e.Status
	if status == 0 || !n.Leaves && status != fasthttp.StatusNotFound && e.Challenge == "" {
		status = n.Status(e.Code)
	}
	id := ex.Msg.Of(ex.Msg.ID)
	if e.Name == proxy.SessionLost.Name && !n.Leaves {
		// A lost session is a 404 without a request id: with the id, clients would take it for the error of the call and
		// keep using the dead session.
		status, id = fasthttp.StatusNotFound, nil
	}
	fail(ctx, status, id, e)
}

// replayed marks a cached answer with HeaderReplayed. An event stream is not marked, because its head has been sent.
func replayed(ctx *fasthttp.RequestCtx, ex *proxy.Exchange) {
	if ex.Replayed {
		ctx.Response.Header.Set(HeaderReplayed, "true")
	}
}

// answer is the event stream that answers one exchange, or several in turn. It implements httpserver.Source.
type answer struct {
	ctx      *fasthttp.RequestCtx // its body holds ex.Msg until Close; nil if ex.Msg has its own memory
	n        *ResponseOptions
	ex       *proxy.Exchange
	rest     []*proxy.Exchange // served after ex, in order
	handle   proxy.Handler     // runs the exchanges that have not begun
	replies  proxy.Replies     // of ex; nil until it has begun
	answered bool              // ex has its response; the next exchange follows
	watch    httpserver.Watch
	undrain  func() bool
	end      time.Time
	done     bool // the last response was read
	recorded
}

func (a *answer) until(d time.Duration) time.Time {
	t := time.Now().Add(d)
	if a.end.Before(t) {
		return a.end
	}
	return t
}

// Next implements httpserver.Source. It appends an event for the next reply, or a comment if none came in time.
func (a *answer) Next(dst []byte) ([]byte, error) {
	if a.closesEarly() {
		return a.pause(dst), io.EOF
	}
	m, last, err := a.nextMessage(a.beforeClose(a.until(a.n.KeepAlive)))
	switch {
	case err == nil:
		a.done = last
		dst, moved := a.event(dst, m)
		if last && a.replies != nil { // the event is a copy: nothing is held while the client reads it
			_ = a.replies.Close()
			a.replies = nil
		}
		if last || moved {
			return dst, io.EOF
		}
		return dst, nil
	case errors.Is(err, io.EOF):
		a.done = true
		return dst, io.EOF
	case a.closesEarly():
		return a.pause(dst), io.EOF
	}
	return append(dst, eventstream.KeepAlive...), nil
}

// nextMessage returns the next message to send; last reports that nothing follows it. A failure becomes an error response, never
// just the end of the stream: some clients do not notice the end and wait for their own timeout. The errors are
// ErrNotYet, and io.EOF if the client has cancelled and nothing more is sent.
func (a *answer) nextMessage(until time.Time) (m *wire.Message, last bool, err error) {
	for {
		if a.answered {
			a.advance()
		}
		if a.replies == nil {
			a.replies, err = a.handle(a.ex)
		}
		if err == nil {
			m, err = a.replies.Next(until)
		}
		switch {
		case err == nil && a.toSession(m):
		case err == nil && !m.IsResponse():
			return m, false, nil
		case err == nil:
		case errors.Is(err, proxy.ErrNotYet) && time.Now().Before(a.end):
			return m, false, proxy.ErrNotYet
		case errors.Is(err, proxy.ErrNotYet):
			m = a.failure(proxy.Overdue(a.n.Cap))
		case errors.Is(a.ex.Err(), proxy.ErrCancelled):
			if len(a.rest) == 0 {
				return m, false, io.EOF
			}
			a.answered, err = true, nil
			continue
		case errors.Is(a.ex.Err(), proxy.ErrDraining):
			end := proxy.ListenEnd(a.ex.Msg.Of(a.ex.Msg.ID))
			m = &end
		default:
			m = a.failure(err)
		}
		a.answered = len(a.rest) > 0
		return m, !a.answered, nil
	}
}

// toSession moves the withdrawal of a question to the session's own stream if the client has cancelled the request and that
// stream is open. Some clients close the answer's stream when they cancel, so that a message written there would be lost.
// It reports whether it has taken m.
func (a *answer) toSession(m *wire.Message) bool {
	s := a.ex.Session
	if s == nil || !m.Is("notifications/cancelled") || !errors.Is(a.ex.Err(), proxy.ErrCancelled) || !s.HasOutlet() {
		return false
	}
	s.Keep("", m.AppendLine(nil))
	return true
}

func (a *answer) failure(err error) *wire.Message {
	m := proxy.ErrorMessage(a.ex.Msg.Of(a.ex.Msg.ID), proxy.AsError(a.ex.Why(err)))
	return &m
}

// advance moves on to the next exchange.
func (a *answer) advance() {
	if a.replies != nil {
		_ = a.replies.Close()
	}
	a.ex.Release()
	a.ex, a.rest, a.replies, a.answered = a.rest[0], a.rest[1:], nil, false
	a.ex.GiveUp(time.Until(a.end))
}

// Close implements httpserver.Source. A legacy client that loses a stream has not cancelled (2025-11-25 transports,
// Sending Messages), so its requests continue.
func (a *answer) Close(sent bool) {
	if !a.n.Leaves && !a.done && (a.ex.Err() == nil || errors.Is(a.ex.Err(), proxy.ErrCancelled) || len(a.rest) > 0) {
		if a.ctx != nil {
			httpserver.KeepBody(a.ctx)
			a.ctx = nil
		}
		go a.drain() // ends with the session or the cap at the latest
		return
	}
	if a.n.Leaves && !a.done { // while the watch still counts: the client's next request may follow closely
		a.ex.Leave()
	}
	a.release(sent)
}

func (a *answer) release(sent bool) {
	a.watch.Stop()
	if a.undrain != nil {
		a.undrain()
	}
	if a.replies != nil {
		_ = a.replies.Close()
	}
	ex := a.ex
	ex.Release()
	a.finish(sent)
	ex.Recycle() // recycles a too
}

// Clear implements proxy.Clearer.
func (a *answer) Clear() { *a = answer{} }

const (
	// largeMessage is the size in bytes from which a body is taken over instead of copied.
	largeMessage = 64 << 10
	// inPlace is the size in bytes from which a response is written without a copy. A smaller one is cheaper to copy.
	inPlace = 4 << 10
	// largeTail is how many bytes are held back until the replies have been closed.
	largeTail = 256
)

// large answers with a message that is written from its own memory, and ends the exchange then.
func large(ctx *fasthttp.RequestCtx, status int, m *wire.Message, of *answer) {
	ctx.SetStatusCode(status)
	ctx.SetContentType("application/json")
	size := m.Size()
	b := largeBodies.Get().(*largeBody)
	b.msg, b.of, b.left = *m, of, size
	ctx.Response.SetBodyStream(b, size)
}

var largeBodies = sync.Pool{New: func() any { return new(largeBody) }}

// largeBody is a message as a fasthttp body stream.
type largeBody struct {
	httpserver.WriteOnly
	msg  wire.Message // borrowed from the replies of the answer below
	of   *answer      // nil once the replies are closed
	w    io.Writer
	left int             // bytes not written yet
	tail [largeTail]byte // last bytes, held back
}

// WriteTo writes the message with its edits; large pieces bypass w's buffer. The exchange ends before the last bytes are
// sent, because a client may reuse the id as soon as it has read the answer.
func (b *largeBody) WriteTo(w io.Writer) (int64, error) {
	b.w = w
	size := b.left
	if err := b.msg.WriteOut((*largeBodyWriter)(b)); err != nil {
		return int64(size - b.left), err
	}
	b.end()
	n, err := w.Write(b.tail[largeTail-b.left:])
	b.left -= n
	return int64(size - b.left), err
}

// largeBodyWriter receives the message and passes on all but the tail.
type largeBodyWriter largeBody

func (b *largeBodyWriter) Write(p []byte) (n int, err error) {
	if pass := min(len(p), b.left-largeTail); pass > 0 {
		n, err = b.w.Write(p[:pass])
		b.left -= n
	}
	if err == nil {
		copy(b.tail[:], b.tail[len(p)-n:])
		copy(b.tail[largeTail-(len(p)-n):], p[n:])
	}
	return len(p), err
}

// end closes the replies, which releases the memory that the message borrows.
func (b *largeBody) end() {
	if of := b.of; of != nil {
		b.of, b.msg = nil, wire.Message{}
		of.release(false)
	}
}

// Close implements io.Closer. fasthttp calls it exactly once, in any case.
func (b *largeBody) Close() error {
	b.end()
	b.w = nil
	largeBodies.Put(b)
	return nil
}

// lent reports whether a legacy message may borrow the connection's memory. A request in a session may: its memory is
// released when the request ends, or is kept (httpserver.KeepBody) if the request outlives its connection.
func lent(m *wire.Message) bool {
	return m.Kind == wire.Request && !m.Is("initialize")
}

// takeBody makes m independent of its connection, by copying it, or by taking over the body if that is large. It works
// once for each request.
func takeBody(ctx *fasthttp.RequestCtx, m *wire.Message) {
	if len(m.Raw) >= largeMessage {
		if own := httpserver.TakeBody(ctx); own != nil {
			m.Raw = own
			return
		}
	}
	m.Raw = bytes.Clone(m.Raw)
}
