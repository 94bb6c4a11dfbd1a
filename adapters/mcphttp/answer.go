package mcphttp

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/eventstream"
	"dragoman/adapters/httpd"
	"dragoman/proxy"
	"dragoman/proxy/session"
	"dragoman/proxy/wire"
)

// Manner is how answers are given.
type Manner struct {
	Patience  time.Duration // without a reply for so long, an answer becomes an event stream, so that it can be kept alive
	KeepAlive time.Duration // between comments on an answer stream without events
	Cap       time.Duration // a request without response is given up after so long, whatever came
	// Status gives the HTTP status for an error response that is not an event.
	Status func(code int) int
	// Draining, if not nil, ends when the proxy is about to: listens are then ended as the protocol wants it, so that they
	// do not hold up the end.
	Draining context.Context
	// Leaves says that a client that closes the connection has cancelled (modern); otherwise it has merely lost the
	// answer (legacy).
	Leaves bool
}

// Message writes one message as the whole answer.
func Message(ctx *fasthttp.RequestCtx, status int, m *wire.Message) {
	ctx.SetStatusCode(status)
	ctx.SetContentType("application/json")
	_ = m.WriteOut(ctx.Response.BodyWriter()) // into memory
}

// Fail writes an error as the whole answer. id is raw JSON, nil if it could not be read.
func Fail(ctx *fasthttp.RequestCtx, status int, id []byte, err *proxy.Error) {
	m := proxy.ErrorMessage(id, err)
	Message(ctx, status, &m)
}

// Accepted answers a notification.
func Accepted(ctx *fasthttp.RequestCtx) { ctx.SetStatusCode(fasthttp.StatusAccepted) }

// Do runs an exchange through handle and answers it. It returns when the answer is complete or has become a stream.
func (n *Manner) Do(ctx *fasthttp.RequestCtx, ex *proxy.Exchange, handle proxy.Handler) {
	a := &answer{n: n, ex: ex, end: time.Now().Add(n.Cap)}
	if n.Leaves {
		a.armed = httpd.Watch(ctx, ex)
	}
	if n.Draining != nil && ex.Msg.Is("subscriptions/listen") {
		a.undrain = context.AfterFunc(n.Draining, func() { ex.Cancel(proxy.ErrDraining) })
	}
	replies, err := handle(ex)
	a.replies = replies
	if err != nil {
		n.fail(ctx, ex, err)
		a.release()
		return
	}
	m, err := replies.Next(a.until(n.Patience))
	switch {
	case err == nil && m.IsResponse():
		Message(ctx, n.status(&m), &m)
		a.release()
	case err == nil:
		httpd.StreamAfter(ctx, eventstream.AppendMessage(nil, m.Append(nil)), a)
	case errors.Is(err, proxy.ErrNotYet):
		httpd.Stream(ctx, a)
	default:
		n.fail(ctx, ex, err)
		a.release()
	}
}

func (n *Manner) status(m *wire.Message) int {
	if m.Kind == wire.Failure {
		return n.Status(m.ErrorCode)
	}
	return fasthttp.StatusOK
}

// fail answers an error before anything was sent. A legacy client that cancelled gets no response, but its HTTP answer
// ends: official clients keep it open otherwise.
func (n *Manner) fail(ctx *fasthttp.RequestCtx, ex *proxy.Exchange, err error) {
	e := proxy.AsError(err)
	if !n.Leaves && errors.Is(ex.Err(), proxy.ErrCancelled) {
		ctx.SetContentType("text/event-stream")
		return
	}
	status := e.Status
	if status == 0 || !n.Leaves && status != fasthttp.StatusNotFound {
		status = n.Status(e.Code)
	}
	id := ex.Msg.Of(ex.Msg.ID)
	if e.Name == proxy.SessionLost.Name && !n.Leaves {
		// A lost session is a 404 whose body names no request: with the id, clients would take it for the call's own
		// error and keep the dead session.
		status, id = fasthttp.StatusNotFound, nil
	}
	Fail(ctx, status, id, e)
}

// answer is an exchange that is being answered as an event stream.
type answer struct {
	n       *Manner
	ex      *proxy.Exchange
	replies proxy.Replies
	armed   httpd.Armed
	undrain func() bool
	end     time.Time
	done    bool // the response was read
}

func (a *answer) until(d time.Duration) time.Time {
	t := time.Now().Add(d)
	if a.end.Before(t) {
		return a.end
	}
	return t
}

// Next implements httpd.Source: an event for each reply, a comment where none came.
func (a *answer) Next(dst []byte) ([]byte, error) {
	m, err := a.replies.Next(a.until(a.n.KeepAlive))
	switch {
	case err == nil:
		dst = eventstream.AppendMessage(dst, m.AppendLine(nil))
		if m.IsResponse() {
			a.done = true
			return dst, io.EOF
		}
		return dst, nil
	case errors.Is(err, proxy.ErrNotYet) && time.Now().Before(a.end):
		return eventstream.AppendComment(dst, "keep-alive"), nil
	case errors.Is(err, proxy.ErrNotYet):
		err = proxy.Errf(proxy.UpstreamTimeout, "no response in %s, the most that limits.request_time allows", a.n.Cap)
	case errors.Is(a.ex.Err(), proxy.ErrCancelled):
		a.done = true
		return dst, io.EOF
	}
	a.done = true
	if errors.Is(a.ex.Err(), proxy.ErrDraining) {
		last := endOfListen(a.ex.Msg.Of(a.ex.Msg.ID))
		return eventstream.AppendMessage(dst, last.Raw), io.EOF
	}
	// Never the end alone: some clients do not notice it and wait for their own timeout.
	last := proxy.ErrorMessage(a.ex.Msg.Of(a.ex.Msg.ID), proxy.AsError(err))
	return eventstream.AppendMessage(dst, last.Raw), io.EOF
}

// endOfListen is the response with which a server ends a listen (2026-07-28 subscriptions, Graceful Closure).
func endOfListen(id []byte) wire.Message {
	result := append([]byte(`{"resultType":"complete","_meta":{"`+wire.MetaPrefix+`subscriptionId":`), id...)
	return proxy.ResultMessage(id, append(result, "}}"...))
}

// Close implements httpd.Source.
func (a *answer) Close(sent bool) {
	if !sent && !a.n.Leaves && !a.done && a.ex.Err() == nil {
		go session.Drain(a.replies, a.end) // ends with the session at the latest, and with the cap
		return
	}
	a.release()
}

func (a *answer) release() {
	a.armed.Disarm()
	if a.undrain != nil {
		a.undrain()
	}
	if a.replies != nil {
		_ = a.replies.Close()
	}
}
