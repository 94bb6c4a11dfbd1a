package sse

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/url"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/eventstream"
	"dragoman/adapters/httpcall"
	"dragoman/adapters/httpd/httpclient"
	"dragoman/adapters/mux"
	"dragoman/adapters/transport"
	"dragoman/proxy"
)

// Dialer makes links to an HTTP+SSE server.
type Dialer struct {
	host   *httpclient.Host
	base   *url.URL
	limits httpcall.Limits
}

// NewDialer makes a dialer for the server whose stream is at base.
func NewDialer(host *httpclient.Host, base *url.URL, limits httpcall.Limits) *Dialer {
	return &Dialer{host: host, base: base, limits: limits}
}

// Dial is the transport.Dial of the server: it opens the stream and waits for the event that names where to post.
func (d *Dialer) Dial(ctx context.Context, sink transport.Sink) (transport.Link, error) {
	req := httpcall.NewRequest(fasthttp.MethodGet, d.base.RequestURI(), nil)
	_ = req.Set("Accept", "text/event-stream")
	ans, err := d.host.Send(ctx, req)
	req.Release()
	if err != nil {
		return nil, httpcall.Fault(err)
	}
	l := &link{d: d, ans: ans, sink: sink, reader: make(chan struct{}), carried: proxy.ForwardedFrom(ctx)}
	l.split.Reset(d.limits.Event)
	if err := l.open(ctx); err != nil {
		ans.Abort()
		ans.Close()
		return nil, err
	}
	l.Mux = mux.New(proxy.Legacy, l.write, sink)
	go l.read() // ends with Close, or with the stream
	return l, nil
}

// link is one stream and where to post, as an transport.Link.
type link struct {
	*mux.Mux
	d      *Dialer
	ans    httpclient.Response
	split  eventstream.Splitter
	post   string
	sink   transport.Sink
	reader chan struct{} // closed when the reader has ended
	late   late

	mu      sync.Mutex
	closed  bool
	carried *proxy.Forwarded // what the last request of a client's carried, for those that the link makes by itself
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
		return &transport.StatusError{Status: status, Text: "no event stream at " + l.d.base.Path}
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

// endpoint takes the URL to post to. One of another origin is refused: it would be sent the credentials meant for this.
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

// carry has what is done for a client's request carry what that does, and anything else what the last of them did.
func (l *link) carry(ctx context.Context) context.Context {
	if proxy.ForwardedFrom(ctx) != nil {
		return ctx
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return proxy.WithForwarded(ctx, l.carried)
}

// keep remembers what a client's request carries; nil: it is none's.
func (l *link) keep(carried *proxy.Forwarded) {
	if carried != nil {
		l.mu.Lock()
		l.carried = carried
		l.mu.Unlock()
	}
}

// Call implements transport.Link.
func (l *link) Call(ex *proxy.Exchange) (proxy.Replies, error) {
	l.keep(ex.Caller.Forwarded)
	return l.Mux.Call(ex)
}

// Send implements transport.Link.
func (l *link) Send(ctx context.Context, msg []byte) error {
	l.keep(proxy.ForwardedFrom(ctx))
	return l.Mux.Send(ctx, msg)
}

func (l *link) read() {
	defer close(l.reader)
	for {
		ev, err := l.split.Next(l.ans)
		if err != nil {
			l.end(err)
			return
		}
		if ev.IsMessage() && len(ev.Data) > 0 {
			_ = l.Deliver(ev.Data) // what is no message is nobody's
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
	if closed { // what the abort has left of the stream tells nobody anything
		l.Fail(proxy.Errf(proxy.Lost, "the event stream from the upstream server was closed here: it was silent for too long, or its session is over"))
		return
	}
	l.Fail(proxy.Errf(proxy.Lost, "the upstream server's stream has ended: %w", err))
	l.sink.Lost(err)
}

// Close implements transport.Link: the stream is the session, so closing it is all, once the server has been told of calls that
// are given up.
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
	l.Settle(ctx) // some servers end a session only after its calls, and those only once they are cancelled
	l.late.end()
	l.ans.Abort()
	<-l.reader
	l.ans.Close()
	return nil
}
