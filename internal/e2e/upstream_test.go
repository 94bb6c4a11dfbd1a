package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"dragoman/internal/testkit"
)

// upstream is a scripted server that records all messages. Kinds: modern, legacy, sse, modern-stdio, legacy-stdio.
type upstream struct {
	t      *testing.T
	kind   string
	legacy bool
	url    string // of HTTP kinds
	pipe   string // where children connect to, for stdio kinds

	mu       sync.Mutex
	seen     []*seen
	next     int // position in seen of the transcript's reader
	answers  map[string][]answer
	fallback answer
	calls    []*call // all that ever existed
	sessions int
	streams  map[string]*stream // SSE kind, and GET streams of the legacy kind
	procs    []*stream
	getOpen  bool // the legacy kind serves GET streams
	late     bool // the legacy kind never answers GET, and no HTTP kind acknowledges a message
	lost     map[string]bool
	// broadcasts: what is sent on one stream is sent on all, as by a bridge with one child; over streamable HTTP also on all other GET streams.
	broadcasts bool
	heard      func(s *seen, out *stream) // if not nil, gets every message, without blocking
	group      sync.WaitGroup
}

// seen is one message, or one request without a body, as received.
type seen struct {
	verb, path, method, id, token string
	header                        http.Header
	body                          string
}

// answer answers one request.
type answer func(c *call)

// stream is one way back to the client: an event stream, or the output of a process.
type stream struct {
	mu   sync.Mutex
	w    io.Writer
	sse  bool
	conn net.Conn
	done chan struct{}
	cast func(data string) // sends in its place; nil: none
}

func (s *stream) send(data string) {
	if s.cast != nil {
		s.cast(data)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.sse {
		_, _ = io.WriteString(s.w, data+"\n")
		return
	}
	_, _ = fmt.Fprintf(s.w, "event: message\ndata: %s\n\n", data)
	s.w.(http.Flusher).Flush()
}

// call is one request that waits for an answer.
type call struct {
	*seen
	up        *upstream
	w         http.ResponseWriter // HTTP kinds
	out       *stream             // sse and stdio kinds
	cancelled chan struct{}
	once      sync.Once
	began     bool
}

func (c *call) cancel() { c.once.Do(func() { close(c.cancelled) }) }

func (c *call) expand(text string) string {
	return strings.NewReplacer("$ID", c.id, "$TOKEN", c.token).Replace(text)
}

// event sends a message before the response.
func (c *call) event(data string) {
	data = c.expand(data)
	if c.out != nil {
		c.out.send(data)
		return
	}
	if c.up.broadcasts {
		c.up.cast(data, "get-"+c.header.Get("Mcp-Session-Id"))
	}
	if !c.began {
		c.began = true
		c.w.Header().Set("Content-Type", "text/event-stream")
		c.w.WriteHeader(200)
	}
	_, _ = fmt.Fprintf(c.w, "data: %s\n\n", data)
	c.w.(http.Flusher).Flush()
}

// result answers with a result, error with an error object.
func (c *call) result(result string) {
	c.message(200, `{"jsonrpc":"2.0","id":$ID,"result":`+result+`}`)
}
func (c *call) error(status int, object string) {
	c.message(status, `{"jsonrpc":"2.0","id":$ID,"error":`+object+`}`)
}

func (c *call) message(status int, data string) {
	if c.out != nil || c.began {
		c.event(data)
		return
	}
	c.raw(status, jsonType, data)
}

// raw answers with bytes; in stdio and sse they are sent line by line.
func (c *call) raw(status int, kind, body string) {
	body = c.expand(body)
	if c.out == nil && c.up.broadcasts && kind == jsonType {
		c.up.cast(body, "get-"+c.header.Get("Mcp-Session-Id"))
	}
	if c.out != nil {
		for line := range strings.SplitSeq(strings.TrimSpace(body), "\n") {
			line = strings.TrimPrefix(line, "data: ")
			if line != "" && !strings.HasPrefix(line, "event: ") {
				c.out.send(line)
			}
		}
		return
	}
	c.w.Header().Set("Content-Type", kind)
	c.w.WriteHeader(status)
	_, _ = io.WriteString(c.w, body)
}

// drop closes the connection without an answer.
func (c *call) drop() {
	if c.out != nil {
		_ = c.out.conn.Close()
		return
	}
	conn, _, err := c.w.(http.Hijacker).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

const (
	discovered = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"prompts":{},"resources":{"subscribe":true},"logging":{},"completions":{}},"instructions":"do","ttlMs":5,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"up","version":"1"}}}`
	// welcomed is an InitializeResult; %s is the version.
	welcomed = `{"protocolVersion":"%s","capabilities":{"tools":{"listChanged":true},"prompts":{},"resources":{"subscribe":true},"logging":{},"completions":{},"tasks":{}},"serverInfo":{"name":"up","version":"1"},"instructions":"do"}`
)

// newUpstream starts a scripted server. It ends with the test, after the proxy if that is started later.
func newUpstream(t *testing.T, kind string) *upstream {
	t.Helper()
	u := &upstream{t: t, kind: kind, legacy: !strings.HasPrefix(kind, "modern"), answers: map[string][]answer{},
		streams: map[string]*stream{}, lost: map[string]bool{}}
	u.fallback = func(c *call) {
		c.error(map[bool]int{true: 200, false: 404}[u.legacy], `{"code":-32601,"message":"unknown method"}`)
	}
	if strings.HasSuffix(kind, "stdio") {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		u.pipe = ln.Addr().String()
		u.group.Go(func() { u.accept(ln) })
		t.Cleanup(func() { _ = ln.Close(); u.hangUp(); u.group.Wait() })
		return u
	}
	u.url = newTestServer(t, u) + map[bool]string{true: "/sse", false: "/mcp"}[kind == "sse"]
	return u
}

// toml is the configuration of the upstream; extra are further keys of it, a line each.
func (u *upstream) toml(extra string) string {
	if u.pipe == "" {
		return fmt.Sprintf("[upstreams.default]\nurl = %q\n%s\n", u.url, extra)
	}
	self := testkit.Executable(u.t)
	return fmt.Sprintf("[upstreams.default]\ncommand = [%q]\nstop_grace = \"500ms\"\n%s\n[upstreams.default.env]\n%s = \"pipe\"\nDRAGOMAN_TEST_PIPE = %q\nGORACE = \"atexit_sleep_ms=0\"\n", self, extra, testkit.AsDragoman, u.pipe)
}

// on scripts the answers to a method; the last one is used for all further calls.
func (u *upstream) on(method string, answers ...answer) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.answers[method] = answers
}

// forget forgets what was seen.
func (u *upstream) forget() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.seen, u.next = nil, 0
}

// posts returns the number of received messages. Requests for a stream are none: they come when they like.
func (u *upstream) posts() (n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, s := range u.seen {
		if s.verb != "GET" {
			n++
		}
	}
	return n
}

// everything returns the received messages. The server may be receiving more: requests for a stream, deletions of sessions.
func (u *upstream) everything() []*seen {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.seen)
}

// all returns the received messages of a method.
func (u *upstream) all(method string) (out []*seen) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, s := range u.seen {
		if s.method == method {
			out = append(out, s)
		}
	}
	return out
}

// note records a message.
func (u *upstream) note(verb, path string, header http.Header, body []byte, out *stream) *seen {
	var m struct {
		Method string
		ID     json.RawMessage
		Params struct {
			RequestID json.RawMessage `json:"requestId"`
			Meta      struct {
				Token json.RawMessage `json:"progressToken"`
			} `json:"_meta"`
		}
	}
	_ = json.Unmarshal(body, &m)
	s := &seen{verb: verb, path: path, method: m.Method, id: string(m.ID), token: string(m.Params.Meta.Token), header: header, body: string(body)}
	if s.method == "" {
		s.method = verb
		if len(body) > 0 {
			s.method = "response"
		}
	}
	u.mu.Lock()
	u.seen = append(u.seen, s)
	heard := u.heard
	var gone *call
	if m.Method == "notifications/cancelled" {
		for _, c := range u.calls { // the newest of that session, or channel, with the id
			if c.id == string(m.Params.RequestID) && c.out == out && c.header.Get("Mcp-Session-Id") == header.Get("Mcp-Session-Id") {
				gone = c
			}
		}
	}
	u.mu.Unlock()
	if heard != nil {
		heard(s, out)
	}
	if gone != nil {
		gone.cancel()
	}
	return s
}

// pick finds the script of a request.
func (u *upstream) pick(s *seen) answer {
	u.mu.Lock()
	defer u.mu.Unlock()
	if as := u.answers[s.method]; len(as) > 0 {
		if len(as) > 1 {
			u.answers[s.method] = as[1:]
		}
		return as[0]
	}
	switch s.method {
	case "server/discover":
		if !u.legacy {
			return func(c *call) { c.result(discovered) }
		}
		return func(c *call) {
			if c.out != nil {
				c.error(200, `{"code":-32601,"message":"unknown method"}`)
				return
			}
			c.raw(400, "text/plain", "unsupported\n")
		}
	case "initialize":
		if !u.legacy {
			return func(c *call) {
				c.error(400, `{"code":-32022,"message":"no","data":{"supported":["2026-07-28"],"requested":"2025-11-25"}}`)
			}
		}
		return u.welcome
	case "ping", "logging/setLevel":
		if u.legacy {
			return func(c *call) { c.result("{}") }
		}
	}
	return u.fallback
}

var versionPattern = regexp.MustCompile(`"protocolVersion":"([^"]*)"`)

func (u *upstream) welcome(c *call) {
	version := "2025-11-25"
	if m := versionPattern.FindStringSubmatch(c.body); m != nil {
		version = m[1]
	}
	if c.w != nil && c.out == nil {
		u.mu.Lock()
		u.sessions++
		c.w.Header().Set("Mcp-Session-Id", "up-"+strconv.Itoa(u.sessions))
		u.mu.Unlock()
	}
	c.result(fmt.Sprintf(welcomed, version))
}

func (u *upstream) run(c *call) {
	c.cancelled = make(chan struct{})
	c.up = u
	u.mu.Lock()
	u.calls = append(u.calls, c)
	u.mu.Unlock()
	u.group.Go(func() { u.pick(c.seen)(c) })
}

// ServeHTTP serves the HTTP kinds.
func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if u.kind == "sse" {
		u.serveSSE(w, r, body)
		return
	}
	s := u.note(r.Method, r.URL.RequestURI(), r.Header.Clone(), body, nil)
	u.mu.Lock()
	lost, stream := u.lost[r.Header.Get("Mcp-Session-Id")], u.getOpen
	u.mu.Unlock()
	switch {
	case u.late && (r.Method == "GET" || r.Method == "POST" && (s.id == "" || s.method == "response")):
		<-r.Context().Done()
	case lost:
		w.WriteHeader(404)
	case r.Method == "DELETE":
		w.WriteHeader(204)
	case r.Method == "GET" && u.legacy && stream:
		u.serveStream(w, r, "get-"+r.Header.Get("Mcp-Session-Id"), "")
	case r.Method != "POST":
		w.Header().Set("Allow", "POST")
		w.WriteHeader(405)
	case s.id == "" || s.method == "response":
		w.WriteHeader(202)
	default:
		c := &call{seen: s, w: w}
		c.cancelled = make(chan struct{})
		u.runHTTP(c, r)
	}
}

// runHTTP runs a call that is cancelled by the end of its connection.
func (u *upstream) runHTTP(c *call, r *http.Request) {
	done := make(chan struct{})
	c.up = u
	u.mu.Lock()
	u.calls = append(u.calls, c)
	u.mu.Unlock()
	go func() {
		select {
		case <-r.Context().Done():
			c.cancel()
		case <-done:
		}
	}()
	u.pick(c.seen)(c)
	close(done)
}

// serveStream keeps an event stream open under a name.
func (u *upstream) serveStream(w http.ResponseWriter, r *http.Request, name, first string) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(200)
	s := &stream{w: w, sse: true, done: make(chan struct{})}
	s.mu.Lock()
	u.mu.Lock()
	u.streams[name] = s
	u.mu.Unlock()
	_, _ = io.WriteString(w, first)
	w.(http.Flusher).Flush()
	s.mu.Unlock()
	select {
	case <-r.Context().Done():
	case <-s.done:
	}
	u.mu.Lock()
	if u.streams[name] == s {
		delete(u.streams, name)
	}
	u.mu.Unlock()
	u.end(s)
	s.mu.Lock() // no send uses the writer any more
	s.w = struct {
		io.Writer
		http.Flusher
	}{io.Discard, noFlush{}}
	s.mu.Unlock()
}

type noFlush struct{}

func (noFlush) Flush() {}

func (u *upstream) serveSSE(w http.ResponseWriter, r *http.Request, body []byte) {
	if r.URL.Path == "/sse" {
		u.note(r.Method, r.URL.RequestURI(), r.Header.Clone(), body, nil)
		if r.Method != "GET" {
			w.WriteHeader(405)
			return
		}
		u.mu.Lock()
		u.sessions++
		name := strconv.Itoa(u.sessions)
		endpoint := "/messages?s=" + name
		if as := u.answers["endpoint"]; len(as) > 0 {
			endpoint = "http://elsewhere.example/messages"
		}
		u.mu.Unlock()
		u.serveStream(w, r, name, "event: endpoint\ndata: "+endpoint+"\n\n")
		return
	}
	u.mu.Lock()
	out := u.streams[r.URL.Query().Get("s")]
	u.mu.Unlock()
	s := u.note(r.Method, r.URL.RequestURI(), r.Header.Clone(), body, out)
	if out == nil {
		w.WriteHeader(404)
		return
	}
	if !u.late {
		w.WriteHeader(202)
	}
	if s.id != "" && s.method != "response" {
		if u.broadcasts {
			out = &stream{cast: func(data string) { u.cast(data, "") }}
		}
		u.run(&call{seen: s, out: out})
	}
	if u.late {
		<-r.Context().Done()
	}
}

// cast sends a message on all open event streams but one.
func (u *upstream) cast(data, but string) {
	u.mu.Lock()
	others := maps.Clone(u.streams)
	u.mu.Unlock()
	delete(others, but)
	all := slices.Collect(maps.Values(others))
	for _, s := range all {
		s.send(data)
	}
}

// end cancels the calls whose connection has ended.
func (u *upstream) end(out *stream) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range u.calls {
		if c.out == out {
			c.cancel()
		}
	}
}

// accept serves the children of the stdio kinds.
func (u *upstream) accept(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		out := &stream{w: conn, conn: conn}
		u.mu.Lock()
		u.procs = append(u.procs, out)
		u.mu.Unlock()
		u.group.Go(func() {
			defer func() { _ = conn.Close(); u.end(out) }()
			r := bufio.NewReader(conn)
			for {
				line, err := r.ReadBytes('\n')
				if err != nil {
					return
				}
				s := u.note("", "", nil, line[:len(line)-1], out)
				if s.id != "" && s.method != "response" {
					u.run(&call{seen: s, out: out})
				}
			}
		})
	}
}

// hangUp makes all children exit.
func (u *upstream) hangUp() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, p := range u.procs {
		_ = p.conn.Close()
	}
}
