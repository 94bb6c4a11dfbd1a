package sse

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/url"
	"os"
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

// Dialer opens links to an HTTP+SSE server.
type Dialer struct {
	host   *httpclient.Host
	base   *url.URL
	limits httpcall.Limits
}

// NewDialer returns a Dialer for the server whose stream is at base.
func NewDialer(host *httpclient.Host, base *url.URL, limits httpcall.Limits) *Dialer {
	return &Dialer{host: host, base: base, limits: limits}
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
	l.late, l.endLate = context.WithCancel(context.Background())
	l.forwarding.Note(proxy.ForwardedFrom(ctx))
	l.split.Reset(d.limits.Event)
	if err := l.open(ctx); err != nil {
		l.endLate()
		ans.Abort()
		ans.Close()
		return nil, err
	}
	l.Mux = mux.New(proxy.Legacy, l.write, sink)
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

	forwarding transport.Forwarding
	late       context.Context // ends the waits for late acknowledgements
	endLate    context.CancelFunc
	waits      sync.WaitGroup // for late acknowledgements

	mu     sync.Mutex // guards closed, and waits against endLate
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
		return &transport.StatusError{Status: status, Text: "no event stream at " + l.d.base.Path, Location: httpcall.Redirect(h)}
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
	for {
		ev, err := l.split.Next(l.ans)
		if err != nil {
			l.end(err)
			return
		}
		if ev.IsMessage() && len(ev.Data) > 0 {
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
	if closed { // the read error is only a consequence of the abort
		l.Fail(proxy.Errf(proxy.Lost, "the event stream from the upstream server was closed here: it was silent for too long, or its session is over"))
		return
	}
	l.Fail(proxy.Errf(proxy.Lost, "the upstream server's stream has ended: %w", err))
	l.sink.Lost(err)
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
	l.mu.Lock()
	l.endLate()
	l.mu.Unlock()
	l.waits.Wait()
	l.ans.Abort()
	<-l.reader
	l.ans.Close()
	return nil
}

// Bounds on the acknowledgement of a POST.
const (
	ackTime    = time.Second      // wait before the message counts as sent without it
	postTime   = 10 * time.Second // for writing a POST, and for pending POSTs when the link closes
	lateTime   = time.Minute      // for a late one
	maxDiscard = 64 << 10         // bytes of its body that are read
)

// write posts one message. The POST's answer only acknowledges the message; the reply comes on the stream. Some servers
// send the acknowledgement only after the work is done, or never. So after ackTime the message counts as sent, and the
// limit of the call decides how long it may take.
func (l *link) write(ctx context.Context, msg []byte) error {
	posting, cancel := context.WithTimeout(ctx, postTime)
	defer cancel()
	req := httpcall.NewRequest(fasthttp.MethodPost, l.post, msg)
	ans, err := l.d.host.Send(l.forwarding.With(posting), req)
	req.Release()
	if err != nil {
		return httpcall.Fault(err)
	}
	stop := context.AfterFunc(ctx, ans.Abort)
	err = acknowledged(ans, time.Now().Add(ackTime))
	if errors.Is(err, os.ErrDeadlineExceeded) && l.waitLate(ans, stop) {
		return nil
	}
	stop()
	ans.Close()
	if err != nil {
		return httpcall.Fault(err)
	}
	return nil
}

// waitLate waits for a late acknowledgement in the background, and then calls stop. It returns false if the link is closed.
func (l *link) waitLate(ans httpclient.Response, stop func() bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.late.Err() != nil {
		return false
	}
	l.waits.Go(func() { // ends with the link
		defer ans.Close()
		defer stop()
		defer context.AfterFunc(l.late, ans.Abort)()
		_ = acknowledged(ans, time.Now().Add(lateTime)) // the result is not needed any more
	})
	return true
}

// acknowledged waits for the server's answer to a POST.
func acknowledged(ans httpclient.Response, until time.Time) error {
	status, _, err := ans.Head(until)
	if err != nil {
		return err
	}
	_, _ = ans.Body(nil, maxDiscard, until) // read, so that the connection can be reused
	switch {
	case status == fasthttp.StatusNotFound:
		return proxy.Errf(proxy.SessionLost, "the upstream server has forgotten the session")
	case status >= 300:
		return transport.StatusFault(&transport.StatusError{Status: status})
	}
	return nil
}
