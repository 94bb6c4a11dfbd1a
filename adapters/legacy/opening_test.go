package legacy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"dragoman/adapters/httpcall"
	"dragoman/adapters/httpd/httpclient"
	"dragoman/adapters/rules"
	"dragoman/adapters/transport"
	"dragoman/internal/testkit"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// lateServer is a legacy server whose answers to GET, and to messages that are no requests, the test gives when it likes.
type lateServer struct {
	t      *testing.T
	dialer *Dialer
	gets   chan *testkit.Held // requests for a stream
	said   chan *testkit.Held // notifications and answers
	calls  chan string        // requests that were answered
}

func newLateServer(t *testing.T) *lateServer {
	s := &lateServer{t: t, gets: make(chan *testkit.Held, 10), said: make(chan *testkit.Held, 100), calls: make(chan string, 100)}
	var srv *testkit.HoldingServer
	srv = testkit.NewHoldingServer(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m, err := wire.Scan(body)
		switch {
		case err == nil && m.Kind == wire.Request:
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Mcp-Session-Id", "s")
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25"}}`, m.Of(m.ID))
			s.calls <- string(m.Text(m.Method))
		case r.Method == http.MethodGet:
			srv.Hold(w, r, nil, s.gets)
		case r.Method == http.MethodPost:
			srv.Hold(w, r, body, s.said)
		}
	})
	host, err := httpclient.NewHost(httpclient.HostOptions{URL: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = host.Close() })
	s.dialer = NewDialer(host, "/", httpcall.Limits{Body: 1 << 20, Event: 1 << 20})
	return s
}

// lateSink receives what comes outside calls.
type lateSink struct {
	messages chan string
	lost     chan error
}

func (s *lateSink) Message(m *wire.Message) bool { s.messages <- string(m.Raw); return true }
func (s *lateSink) Lost(err error)               { s.lost <- err }

// open opens a link and does the handshake. The server acknowledges the notification unless silent.
func (s *lateServer) open(silent bool) (*link, *lateSink) {
	s.t.Helper()
	sink := &lateSink{messages: make(chan string, 10), lost: make(chan error, 10)}
	l, err := s.dialer.Dial(s.t.Context(), sink)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = l.Close() })
	s.call(l, "initialize")
	var acknowledged sync.WaitGroup
	if !silent {
		acknowledged.Go(func() { testkit.Receive(s.t, "initialized", s.said).Status <- 202 })
	}
	if err := l.Send(s.t.Context(), []byte(rules.Initialized)); err != nil {
		s.t.Fatal(err)
	}
	acknowledged.Wait()
	return l.(*link), sink
}

// call makes a request and waits for its answer.
func (s *lateServer) call(l transport.Link, method string) {
	s.t.Helper()
	m, err := transport.AskLegacy(s.t.Context(), l, []byte(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{}}`))
	if err != nil || m.Kind != wire.Result {
		s.t.Fatalf("%s: %v", method, err)
	}
	if got := testkit.Receive(s.t, "the request", s.calls); got != method {
		s.t.Fatalf("%s arrived, want %s", got, method)
	}
}

// Calls do not wait for a stream whose head is late: only the first call in which the server may ask waits a moment. Messages that arrive on
// the stream later are delivered.
func TestCallsDoNotWaitForTheStream(t *testing.T) {
	s := newLateServer(t)
	began := time.Now()
	l, sink := s.open(false)
	get := testkit.Receive(t, "GET", s.gets)
	s.call(l, "tools/list") // waits for nothing
	if wait := s.dialer.streams.For(1); wait == 0 {
		t.Error("the server counts as late before anything has waited")
	}
	s.call(l, "tools/call")
	if took := time.Since(began); took > streamMost {
		t.Errorf("the session took %v", took)
	}
	if wait := s.dialer.streams.For(1); wait != 0 {
		t.Errorf("the next session would wait %v", wait)
	}
	if !l.Pushes() {
		t.Error("a server that has not answered counts as one without a stream")
	}
	other, _ := s.open(false)
	if l := other; l.opening.pending() {
		t.Error("a call of the next session waits")
	}
	s.call(other, "tools/call")
	get.Status <- 200
	get.Events <- `{"jsonrpc":"2.0","id":"q","method":"roots/list"}`
	if m := testkit.Receive(t, "the question", sink.messages); !strings.Contains(m, "roots/list") {
		t.Errorf("%s", m)
	}
	testkit.Receive(t, "GET", s.gets).Status <- 200
	testkit.Receive(t, "the answer", other.Answered())
}

// A call waits for a stream that the server is about to open: some drop what they send before.
func TestCallsWaitForAPromptStream(t *testing.T) {
	s := newLateServer(t)
	l, _ := s.open(false)
	l.opening.until = time.Now().Add(testkit.Patient)
	get := testkit.Receive(t, "GET", s.gets)
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		s.call(l, "tools/call")
	}()
	select {
	case method := <-s.calls:
		t.Errorf("%s was sent before the stream was open", method)
	case <-time.After(20 * time.Millisecond):
	}
	get.Status <- 200
	testkit.Receive(t, "the end of the call", asked)
}

// A server that refuses its stream late has none.
func TestStreamRefusedLate(t *testing.T) {
	s := newLateServer(t)
	l, _ := s.open(false)
	get := testkit.Receive(t, "GET", s.gets)
	s.call(l, "tools/call")
	if !l.Pushes() {
		t.Error("refused before the answer")
	}
	get.Status <- 405
	testkit.Receive(t, "the answer", l.Answered())
	if l.Pushes() {
		t.Error("a server that has refused its stream pushes")
	}
}

// Nothing waits for the acknowledgement of an answer, and no later session for that of a notification. One that comes late still counts.
func TestLateAcknowledgements(t *testing.T) {
	s := newLateServer(t)
	l, sink := s.open(true)
	testkit.Receive(t, "GET", s.gets).Status <- 405
	testkit.Receive(t, "initialized", s.said)
	if wait := s.dialer.acknowledges.For(1); wait != 0 {
		t.Errorf("the next notification would wait %v", wait)
	}
	for i := range 20 {
		if err := l.Send(t.Context(), fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":{}}`, i)); err != nil {
			t.Fatal(err)
		}
	}
	s.call(l, "tools/call")
	answers := map[string]*testkit.Held{}
	for range 20 {
		a := testkit.Receive(t, "an answer", s.said)
		answers[a.Body] = a
	}
	testkit.Receive(t, "the end of the oldest that is not acknowledged", answers[`{"jsonrpc":"2.0","id":0,"result":{}}`].Gone)
	answers[`{"jsonrpc":"2.0","id":19,"result":{}}`].Status <- 404
	if err := testkit.Receive(t, "the loss", sink.lost); !proxy.IsFault(err, proxy.SessionLost) {
		t.Errorf("%v", err)
	}
}

// A notification that the server refuses in time is an error for its sender.
func TestRefusedNotification(t *testing.T) {
	s := newLateServer(t)
	l, _ := s.open(false)
	go func() { testkit.Receive(t, "the notification", s.said).Status <- 400 }()
	err := l.Send(t.Context(), []byte(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`))
	if err == nil || !strings.Contains(err.Error(), "400") {
		t.Errorf("%v", err)
	}
}
