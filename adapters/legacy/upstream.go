package legacy

import (
	"context"
	"errors"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/eventstream"
	"dragoman/adapters/httpcall"
	"dragoman/adapters/httpd/http1"
	"dragoman/adapters/httpd/httpclient"
	"dragoman/adapters/mcphttp"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Bounds on the work beside the calls.
const (
	noticeTime      = 5 * time.Second        // for sending a cancellation, or the session's end, to the server
	reopenFirst     = 500 * time.Millisecond // delay before an ended GET stream is reopened; doubled each time
	reopenMost      = 30 * time.Second
	maxDiscard      = 1 << 20 // bytes of an unused answer that are read
	maxRecentTokens = 64
)

// Dialer opens links to a legacy HTTP server.
type Dialer struct {
	host         *httpclient.Host
	path         string
	limits       httpcall.Limits
	streams      transport.Patience // for the head of a GET stream
	acknowledges transport.Patience // for the answer to a notification
}

// NewDialer returns a Dialer for the server at path of host.
func NewDialer(host *httpclient.Host, path string, limits httpcall.Limits) *Dialer {
	return &Dialer{host: host, path: path, limits: limits}
}

// Dial implements transport.Dial. It returns a link in which no session has been opened yet, and never fails.
func (d *Dialer) Dial(ctx context.Context, sink transport.Sink) (transport.Link, error) {
	l := &link{d: d, sink: sink}
	l.forwarding.Note(proxy.ForwardedFrom(ctx))
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.reopen, l.strays = l.follow, l.stray
	return l, nil
}

// link is one session with a server. It implements transport.Link.
type link struct {
	d      *Dialer
	sink   transport.Sink
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	group  sync.WaitGroup
	acks   httpcall.Acks
	transport.Pending
	forwarding transport.Forwarding
	reopen     func(ctx context.Context, last []byte) (httpclient.Response, error) // follow
	strays     func(m *wire.Message)                                               // stray

	mu           sync.Mutex
	session      string // the server's session id; empty if it has none
	version      string // negotiated revision; empty until then
	validated    bool   // session and version are valid header values
	ids          transport.IDs
	closed       bool
	lost         bool
	silent       bool                         // the server offers no GET stream
	opening      *opening                     // the first GET stream; nil before notifications/initialized
	streamAnswer httpclient.Response          // answer of the open GET stream
	byToken      map[string]*transport.Minted // running and recent calls by the progress token sent to the server
	recentTokens []string                     // tokens of recent calls, oldest first
}

// HasSession implements transport.Stateful.
func (l *link) HasSession() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session != ""
}

// Call implements transport.Link.
func (l *link) Call(ex *proxy.Exchange) (proxy.Replies, error) {
	m := &ex.Msg
	if ex.Caller.Forwarded == nil { // the request is Dragoman's own
		ex.Caller.Forwarded = l.forwarding.Last()
	}
	l.forwarding.Note(ex.Caller.Forwarded)
	c := proxy.Lend[linkCall](ex, proxy.SlotWire)
	c.l, c.forwarded, c.handshake = l, ex.Caller.Forwarded, m.Is("initialize")
	l.mu.Lock()
	n := l.ids.Next()
	session, version, plain, first := l.session, l.version, l.validated, l.opening
	l.mu.Unlock()
	if first.pending() && mayPush(m) {
		first.wait(ex)
	}
	c.Minted.Put(m, n) // several clients may share a session
	c.Limits, c.InSession, c.ID, c.Reopen, c.Stray = l.d.limits, session != "", c.Minted.ID, l.reopen, l.strays
	if c.handshake {
		c.Head = l.opened
	} else {
		if c.cancel == nil {
			c.cancel = func() { c.l.cancelled(c.ID, c.forwarded) }
		}
		c.Cancelled = c.cancel
	}
	if c.Minted.Token != nil {
		l.registerToken(c.Minted.Apart()) // before sending: progress may arrive before Do returns
	}
	req := httpcall.PostTemplate.Acquire(fasthttp.MethodPost, l.d.path, nil)
	setSessionHeaders(req, session, version, plain)
	if err := c.Do(ex, l.d.host, req); err != nil {
		l.unregisterToken(c.Minted.Token)
		return nil, err
	}
	if c.Minted.Token == nil {
		return c, nil
	}
	return &tokenCall{Replies: c, l: l, token: string(c.Minted.Token)}, nil
}

// linkCall is one call in the session.
type linkCall struct {
	httpcall.MintedCall
	l         *link
	forwarded *proxy.Forwarded
	handshake bool
	cancel    func() // sends the cancellation to the server; nil until first needed
}

// Clear implements proxy.Clearer.
func (c *linkCall) Clear() {
	c.MintedCall.Clear()
	c.l, c.forwarded, c.handshake = nil, nil, false
}

// Next implements proxy.Replies. It reads the revision from an initialize result.
func (c *linkCall) Next(until time.Time) (m *wire.Message, err error) {
	m, err = c.MintedCall.Next(until)
	if err == nil && c.handshake && m.Kind == wire.Result {
		c.l.settled(string(wire.Get(m.Raw, m.Result, "protocolVersion").Text(m.Raw)))
	}
	return m, err
}

// registerToken registers a call by its progress token.
func (l *link) registerToken(minted *transport.Minted) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byToken == nil {
		l.byToken = make(map[string]*transport.Minted)
	}
	l.byToken[string(minted.Token)] = minted
}

// unregisterToken removes a call that was not sent.
func (l *link) unregisterToken(token []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.byToken, string(token))
}

// tokenCall is a call with a progress token. Some servers send its progress on the GET stream.
type tokenCall struct {
	proxy.Replies
	l     *link
	token string
}

// Close implements proxy.Replies. Progress on another stream may be read after the response although it was sent before,
// so the last maxRecentTokens tokens stay registered.
func (r *tokenCall) Close() error {
	r.l.mu.Lock()
	if r.l.recentTokens = append(r.l.recentTokens, r.token); len(r.l.recentTokens) > maxRecentTokens {
		delete(r.l.byToken, r.l.recentTokens[0])
		r.l.recentTokens = r.l.recentTokens[1:]
	}
	r.l.mu.Unlock()
	return r.Replies.Close()
}

// progress restores the client's token in a progress notification that came outside a call. It returns false if the call
// is not known any more.
func (l *link) progress(m *wire.Message) bool {
	l.mu.Lock()
	minted := l.byToken[string(m.Of(m.ProgressToken))]
	l.mu.Unlock()
	if minted == nil {
		return false
	}
	minted.Restore(m)
	return true
}

// stray reports a response that came on the stream of another call, or on the GET stream.
func (l *link) stray(m *wire.Message) {
	of := transport.Unknown
	if n, err := strconv.ParseUint(string(m.Of(m.ID)), 10, 64); err == nil {
		of = l.ids.Of(n)
	}
	transport.Report(l.sink, of)
}

// follow opens a GET stream, or resumes one after the event with id last.
func (l *link) follow(ctx context.Context, last []byte) (httpclient.Response, error) {
	req := l.request(fasthttp.MethodGet, nil)
	defer req.Release()
	_ = req.Set("Accept", "text/event-stream")
	if len(last) > 0 {
		_ = req.SetBytes(headerLast, last) // Send reports an invalid value
	}
	return l.d.host.Send(l.forwarding.With(ctx), req)
}

// settled records the negotiated revision.
func (l *link) settled(version string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.version = version
	l.validated = http1.ValidValue(l.session) && http1.ValidValue(version)
}

// opened reads the session id from the head of the answer to initialize.
func (l *link) opened(status int, h *http1.Fields) {
	if status != fasthttp.StatusOK {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session = string(h.Peek(mcphttp.HeaderSession))
}

// request makes a request of the session.
func (l *link) request(method string, body []byte) *http1.Request {
	l.mu.Lock()
	session, version, plain := l.session, l.version, l.validated
	l.mu.Unlock()
	req := httpcall.NewRequest(method, l.d.path, body)
	setSessionHeaders(req, session, version, plain)
	return req
}

// setSessionHeaders sets the headers of the given session and version; plain reports that both have been checked as header values.
func setSessionHeaders(req *http1.Request, session, version string, plain bool) {
	for _, x := range [...]struct{ name, value string }{{mcphttp.HeaderSession, session}, {mcphttp.HeaderVersion, version}} {
		switch {
		case x.value == "":
		case plain:
			req.SetKnown(x.name, x.value)
		default:
			_ = req.Set(x.name, x.value) // Send reports an invalid value
		}
	}
}

// Send implements transport.Link. After notifications/initialized it opens the GET stream, and waits for nothing that the server sends
// on it. An answer to a question counts as sent when it has been written, a notification when the server has acknowledged it or was
// given time for that.
func (l *link) Send(ctx context.Context, msg []byte) error {
	l.forwarding.Note(proxy.ForwardedFrom(ctx))
	req := l.request(fasthttp.MethodPost, msg)
	posting, cancel := context.WithTimeout(ctx, noticeTime)
	began := time.Now()
	ans, err := l.d.host.Send(l.forwarding.With(posting), req)
	cancel()
	req.Release()
	if err != nil {
		return httpcall.Fault(err)
	}
	m, err := wire.Scan(msg)
	if err != nil || m.Kind != wire.Notification {
		l.acks.Await(ans, nil, func(_ bool, err error) { _ = l.refused(err) })
		return nil
	}
	if err := l.refused(l.acks.Notified(ctx, ans, &l.d.acknowledges)); err != nil {
		return err
	}
	if m.Is("notifications/initialized") {
		l.listen(time.Since(began))
	}
	return nil
}

// refused returns the error of a message that the server has not taken. A 404 in a session is its end, which the sink is told.
func (l *link) refused(err error) error {
	status, ok := errors.AsType[*transport.StatusError](err)
	if !ok || status.Status != fasthttp.StatusNotFound {
		return err
	}
	l.mu.Lock()
	inSession := l.session != ""
	l.mu.Unlock()
	if !inSession {
		return err
	}
	l.forgotten()
	return nil
}

// roundTrip sends a request whose answer has no relevant content, and returns the status. It takes noticeTime at most.
func (l *link) roundTrip(ctx context.Context, req *http1.Request) (int, error) {
	defer req.Release()
	ctx, cancel := context.WithTimeout(ctx, noticeTime)
	defer cancel()
	ans, err := l.d.host.Send(l.forwarding.With(ctx), req)
	if err != nil {
		return 0, httpcall.Fault(err)
	}
	defer ans.Close()
	until, _ := ctx.Deadline()
	status, _, err := ans.Head(until)
	if err != nil {
		return 0, httpcall.Fault(err)
	}
	_, _ = ans.Body(nil, maxDiscard, until) // read, so that the connection can be reused
	return status, nil
}

// cancelled sends a call's cancellation to the server, without waiting.
func (l *link) cancelled(id []byte, forwarded *proxy.Forwarded) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	msg := append(append([]byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`), id...), "}}"...)
	sent := l.Begin()
	l.group.Go(func() {
		defer sent()
		_, _ = l.roundTrip(proxy.WithForwarded(l.ctx, forwarded), l.request(fasthttp.MethodPost, msg)) // an error leaves only the closed connection
	})
}

// forgotten reports the loss of the session to the sink, once.
func (l *link) forgotten() {
	l.mu.Lock()
	again := l.lost || l.closed
	l.lost = true
	l.mu.Unlock()
	if !again {
		l.sink.Lost(proxy.Errf(proxy.SessionLost, "the upstream server has forgotten the session"))
	}
}

// stream keeps the GET stream open until the link is closed or the server refuses it. If the server's events have ids,
// the stream is resumed after the last one. first is told of the server's first answer.
func (l *link) stream(first *opening) {
	wait := reopenFirst
	var mark httpcall.Mark
	for l.ctx.Err() == nil {
		began := time.Now()
		again, ended := l.streamOnce(first, &mark)
		if !again {
			return
		}
		if time.Since(began) > reopenMost {
			wait = reopenFirst
		}
		named := mark.Wait(0)
		pause := max(named, wait)
		if wait = min(2*wait, reopenMost); ended && named > 0 { // the server's own delay; an unreachable server gets the growing one
			pause, wait = named, reopenFirst
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-l.ctx.Done():
		}
		timer.Stop()
	}
}

// streamOnce reads one GET stream to its end. again reports that it is to be reopened, ended that it had been open.
func (l *link) streamOnce(first *opening, mark *httpcall.Mark) (again, ended bool) {
	ans, err := l.follow(l.ctx, mark.ID)
	if err != nil {
		return true, false
	}
	defer ans.Close()
	if !l.setStreamAnswer(ans) {
		return false, false
	}
	defer l.setStreamAnswer(httpclient.Response{})
	status, _, err := ans.Head(time.Time{})
	if err != nil {
		return true, false
	}
	if status == fasthttp.StatusConflict { // it takes a former stream, whose end it has not seen, for open, and allows one at a time
		first.answer()
		return true, false
	}
	l.mu.Lock()
	l.silent = status >= 400 && status < 500
	inSession := l.session != ""
	l.mu.Unlock()
	first.answer()
	if status == fasthttp.StatusOK {
		l.events(ans, mark)
		return true, true
	}
	if status == fasthttp.StatusNotFound && inSession {
		l.forgotten()
		return false, false
	}
	if again = len(mark.ID) > 0; status >= 500 {
		return again, false
	}
	mark.ID = nil // the server cannot resume from the event: continue with new messages
	return again, false
}

// setStreamAnswer sets the answer that Close aborts; false if the link is closed. Watching l.ctx instead would cost several
// hundred bytes for each idle session.
func (l *link) setStreamAnswer(ans httpclient.Response) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streamAnswer = ans
	return !l.closed
}

func (l *link) events(ans httpclient.Response, mark *httpcall.Mark) {
	var split eventstream.Splitter
	split.Reset(l.d.limits.Event)
	for {
		ev, err := split.Next(ans)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		}
		if err != nil {
			return
		}
		mark.Note(&ev)
		if !ev.IsMessage() || len(ev.Data) == 0 {
			continue
		}
		m, err := wire.Scan(ev.Data)
		if err == nil && m.IsResponse() {
			l.stray(&m)
		}
		if err != nil || m.Kind != wire.Notification && m.Kind != wire.Request || m.Is("notifications/progress") && !l.progress(&m) {
			continue
		}
		l.sink.Message(&m)
	}
}

// Close implements transport.Link. It sends pending cancellations and then the end of the session to the server, and
// waits noticeTime at most for each.
func (l *link) Close() error {
	l.mu.Lock()
	was := l.closed
	l.closed = true
	end := l.session != "" && !l.lost
	l.mu.Unlock()
	if was {
		return nil
	}
	defer l.ids.Release()
	ctx, stop := context.WithTimeout(l.ctx, noticeTime)
	defer stop()
	l.Settle(ctx) // some servers end a session only after its calls, and those only if they are cancelled
	l.acks.Close()
	l.cancel()
	l.mu.Lock()
	l.streamAnswer.Abort()
	l.mu.Unlock()
	l.group.Wait()
	if end {
		_, _ = l.roundTrip(context.Background(), l.request(fasthttp.MethodDelete, nil)) // the server may not support DELETE, or be gone
	}
	return nil
}
