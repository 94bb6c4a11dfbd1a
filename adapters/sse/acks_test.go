package sse

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"dragoman/adapters/httpcall"
	"dragoman/adapters/httpd/httpclient"
	"dragoman/adapters/transport"
	"dragoman/internal/testkit"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// lateServer is an HTTP+SSE server that acknowledges a message when the test says so.
type lateServer struct {
	*testkit.HoldingServer
	t      *testing.T
	dialer *Dialer
	events chan string        // for the stream
	posts  chan *testkit.Held // in the order of their arrival
}

func newLateServer(t *testing.T) *lateServer {
	s := &lateServer{t: t, events: make(chan string, 10), posts: make(chan *testkit.Held, 100)}
	s.HoldingServer = testkit.NewHoldingServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			s.Stream(w, r, "event: endpoint\ndata: /messages\n\n", s.events)
			return
		}
		body, _ := io.ReadAll(r.Body)
		s.Hold(w, r, body, s.posts)
	})
	host, err := httpclient.NewHost(httpclient.HostOptions{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = host.Close() })
	base, err := url.Parse(s.URL + "/sse")
	if err != nil {
		t.Fatal(err)
	}
	s.dialer = NewDialer(host, base, Options{Limits: httpcall.Limits{Body: 1 << 20, Event: 1 << 20}})
	return s
}

func (s *lateServer) dial(sink transport.Sink) transport.Link {
	s.t.Helper()
	l, err := s.dialer.Dial(s.t.Context(), sink)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = l.Close() })
	return l
}

// call begins a call and returns its message at the server.
func (s *lateServer) call(l transport.Link) (proxy.Replies, *testkit.Held) {
	s.t.Helper()
	ex, err := transport.NewExchange(proxy.Legacy, []byte(`{"jsonrpc":"2.0","id":"mine","method":"tools/call","params":{"name":"t","arguments":{}}}`))
	if err != nil {
		s.t.Fatal(err)
	}
	replies, err := l.Call(ex)
	if err != nil {
		s.t.Fatal(err)
	}
	return replies, testkit.Receive(s.t, "the call", s.posts)
}

func (s *lateServer) answer(p *testkit.Held) {
	m, _ := wire.Scan([]byte(p.Body))
	s.events <- `{"jsonrpc":"2.0","id":` + string(m.Of(m.ID)) + `,"result":{}}`
}

type questions chan string

func (q questions) Message(m *wire.Message) bool { q <- string(m.Text(m.Method)); return true }
func (questions) Lost(error)                     {}

// A call, its question, the answer to it and the next call go on while the server has not acknowledged the call.
func TestNothingWaitsForTheAcknowledgementOfACall(t *testing.T) {
	s := newLateServer(t)
	asked, began := make(questions, 1), time.Now()
	l := s.dial(asked)
	replies, call := s.call(l)
	s.events <- `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}`
	testkit.Receive(t, "the question", asked)
	if err := l.Send(t.Context(), []byte(`{"jsonrpc":"2.0","id":"q","result":{"action":"decline"}}`)); err != nil {
		t.Error(err)
	}
	answer := testkit.Receive(t, "the answer", s.posts)
	other, next := s.call(l)
	s.answer(next)
	if m, err := other.Next(time.Now().Add(testkit.Patient)); err != nil || m.Kind != wire.Result {
		t.Errorf("%v, %v", m, err)
	}
	s.answer(call)
	if m, err := replies.Next(time.Now().Add(testkit.Patient)); err != nil || string(m.Append(nil)) != `{"jsonrpc":"2.0","id":"mine","result":{}}` {
		t.Errorf("%v, %v", m, err)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("three messages took %v", took)
	}
	for _, p := range []*testkit.Held{call, answer, next} {
		p.Status <- 202
	}
	_, _ = replies.Close(), other.Close()
}

// A refusal that comes late fails the call, and only that.
func TestLateRefusals(t *testing.T) {
	for status, want := range map[int]proxy.Fault{404: proxy.SessionLost, 500: proxy.HTTPStatus, 403: proxy.Refused} {
		s := newLateServer(t)
		l := s.dial(transport.Discard{})
		replies, call := s.call(l)
		other, next := s.call(l)
		call.Status <- status
		if _, err := replies.Next(time.Now().Add(testkit.Patient)); !proxy.IsFault(err, want) {
			t.Errorf("%d: %v", status, err)
		}
		s.answer(next)
		if m, err := other.Next(time.Now().Add(testkit.Patient)); err != nil || m.Kind != wire.Result {
			t.Errorf("%d: the other call: %v, %v", status, m, err)
		}
		_, _ = replies.Close(), other.Close()
	}
}

// A server that acknowledges nothing does not use up connections: those of calls that are over are closed. One whose call is under way
// stays, however many come after it.
func TestAcknowledgementsThatNeverCome(t *testing.T) {
	s := newLateServer(t)
	l := s.dial(transport.Discard{})
	long, first := s.call(l)
	for range 40 {
		replies, call := s.call(l)
		s.answer(call)
		if _, err := replies.Next(time.Now().Add(testkit.Patient)); err != nil {
			t.Fatal(err)
		}
		_ = replies.Close()
	}
	testkit.Eventually(t, "at most 12 connections are open", func() bool { return s.Conns.Load() <= 12 })
	select {
	case <-first.Gone:
		t.Error("the connection of the call under way was closed")
	default:
	}
	closed := make(chan struct{})
	go func() { defer close(closed); _ = l.Close() }()
	testkit.Receive(t, "Close", closed)
	if _, err := long.Next(time.Now().Add(testkit.Patient)); err == nil || !strings.Contains(err.Error(), "closed here") {
		t.Errorf("%v", err)
	}
	_ = long.Close()
}

// A notification waits for its acknowledgement for a moment, unless the server is known to be late; an error in time is the sender's.
func TestAcknowledgementsOfNotifications(t *testing.T) {
	const notice = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	s := newLateServer(t)
	l := s.dial(transport.Discard{})
	sent := make(chan error, 1)
	send := func() *testkit.Held {
		go func() { sent <- l.Send(t.Context(), []byte(notice)) }()
		return testkit.Receive(t, "the notification", s.posts)
	}
	send().Status <- 400
	if err := testkit.Receive(t, "the error", sent); !proxy.IsFault(err, proxy.HTTPStatus) {
		t.Errorf("%v", err)
	}
	send().Status <- 202
	if err := testkit.Receive(t, "the end", sent); err != nil || s.dialer.patience.For(1) == 0 {
		t.Errorf("%v, patience %v", err, s.dialer.patience.For(1))
	}
	send()
	if err := testkit.Receive(t, "the end", sent); err != nil || s.dialer.patience.For(1) != 0 {
		t.Errorf("without an acknowledgement: %v, patience %v", err, s.dialer.patience.For(1))
	}
	send().Status <- 202
	_ = testkit.Receive(t, "the end", sent)
	testkit.Eventually(t, "the server counts as prompt again", func() bool { return s.dialer.patience.For(1) != 0 })
}
