package legacy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
	"go.uber.org/goleak"

	"dragoman/adapters/eventstream"
	"dragoman/adapters/httpd/httpserver"
	"dragoman/adapters/mcphttp"
	"dragoman/internal/testkit"
	"dragoman/proxy"
	"dragoman/proxy/session"
	"dragoman/proxy/wire"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// fasthttp's clock for Date headers: one for the process, from the first answer on, and nobody can end it
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"))
}

// downstreamRig is a Downstream on a loopback port, in front of a server that the test scripts.
type downstreamRig struct {
	t     *testing.T
	d     *Downstream
	url   string
	http  *http.Client
	usage session.Usage

	mu    sync.Mutex
	calls map[string]*call // by raw id
	said  []string         // messages that are no requests
}

// call is one request as the server sees it.
type call struct {
	ex   *proxy.Exchange
	say  chan string
	poll chan struct{}
	over chan struct{} // closed by Close
}

// Next implements proxy.Replies.
func (c *call) Next(until time.Time) (*wire.Message, error) {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case raw := <-c.say:
		return proxy.Scanned([]byte(raw))
	case <-c.poll:
		c.ex.Polled.Store(c.ex.Polls)
		return nil, proxy.ErrNotYet
	case <-c.ex.Done():
		return nil, c.ex.Err()
	case <-timer.C:
		return nil, proxy.ErrNotYet
	}
}

func (c *call) Close() error {
	close(c.over)
	return nil
}

func newDownstreamRig(t *testing.T, resume mcphttp.Resume) *downstreamRig {
	t.Helper()
	f := &downstreamRig{t: t, calls: make(map[string]*call)}
	store, err := session.NewStore(session.Options{IdleTTL: time.Minute, Max: 10})
	if err != nil {
		t.Fatal(err)
	}
	resume.Usage = &f.usage
	f.d = NewDownstream(f.handle, store, mcphttp.ResponseOptions{Patience: 20 * time.Millisecond, KeepAlive: 20 * time.Millisecond, Cap: testkit.Patient, Resume: resume})
	srv, err := httpserver.NewServer(httpserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := &mcphttp.Endpoint{Legacy: f.d}
	srv.Handle(fasthttp.MethodPost, "/mcp", e.Post)
	srv.Handle(fasthttp.MethodGet, "/mcp", f.d.Get)
	srv.Handle(fasthttp.MethodDelete, "/mcp", f.d.Delete)
	f.url = "http://" + testkit.Serve(t, srv) + "/mcp"
	transport := &http.Transport{}
	f.http = &http.Client{Transport: transport}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		store.Close()
		testkit.Eventually(t, "everything kept is given back", func() bool { return f.usage.Streams.Load() == 0 && f.usage.Bytes.Load() == 0 })
	})
	return f
}

// handle is the server.
func (f *downstreamRig) handle(ex *proxy.Exchange) (proxy.Replies, error) {
	m := &ex.Msg
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case m.Is("initialize"):
		return proxy.Reply(proxy.ResultMessage(m.Of(m.ID), []byte(`{"protocolVersion":"`+string(m.Text(m.ParamsVersion))+`"}`))), nil
	case m.Kind != wire.Request:
		f.said = append(f.said, string(m.Raw))
		return nil, nil
	}
	c := &call{ex: ex, say: make(chan string, 100), poll: make(chan struct{}), over: make(chan struct{})}
	ex.Msg.ID = m.ID
	f.calls[string(m.Of(m.ID))] = c
	return c, nil
}

// call waits for the request with the given id.
func (f *downstreamRig) call(id string) (c *call) {
	f.t.Helper()
	testkit.Eventually(f.t, "request "+id+" at the server", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		c = f.calls[id]
		return c != nil
	})
	return c
}

// open makes a session.
func (f *downstreamRig) open(version string) string {
	f.t.Helper()
	res := f.send("POST", "", "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+version+`","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	defer func() { _ = res.Body.Close() }()
	if kind := res.Header.Get("Content-Type"); kind != "application/json" {
		f.t.Fatalf("initialize is answered as %s", kind)
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		f.t.Fatal(err)
	}
	return res.Header.Get("Mcp-Session-Id")
}

// send sends a request; last is a Last-Event-ID.
func (f *downstreamRig) send(verb, sess, last, body string) *http.Response {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), verb, f.url, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if sess != "" {
		req.Header.Set("Mcp-Session-Id", sess)
	}
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	res, err := f.http.Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	return res
}

// stream is an event stream that the client reads.
type stream struct {
	t     *testing.T
	body  io.ReadCloser
	split eventstream.Splitter
}

func (f *downstreamRig) stream(verb, sess, last, body string) *stream {
	f.t.Helper()
	res := f.send(verb, sess, last, body)
	f.t.Cleanup(func() { _ = res.Body.Close() })
	if kind := res.Header.Get("Content-Type"); res.StatusCode != 200 || kind != "text/event-stream" {
		f.t.Fatalf("%s: %d %s", verb, res.StatusCode, kind)
	}
	return &stream{t: f.t, body: res.Body}
}

// post begins a request that the server does not answer at once, so that its answer is a stream.
func (f *downstreamRig) post(sess, id string) *stream {
	f.t.Helper()
	return f.stream("POST", sess, "", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"t"}}`, id))
}

// next returns the next event as "id retry data", or "end".
func (s *stream) next() string {
	s.t.Helper()
	type result struct {
		ev  eventstream.Event
		err error
	}
	got := make(chan result, 1)
	go func() {
		ev, err := s.split.Next(s.body)
		got <- result{ev, err}
	}()
	select {
	case r := <-got:
		if r.err != nil {
			if r.err != io.EOF {
				s.t.Errorf("the stream ended with %v", r.err)
			}
			return "end"
		}
		return strings.TrimRight(fmt.Sprintf("%s %d %s", r.ev.ID, r.ev.Retry, r.ev.Data), " ")
	case <-time.After(testkit.Patient):
		_ = s.body.Close()
		s.t.Fatal("no event came")
	}
	return ""
}

func (s *stream) want(events ...string) {
	s.t.Helper()
	for i, w := range events {
		if got := s.next(); got != w {
			s.t.Fatalf("event %d is %q, want %q", i, got, w)
		}
	}
}

// wantSuffix expects an event that ends with rest, whatever its id.
func (s *stream) wantSuffix(rest string) {
	s.t.Helper()
	if got := s.next(); !strings.HasSuffix(got, " "+rest) {
		s.t.Fatalf("the event is %q, want one with %q", got, rest)
	}
}

// lose breaks the connection off.
func (s *stream) lose() { _ = s.body.Close() }

// streams returns how many streams are recorded.
func (f *downstreamRig) streams() int64 { return f.usage.Streams.Load() }
