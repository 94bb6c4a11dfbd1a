package faults

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// serverKinds are the upstreams: two eras over HTTP, HTTP+SSE, lines on a TCP socket in both eras, and a gRPC provider.
var serverKinds = []string{"modern", "legacy", "sse", "modern-lines", "legacy-lines", "grpc"}

const (
	bigSize   = 200_000 // of the text that the tool big answers with
	events    = 6       // that the tool stream sends before its result
	eventPad  = 600     // bytes in each
	eventTime = 50 * time.Millisecond
)

// server is a scripted server that counts the runs of each call of a tool. Tools: echo answers at once, big with a large text, stream
// with events before the result.
type server struct {
	kind   string
	legacy bool
	addr   string
	group  sync.WaitGroup

	mu       sync.Mutex
	runs     map[string]int // by the argument tag
	sessions int
	channels map[string]chan string // of SSE clients
}

// newServer starts a server, which ends with the test.
func newServer(t *testing.T, kind string) *server {
	t.Helper()
	s := &server{kind: kind, legacy: !strings.HasPrefix(kind, "modern") && kind != "grpc", runs: map[string]int{}, channels: map[string]chan string{}}
	if kind == "grpc" {
		s.serveProvider(t)
		return s
	}
	if !strings.HasSuffix(kind, "-lines") {
		srv := httptest.NewServer(s)
		s.addr = srv.Listener.Addr().String()
		t.Cleanup(func() { srv.CloseClientConnections(); srv.Close(); s.group.Wait() })
		return s
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = ln.Addr().String()
	done := make(chan struct{})
	s.group.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			s.group.Go(func() { s.lines(conn, done) })
		}
	})
	t.Cleanup(func() { _ = ln.Close(); close(done); s.group.Wait() })
	return s
}

// url returns the server's URL in Dragoman's configuration, if it is reached at addr.
func (s *server) url(addr string) string {
	switch s.kind {
	case "sse":
		return "http://" + addr + "/sse"
	case "modern", "legacy":
		return "http://" + addr + "/mcp"
	case "grpc":
		return "grpc://" + addr
	}
	return "tcp://" + addr
}

// ran returns the number of runs of the call with the tag.
func (s *server) ran(tag string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[tag]
}

// message has the members of a message that the server reads.
type message struct {
	ID     json.RawMessage
	Method string
	Params struct {
		Name            string
		ProtocolVersion string
		Arguments       struct{ Tag string }
		Meta            struct {
			Token json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	}
}

const tools = `[{"name":"echo","inputSchema":{"type":"object"}},{"name":"big","inputSchema":{"type":"object"}},{"name":"stream","inputSchema":{"type":"object"}},` +
	`{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]`

// answer answers a request with events and then one response.
func (s *server) answer(raw []byte, say func(string)) {
	var m message
	_ = json.Unmarshal(raw, &m)
	result := func(text string) { say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, text)) }
	switch m.Method {
	case "server/discover":
		if s.legacy {
			say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown method"}}`, m.ID))
			return
		}
		result(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"up","version":"1"}}}`)
	case "initialize":
		if !s.legacy {
			say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28"]}}}`, m.ID))
			return
		}
		result(fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{"tools":{}},"serverInfo":{"name":"up","version":"1"}}`, m.Params.ProtocolVersion))
	case "tools/list":
		result(`{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":` + tools + `}`)
	case "tools/call":
		s.call(&m, say, result)
	default:
		result(`{"resultType":"complete"}`)
	}
}

func (s *server) call(m *message, say, result func(string)) {
	s.run(m.Params.Arguments.Tag)
	text := m.Params.Arguments.Tag
	switch m.Params.Name {
	case "big":
		text = strings.Repeat("x", bigSize)
	case "stream":
		tick := time.NewTicker(eventTime)
		defer tick.Stop()
		for i := range events {
			pad := strings.Repeat("y", eventPad)
			if token := m.Params.Meta.Token; len(token) > 0 {
				say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d,"message":%q}}`, token, i+1, pad))
			} else {
				say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%q}}`, pad))
			}
			<-tick.C
		}
	}
	result(fmt.Sprintf(`{"resultType":"complete","content":[{"type":"text","text":%q}]}`, text))
}

// ServeHTTP serves the HTTP kinds.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var m message
	_ = json.Unmarshal(body, &m)
	switch {
	case s.kind == "sse" && r.Method == http.MethodGet:
		s.stream(w, r)
	case s.kind == "sse":
		s.posted(w, r, body, len(m.ID) > 0 && m.Method != "")
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodGet && s.legacy:
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case len(m.ID) == 0 || m.Method == "":
		w.WriteHeader(http.StatusAccepted)
	case s.legacy && m.Method == "server/discover":
		http.Error(w, "unsupported", http.StatusBadRequest)
	default:
		if m.Method == "initialize" && s.legacy {
			w.Header().Set("Mcp-Session-Id", s.session())
		}
		s.respond(w, body, m.Params.Name == "stream")
	}
}

func (s *server) session() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions++
	return "s" + strconv.Itoa(s.sessions)
}

// respond answers a POST: with an event stream if there are events.
func (s *server) respond(w http.ResponseWriter, body []byte, streams bool) {
	if streams {
		w.Header().Set("Content-Type", "text/event-stream")
	} else {
		w.Header().Set("Content-Type", "application/json")
	}
	s.answer(body, func(text string) {
		if !streams {
			if !s.legacy { // else the body is chunked
				w.Header().Set("Content-Length", strconv.Itoa(len(text)))
			}
			_, _ = io.WriteString(w, text)
			return
		}
		_, _ = fmt.Fprintf(w, "data: %s\n\n", text)
		w.(http.Flusher).Flush()
	})
}

// stream is the GET of an SSE client.
func (s *server) stream(w http.ResponseWriter, r *http.Request) {
	id, ch := s.session(), make(chan string, 64)
	s.mu.Lock()
	s.channels[id] = ch
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.channels, id)
		s.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = fmt.Fprintf(w, "event: endpoint\ndata: /messages?s=%s\n\n", id)
	w.(http.Flusher).Flush()
	for {
		select {
		case text := <-ch:
			_, _ = fmt.Fprintf(w, "event: message\ndata: %s\n\n", text)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// posted handles a POST of an SSE client. The answer goes to its stream, if it is still open.
func (s *server) posted(w http.ResponseWriter, r *http.Request, body []byte, request bool) {
	s.mu.Lock()
	ch := s.channels[r.URL.Query().Get("s")]
	s.mu.Unlock()
	if ch == nil {
		http.Error(w, "no such session", http.StatusNotFound)
		return
	}
	w.WriteHeader(http.StatusAccepted)
	if request {
		s.group.Go(func() {
			s.answer(body, func(text string) {
				select {
				case ch <- text:
				case <-time.After(patient): // nobody reads
				}
			})
		})
	}
}

// lines serves a connection of the socket kinds.
func (s *server) lines(conn net.Conn, done <-chan struct{}) {
	var group sync.WaitGroup
	var mu sync.Mutex
	stop := make(chan struct{})
	go func() {
		select {
		case <-done:
		case <-stop:
			return
		}
		_ = conn.Close()
	}()
	defer func() { group.Wait(); close(stop); _ = conn.Close() }()
	r := bufio.NewReader(conn)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return
		}
		var m message
		_ = json.Unmarshal(line, &m)
		if len(m.ID) == 0 || m.Method == "" {
			continue
		}
		group.Go(func() {
			s.answer(line, func(text string) {
				mu.Lock()
				defer mu.Unlock()
				_ = conn.SetWriteDeadline(time.Now().Add(patient))
				_, _ = io.WriteString(conn, text+"\n")
			})
		})
	}
}
