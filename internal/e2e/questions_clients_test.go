package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"dragoman/internal/testkit"
)

// testClient is a client that answers questions, over any transport. Labels name single requests; a transport with one channel does not use
// them.
type testClient interface {
	open(version, caps string)
	send(label, body string)
	// receives returns the next message on the answer to the request, or on the client's one channel.
	receives(label string) string
	// over checks that the request's answer has ended, with the given HTTP status if there is one, and without further messages.
	over(label, status string)
	// leave ends one request before its answer: by closing the connection over HTTP, by notifications/cancelled otherwise.
	leave(label string)
	// listen opens the stream for messages outside of requests, if it is not open anyway.
	listen()
}

// sentMessage is the part of a sent message that a client needs.
type sentMessage struct {
	Method string
	ID     json.RawMessage
	Params struct{ Name, URI string }
	modern bool
}

func parseMessage(t *testing.T, body string) (m sentMessage) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	m.modern = strings.Contains(body, `"io.modelcontextprotocol/protocolVersion"`)
	return m
}

// posted is one POST or GET in flight.
type posted struct {
	messages chan string // closed at the end of the answer
	stop     context.CancelFunc
	status   int // once messages is closed
}

// httpTestClient speaks streamable HTTP of either era.
type httpTestClient struct {
	r       *rig
	session string

	mu    sync.Mutex
	posts map[string]*posted
	group sync.WaitGroup
}

func newHTTPTestClient(r *rig) *httpTestClient {
	f := &httpTestClient{r: r, posts: map[string]*posted{}}
	r.t.Cleanup(func() {
		f.mu.Lock()
		for _, p := range f.posts {
			p.stop()
		}
		f.mu.Unlock()
		f.group.Wait()
	})
	return f
}

func (f *httpTestClient) open(version, caps string) { f.session = f.r.open(version, caps) }

func (f *httpTestClient) send(label, body string) {
	f.r.t.Helper()
	m := parseMessage(f.r.t, body)
	if m.Method == "" || m.ID == nil {
		if res := f.r.must("POST", "/mcp", body, legacyHeaders(f.session)...); res.status != 202 || res.body != "" {
			f.r.t.Errorf("POST of %s: %d %q", body, res.status, res.body)
		}
		return
	}
	headers := legacyHeaders(f.session)
	if m.modern {
		headers = modernHeaders(m.Method, m.Params.Name+m.Params.URI)
	}
	f.begin(label, "POST", body, headers)
}

func (f *httpTestClient) listen() {
	f.begin("stream", "GET", "", []string{"Accept", "text/event-stream", "Mcp-Session-Id", f.session})
	testkit.Eventually(f.r.t, "the stream's beginning", func() bool {
		sess := f.r.h.Sessions().Find([]byte(f.session), "", unidentified)
		return sess != nil && sess.HasOutlet()
	})
}

func (f *httpTestClient) begin(label, verb, body string, headers []string) {
	ctx, stop := context.WithCancel(f.r.t.Context())
	p := &posted{messages: make(chan string, 1024), stop: stop}
	f.mu.Lock()
	f.posts[label] = p
	f.mu.Unlock()
	req, err := http.NewRequestWithContext(ctx, verb, f.r.base+"/mcp", strings.NewReader(body))
	if err != nil {
		f.r.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	f.group.Go(func() {
		defer close(p.messages)
		defer stop()
		res, err := f.r.http.Do(req)
		if err != nil {
			return
		}
		defer func() { _ = res.Body.Close() }()
		p.status = res.StatusCode
		if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
			if raw, _ := io.ReadAll(res.Body); len(raw) > 0 {
				p.messages <- string(raw)
			}
			return
		}
		lines := bufio.NewScanner(res.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if data := strings.TrimPrefix(strings.TrimPrefix(lines.Text(), "data:"), " "); strings.HasPrefix(lines.Text(), "data:") && data != "" {
				p.messages <- data
			}
		}
	})
}

func (f *httpTestClient) of(label string) *posted {
	f.r.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.posts[label]
	if p == nil {
		f.r.t.Fatalf("no request %q", label)
	}
	return p
}

func (f *httpTestClient) receives(label string) string {
	f.r.t.Helper()
	p := f.of(label)
	m := testkit.Receive(f.r.t, "a message of "+label, p.messages)
	if m == "" {
		return fmt.Sprintf("(the end of the answer, status %d)", p.status)
	}
	return m
}

func (f *httpTestClient) over(label, status string) {
	f.r.t.Helper()
	p := f.of(label)
	if m := testkit.Receive(f.r.t, "the end of "+label, p.messages); m != "" {
		f.r.t.Errorf("more on %s: %s", label, m)
		return
	}
	if status != "" && fmt.Sprint(p.status) != status {
		f.r.t.Errorf("%s: status %d, want %s", label, p.status, status)
	}
}

func (f *httpTestClient) leave(label string) {
	p := f.of(label)
	p.stop()
	for range p.messages { // to its end
	}
}

// channelClient is a client with one channel for all messages: HTTP+SSE or stdio.
type channelClient struct {
	t     *testing.T
	write func(body string)
	lines <-chan string
	ids   map[string]json.RawMessage // by label
	pings int
	isNow bool // the client is modern
}

func newSSEChannelClient(r *rig) *channelClient {
	c := r.sse("/sse")
	lines := make(chan string, 1024)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(lines)
		for {
			name, data := c.event()
			if name == "" {
				return
			}
			lines <- data
		}
	}()
	r.t.Cleanup(func() { _ = c.res.Body.Close(); <-done })
	return &channelClient{t: r.t, write: c.send, lines: lines, ids: map[string]json.RawMessage{}}
}

func newPipeClient(t *testing.T, p *pipes) *channelClient {
	return &channelClient{t: t, write: p.send, lines: p.lines, ids: map[string]json.RawMessage{}}
}

func (f *channelClient) open(version, caps string) {
	f.t.Helper()
	f.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":"open","method":"initialize","params":{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"c","version":"1"}}}`, version, caps))
	if got := f.receives(""); !matches(`{"jsonrpc":"2.0","id":"open","result":{…`, got) {
		f.t.Fatalf("initialize: %s", got)
	}
	f.write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func (f *channelClient) send(label, body string) {
	f.t.Helper()
	m := parseMessage(f.t, body)
	if m.Method != "" && m.ID != nil {
		f.ids[label], f.isNow = m.ID, m.modern
	}
	f.write(body)
}

func (f *channelClient) receives(label string) string {
	f.t.Helper()
	return testkit.Receive(f.t, "a message for "+label, f.lines)
}

// over asks something that is answered by Dragoman alone: what comes first has been said before.
func (f *channelClient) over(label, _ string) {
	f.t.Helper()
	f.pings++
	body, want := fmt.Sprintf(`{"jsonrpc":"2.0","id":"over-%d","method":"ping"}`, f.pings), `{"jsonrpc":"2.0","id":"over-%d","result":{}}`
	if f.isNow {
		body = fmt.Sprintf(`{"jsonrpc":"2.0","id":"over-%d","method":"ping","params":{%s}}`, f.pings, modernMeta)
		want = `{"jsonrpc":"2.0","id":"over-%d","error":{"code":-32601,…`
	}
	f.write(body)
	if got := f.receives(label); !matches(fmt.Sprintf(want, f.pings), got) {
		f.t.Errorf("more for %s: %s", label, got)
	}
}

func (f *channelClient) leave(label string) {
	f.t.Helper()
	f.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, f.ids[label]))
}

func (f *channelClient) listen() {}
