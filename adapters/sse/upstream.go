package sse

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/eventstream"
	"dragoman/adapters/httpcall"
	"dragoman/adapters/httpd/httpclient"
	"dragoman/adapters/mux"
	"dragoman/adapters/stdio/upstream"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// defaultAliveTimeout stands for an Options.AliveTimeout of 0.
const defaultAliveTimeout = 5 * time.Second

// Options configure the links to an HTTP+SSE server.
type Options struct {
	Name   string // of the upstream in the configuration, for errors
	Limits httpcall.Limits
	// AliveTimeout is how long a server that has been silent in several calls may take for a sign of life, after which the
	// stream is given up; 0 means 5 s. See mux.Watch.
	AliveTimeout time.Duration
	// Replaced, if not nil, is called when a stream is given up for that, with the error of its calls and the time for which the
	// server had been silent. It must not block.
	Replaced func(fault error, silent time.Duration)
}

// Dialer opens links to an HTTP+SSE server.
type Dialer struct {
	host     *httpclient.Host
	base     *url.URL
	opt      Options
	patience transport.Patience // for the acknowledgement of a notification
}

// NewDialer returns a Dialer for the server whose stream is at base.
func NewDialer(host *httpclient.Host, base *url.URL, opt Options) *Dialer {
	if opt.AliveTimeout <= 0 {
		opt.AliveTimeout = defaultAliveTimeout
	}
	return &Dialer{host: host, base: base, opt: opt}
}

// Dial implements transport.Dial. It opens the stream and waits for the event that names the URL to post to.
func (d *Dialer) Dial(ctx context.Context, sink transport.Sink) (transport.Link, error) {
	req := httpcall.NewRequest(fasthttp.MethodGet, d.base.RequestURI(), nil)
	_ = req.Set("Accept", "text/event-stream")
	ans, err := d.host.Send(ctx, req)
	req.Release()
	if err != nil {
		return nil, httpcall.Fault(err)
	}
	l := &link{d: d, ans: ans, sink: sink, reader: make(chan struct{})}
	l.forwarding.Note(proxy.ForwardedFrom(ctx))
	l.split.Reset(d.opt.Limits.Event)
	if err := l.open(ctx); err != nil {
		ans.Abort()
		ans.Close()
		return nil, err
	}
	l.Mux = mux.New(proxy.Legacy, l.write, sink)
	l.Watch(mux.Watch{Heard: l.heard.Load, Limit: d.opt.AliveTimeout, Dead: l.wedged})
	go l.read() // ends with Close, or with the stream
	return l, nil
}

// link is one stream and the URL to post to, as a transport.Link.
type link struct {
	*mux.Mux
	d      *Dialer
	ans    httpclient.Response
	split  eventstream.Splitter
	post   string
	sink   transport.Sink
	reader chan struct{} // closed when the reader has ended
	heard  atomic.Uint64 // messages on the stream. A comment is none: what stands before a server may send it
	lost   atomic.Pointer[proxy.Error]

	forwarding transport.Forwarding
	acks       httpcall.Acks

	mu     sync.Mutex
	closed bool
}

func (l *link) open(ctx context.Context) error {
	stop := context.AfterFunc(ctx, l.ans.Abort)
	defer stop()
	until, _ := ctx.Deadline()
	status, h, err := l.ans.Head(until)
	if err != nil {
		return httpcall.Fault(err)
	}
	if status != fasthttp.StatusOK || !bytes.HasPrefix(h.ContentType(), []byte("text/event-stream")) {
		return &transport.StatusError{Status: status, Text: "no event stream at " + l.d.base.Path, Location: l.d.host.Hide(ctx, httpcall.Redirect(h))}
	}
	l.ans.SetDeadline(until)
	for {
		ev, err := l.split.Next(l.ans)
		if err != nil {
			return httpcall.Fault(err)
		}
		if string(ev.Name) == "endpoint" {
			l.ans.SetDeadline(time.Time{})
			return l.endpoint(string(ev.Data))
		}
	}
}

// endpoint sets the URL to post to. A URL of another origin is refused, because it would receive the credentials meant
// for this one.
func (l *link) endpoint(data string) error {
	ref, err := url.Parse(data)
	if err != nil {
		return proxy.Errf(proxy.BadAnswer, "the upstream server names an endpoint that is no URL: %w", err)
	}
	to := l.d.base.ResolveReference(ref)
	if to.Scheme != l.d.base.Scheme || to.Host != l.d.base.Host {
		return proxy.Errf(proxy.BadAnswer, "the upstream server names an endpoint of another origin, %s://%s", to.Scheme, to.Host)
	}
	l.post = to.RequestURI()
	return nil
}

// Call implements transport.Link.
func (l *link) Call(ex *proxy.Exchange) (proxy.Replies, error) {
	l.forwarding.Note(ex.Caller.Forwarded)
	return l.Mux.Call(ex)
}

// Send implements transport.Link.
func (l *link) Send(ctx context.Context, msg []byte) error {
	l.forwarding.Note(proxy.ForwardedFrom(ctx))
	return l.Mux.Send(ctx, msg)
}

func (l *link) read() {
	defer close(l.reader)
	defer l.split.Reset(0) // the link may be kept for long
	for {
		ev, err := l.split.Next(l.ans)
		if err != nil {
			l.end(err)
			return
		}
		if ev.IsMessage() && len(ev.Data) > 0 {
			l.heard.Add(1)
			_ = l.Deliver(ev.Data) // anything but a message is ignored
		}
	}
}

func (l *link) end(err error) {
	if errors.Is(err, io.EOF) {
		err = errors.New("sse: the server closed the stream")
	}
	l.mu.Lock()
	closed := l.closed
	l.mu.Unlock()
	if lost := l.lost.Load(); lost != nil {
		l.Fail(lost)
		if !closed {
			l.sink.Lost(lost)
		}
		return
	}
	if closed { // the read error is only a consequence of the abort
		l.Fail(proxy.Errf(proxy.Lost, "the event stream from the upstream server was closed here: it was silent for too long, or its session is over"))
		return
	}
	l.Fail(proxy.Errf(proxy.Lost, "the upstream server's stream has ended: %w", err))
	l.sink.Lost(err)
}

// wedged gives the stream up: the server behind it gives no sign of life. The next call opens another.
func (l *link) wedged(calls int, since time.Time) {
	fault := proxy.Errf(proxy.Lost, "the event stream from %s is given up: it was silent in %d calls in a row, and gave no sign of life within %s (upstreams.%s.health_check_timeout)",
		upstream.Called(l.d.opt.Name), calls, upstream.Duration(l.d.opt.AliveTimeout), upstream.Key(l.d.opt.Name))
	if l.d.opt.Replaced != nil { // there may be no call that could tell
		l.d.opt.Replaced(fault, time.Since(since))
	}
	l.lost.Store(fault)
	l.Fail(fault)
	l.ans.Abort() // the reader ends, and reports the loss
}

// Close implements transport.Link. It sends pending cancellations to the server and closes the stream, which ends the
// session.
func (l *link) Close() error {
	l.mu.Lock()
	was := l.closed
	l.closed = true
	l.mu.Unlock()
	if was {
		return nil
	}
	ctx, stop := context.WithTimeout(context.Background(), postTime)
	defer stop()
	l.Settle(ctx) // some servers end a session only after its calls, and those only if they are cancelled
	l.acks.Close()
	l.ans.Abort()
	<-l.reader
	l.ans.Close()
	return nil
}

// postTime bounds the writing of a POST, and the pending POSTs when the link closes.
const postTime = 10 * time.Second

// write posts one message. The POST's answer only acknowledges the message; the reply comes on the stream. Some servers send the
// acknowledgement only after the work is done, or never, so a call does not wait for it. An answer to a question waits for nothing
// either; a notification does for a moment, because the next message, on another connection, must not overtake it.
func (l *link) write(ctx context.Context, call uint64, msg []byte) error {
	posting, cancel := context.WithTimeout(ctx, postTime)
	defer cancel()
	req := httpcall.NewRequest(fasthttp.MethodPost, l.post, msg)
	ans, err := l.d.host.Send(l.forwarding.With(posting), req)
	req.Release()
	if err != nil {
		return httpcall.Fault(err)
	}
	if call != 0 {
		l.acks.Await(ans, func() bool { return l.Open(call) }, func(_ bool, err error) {
			if err != nil {
				l.Refuse(call, refusal(err))
			}
		})
		return nil
	}
	if m, err := wire.Scan(msg); err != nil || m.Kind != wire.Notification {
		l.acks.Await(ans, nil, func(bool, error) {})
		return nil
	}
	return refusal(l.acks.Notified(ctx, ans, &l.d.patience))
}

// refusal returns the error of a message that was not taken.
func refusal(err error) error {
	status, ok := errors.AsType[*transport.StatusError](err)
	switch {
	case !ok:
		return err
	case status.Status == fasthttp.StatusNotFound:
		return proxy.Errf(proxy.SessionLost, "the upstream server has forgotten the session")
	}
	return transport.StatusFault(status)
}
