package legacy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"dragoman/adapters/httpcall"
	"dragoman/adapters/httpd/httpclient"
	"dragoman/adapters/transport"
	"dragoman/internal/testkit"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// server is a legacy server whose streams the test scripts: that of the POST, and each GET's in turn.
type server struct {
	t    *testing.T
	link transport.Link
	post string // the stream that answers a call; $ID stands for its id

	mu   sync.Mutex
	id   string
	gets []get
	next []string // answers to GETs with Last-Event-ID: a stream, "STATUS", or "hang"
	own  []string // answers to GETs without it
	said []string // messages outside of calls
}

// get is one GET that the server has seen.
type get struct {
	last string
	at   time.Time
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		body, _ := io.ReadAll(r.Body)
		m, err := wire.Scan(body)
		switch {
		case err != nil || m.Kind != wire.Request:
			w.WriteHeader(http.StatusAccepted)
		case m.Is("initialize"):
			w.Header().Set("Mcp-Session-Id", "up")
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25"}}`, m.Of(m.ID))
		default:
			s.mu.Lock()
			s.id = string(m.Of(m.ID))
			s.mu.Unlock()
			s.stream(w, r, s.post)
		}
		return
	}
	last := r.Header.Get("Last-Event-ID")
	s.mu.Lock()
	answer := "405"
	s.gets = append(s.gets, get{last, time.Now()})
	list := &s.own
	if last != "" {
		list = &s.next
	}
	if len(*list) > 0 {
		answer, *list = (*list)[0], (*list)[1:]
	}
	s.mu.Unlock()
	s.stream(w, r, answer)
}

// stream answers with events, then ends; "hang" at the end keeps the stream open, "cut" breaks the connection off.
func (s *server) stream(w http.ResponseWriter, r *http.Request, events string) {
	if len(events) == 3 && events != "cut" {
		var status int
		_, _ = fmt.Sscan(events, &status)
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	s.mu.Lock()
	id := s.id
	s.mu.Unlock()
	text, hang := strings.CutSuffix(events, "hang")
	text, cut := strings.CutSuffix(text, "cut")
	_, _ = io.WriteString(w, strings.ReplaceAll(text, "$ID", id))
	w.(http.Flusher).Flush()
	switch {
	case hang:
		<-r.Context().Done()
	case cut:
		panic(http.ErrAbortHandler)
	}
}

// Message and Lost are the transport.Sink.
func (s *server) Message(m *wire.Message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said = append(s.said, string(m.Raw))
	return true
}

func (s *server) Lost(error) {}

func (s *server) seen() []get {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]get(nil), s.gets...)
}

// resumed returns the GETs with Last-Event-ID.
func (s *server) resumed() (with []get) {
	for _, g := range s.seen() {
		if g.last != "" {
			with = append(with, g)
		}
	}
	return with
}

func start(t *testing.T, s *server) *server {
	t.Helper()
	s.t = t
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	host, err := httpclient.NewHost(httpclient.HostOptions{URL: web.URL, Proxy: "off"})
	if err != nil {
		t.Fatal(err)
	}
	s.link, err = NewDialer(host, "/mcp", httpcall.Limits{Body: 1 << 20, Event: 1 << 20}).Dial(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.link.Close(), host.Close()); err != nil {
			t.Error(err)
		}
		web.CloseClientConnections()
	})
	replies, _ := s.request(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	if _, err := proxy.Response(replies, time.Now().Add(testkit.Patient)); err != nil {
		t.Fatal(err)
	}
	return s
}

// request makes a call on the link.
func (s *server) request(raw string) (proxy.Replies, *proxy.Exchange) {
	s.t.Helper()
	m, err := wire.Scan([]byte(raw))
	if err != nil {
		s.t.Fatal(err)
	}
	ex := &proxy.Exchange{Msg: m}
	replies, err := s.link.Call(ex)
	if err != nil {
		s.t.Fatal(err)
	}
	return replies, ex
}

func (s *server) tool() (proxy.Replies, *proxy.Exchange) {
	s.t.Helper()
	return s.request(`{"jsonrpc":"2.0","id":"mine","method":"tools/call","params":{"name":"t","_meta":{"progressToken":"p"}}}`)
}

// read returns the next reply, or the error.
func read(r proxy.Replies, wait time.Duration) string {
	m, err := r.Next(time.Now().Add(wait))
	if err != nil {
		return err.Error()
	}
	return string(m.Append(nil))
}

const mine = `{"jsonrpc":"2.0","id":"mine","result":{}}`

// A server closes the stream and names a retry time: the reader of the call gets one answer.
func TestAnswerIsReopened(t *testing.T) {
	s := start(t, &server{
		post: "id: 1\nretry: 250\ndata:\n\nid: 2\ndata: " + tick + "\n\n",
		next: []string{"id: 3\ndata: " + tock + "\n\ncut", "500", "id: 4\ndata: {\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{}}\n\n"},
	})
	r, _ := s.tool()
	defer func() { _ = r.Close() }()
	began := time.Now()
	for i, want := range []string{tick, tock, mine} {
		if got := read(r, testkit.Patient); got != want {
			t.Fatalf("reply %d: %s, want %s", i, got, want)
		}
	}
	gets := s.resumed()
	if len(gets) != 3 || gets[0].last != "2" || gets[1].last != "3" || gets[2].last != "3" {
		t.Fatalf("%v", gets)
	}
	if gets[0].at.Sub(began) < 250*time.Millisecond || gets[1].at.Sub(gets[0].at) < 250*time.Millisecond || gets[2].at.Sub(gets[1].at) < 500*time.Millisecond {
		t.Errorf("resumed too early: %v, began %v", gets, began)
	}
	if got := read(r, testkit.Patient); got != io.EOF.Error() {
		t.Errorf("after the response: %s", got)
	}
}

// During the wait Next returns at its deadline, as often as it is called; cancelling ends the wait at once.
func TestReopeningKeepsDeadlines(t *testing.T) {
	s := start(t, &server{post: "id: 1\nretry: 30000\ndata:\n\n"})
	r, ex := s.tool()
	for range 3 {
		began := time.Now()
		if got := read(r, 20*time.Millisecond); got != proxy.ErrNotYet.Error() || time.Since(began) > 5*time.Second {
			t.Fatalf("%s after %v", got, time.Since(began))
		}
	}
	time.AfterFunc(10*time.Millisecond, func() { ex.Cancel(proxy.ErrCancelled) })
	began := time.Now()
	if got := read(r, time.Minute); got != proxy.ErrCancelled.Error() || time.Since(began) > testkit.Patient {
		t.Fatalf("%s after %v", got, time.Since(began))
	}
	_ = r.Close()
	if len(s.resumed()) != 0 {
		t.Error("resumed nevertheless")
	}
}

// Cancelled while the stream is open again, or its head awaited.
func TestAnswerCancelledAfterReopening(t *testing.T) {
	for name, next := range map[string]string{"head": "hang", "events": "id: 2\ndata:\n\nhang"} {
		t.Run(name, func(t *testing.T) {
			s := start(t, &server{post: "id: 1\nretry: 100\ndata:\n\n", next: []string{next}})
			r, ex := s.tool()
			done := make(chan string)
			go func() { done <- read(r, time.Minute) }()
			testkit.Eventually(t, "the stream is asked for", func() bool { return len(s.resumed()) == 1 })
			ex.Cancel(proxy.ErrCancelled)
			if got := <-done; got != proxy.ErrCancelled.Error() {
				t.Fatal(got)
			}
			_ = r.Close()
		})
	}
}

func TestAnswersThatAreNotReopened(t *testing.T) {
	for name, c := range map[string]struct {
		post string
		next []string
		want string
		gets int
	}{
		"no ids":              {"data: " + tick + "\n\n", nil, "ended without a response", 0},
		"ids taken back":      {"id: 1\ndata: " + tick + "\n\nid:\nretry: 100\ndata:\n\n", nil, "ended without a response", 0},
		"an id for no header": {"id: " + strings.Repeat("x", 2000) + "\ndata: " + tick + "\n\n", nil, "ended without a response", 0},
		"refused":             {"id: 1\nretry: 100\ndata: " + tick + "\n\n", []string{"400"}, "will not go on with it", 1},
		"session gone":        {"id: 1\nretry: 100\ndata: " + tick + "\n\n", []string{"404"}, "forgotten the session", 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, &server{post: c.post, next: c.next})
			r, _ := s.tool()
			defer func() { _ = r.Close() }()
			if got := read(r, testkit.Patient); got != tick {
				t.Fatal(got)
			}
			if got := read(r, testkit.Patient); !strings.Contains(got, c.want) {
				t.Errorf("%s, want …%s…", got, c.want)
			}
			if gets := s.resumed(); len(gets) != c.gets {
				t.Errorf("asked: %v", gets)
			}
		})
	}
}

// A client that supports polling is disconnected before its timeout, once, and the call goes on. A broken connection is not such a close.
func TestPollingIsPassedOn(t *testing.T) {
	const answer = "data: {\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{}}\n\n"
	s := start(t, &server{post: "id: 1\nretry: 100\ndata:\n\n", next: []string{answer}})
	r, ex := s.tool()
	ex.Polls = true
	if got := read(r, time.Minute); got != proxy.ErrNotYet.Error() || !ex.Polled.Load() {
		t.Fatalf("%s, polled %v", got, ex.Polled.Load())
	}
	if got := read(r, testkit.Patient); got != mine {
		t.Fatal(got)
	}
	_ = r.Close()

	s = start(t, &server{post: "id: 1\nretry: 100\ndata:\n\ncut", next: []string{answer}})
	r, ex = s.tool()
	ex.Polls = true
	if got := read(r, testkit.Patient); got != mine || ex.Polled.Load() {
		t.Fatalf("%s, polled %v", got, ex.Polled.Load())
	}
	_ = r.Close()
}

// The link's own stream is reopened from the last event at the server's retry time, or without an event if the server does not know it any
// more.
func TestOwnStreamIsReopened(t *testing.T) {
	note := func(n string) string { return `{"jsonrpc":"2.0","method":"notifications/` + n + `"}` }
	s := start(t, &server{
		own:  []string{"id: a\nretry: 200\ndata: " + note("1") + "\n\n", "data: " + note("4") + "\n\nhang"},
		next: []string{"id: b\ndata: " + note("2") + "\n\ncut", "id: c\ndata: " + note("3") + "\n\n", "400"},
	})
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patient)
	defer cancel()
	if err := s.link.Send(ctx, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "all four notices", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return strings.Join(s.said, "") == note("1")+note("2")+note("3")+note("4")
	})
	var last []string
	gets := s.seen()
	for i, g := range gets {
		last = append(last, g.last)
		if i > 0 && g.at.Sub(gets[i-1].at) < 200*time.Millisecond {
			t.Errorf("GET %d came too soon", i)
		}
	}
	if got := strings.Join(last, ","); got != ",a,b,c," {
		t.Errorf("Last-Event-ID of the GETs: %s", got)
	}
}

// A server that still holds a former stream, which it takes for open, is asked again for one: it refuses a second one at a time with 409.
func TestOwnStreamIsTriedAgain(t *testing.T) {
	note := func(n string) string { return `{"jsonrpc":"2.0","method":"notifications/` + n + `"}` }
	s := start(t, &server{own: []string{"data: " + note("1") + "\n\n", "409", "409", "data: " + note("2") + "\n\nhang"}})
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patient)
	defer cancel()
	if err := s.link.Send(ctx, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "both notices", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return strings.Join(s.said, "") == note("1")+note("2")
	})
	if !s.link.(*link).Pushes() {
		t.Error("a server that refuses a second stream has none")
	}
}
