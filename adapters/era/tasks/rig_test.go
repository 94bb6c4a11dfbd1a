package tasks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"dragoman/adapters/era/internal/fakeserver"
	"dragoman/adapters/era/work"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a fake server behind one link. It answers the requests of a method in turn by what on lists; the last entry stands for
// all further requests. An entry is the messages of one answer, a line each, $ID in place of the id; "broken" breaks it off, "refused"
// refuses the request before it is sent, "slow" takes its time, and an answer without a response lasts until the test cancels it.
type server struct {
	t      *testing.T
	mu     sync.Mutex
	on     map[string][]string
	counts map[string]int
	log    []string // requests, in short
	raw    []string
	open   int // replies that are not closed
	begun  int // cancellations that are pending
}

func (s *server) Call(ex *proxy.Exchange) (proxy.Replies, error) {
	raw := string(ex.Msg.Append(nil))
	m := fakeserver.Scan(s.t, raw)
	method := string(m.Text(m.Method))
	s.mu.Lock()
	defer s.mu.Unlock()
	line := strings.TrimSpace(fmt.Sprintf("%s %s %s", method, wire.Get(m.Raw, m.Params, "taskId").Text(m.Raw), m.Of(m.InputResponses)))
	s.log, s.raw = append(s.log, line), append(s.raw, raw)
	answers := s.on[method]
	if len(answers) == 0 {
		answers = []string{`{"jsonrpc":"2.0","id":$ID,"result":{}}`}
	}
	answer := answers[min(s.counts[method], len(answers)-1)]
	s.counts[method]++
	if answer == "refused" {
		return nil, proxy.Errf(proxy.Unreachable, "down")
	}
	if answer == "status" {
		return nil, &transport.StatusError{Status: 503}
	}
	if answer == "bare" {
		return nil, context.Canceled
	}
	s.open++
	return &answered{s: s, ex: ex, lines: strings.Split(strings.ReplaceAll(answer, "$ID", string(m.Of(m.ID))), "\n")}, nil
}

func (s *server) Send(context.Context, []byte) error { return nil }
func (s *server) Close() error                       { return nil }

// Begin counts pending cancellations, as a link with transport.Pending does.
func (s *server) Begin() func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.begun--
	}
}

// answered is one answer of the server.
type answered struct {
	s      *server
	ex     *proxy.Exchange
	lines  []string
	closed bool
}

func (a *answered) Next(until time.Time) (*wire.Message, error) {
	if len(a.lines) == 0 || a.lines[0] == "" {
		select {
		case <-a.ex.Done():
			return nil, a.ex.Err()
		case <-late(until):
			return nil, proxy.ErrNotYet
		}
	}
	raw := a.lines[0]
	if raw == "slow" {
		select {
		case <-time.After(slow):
			a.lines = a.lines[1:]
			return a.Next(until)
		case <-a.ex.Done():
			return nil, a.ex.Err()
		case <-late(until):
			return nil, proxy.ErrNotYet
		}
	}
	a.lines = a.lines[1:]
	if raw == "broken" {
		return nil, proxy.Errf(proxy.Lost, "broken off")
	}
	return fakeserver.Scan(a.s.t, raw), nil
}

// late returns a channel that is ready at a time; never, if that is zero.
func late(until time.Time) <-chan time.Time {
	if until.IsZero() {
		return nil
	}
	return time.After(time.Until(until))
}

func (a *answered) Close() error {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	if a.closed {
		a.s.t.Error("closed twice")
	}
	a.closed = true
	a.s.open--
	return nil
}

// received checks the requests since the last time.
func (s *server) received(want ...string) {
	s.t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.log, want) {
		s.t.Errorf("the server received %q, want %q", s.log, want)
	}
	s.log = nil
}

// rig is a call of a client at a server.
type rig struct {
	t     *testing.T
	s     *server
	group *work.Group
	ex    *proxy.Exchange
}

// slow is the time of an answer with "slow".
const slow = 3 * time.Second

const call = `{"jsonrpc":"2.0","id":"k","method":"tools/call","params":{"name":"a","_meta":{"progressToken":"p"}}}`

// during runs a test in a bubble, and checks that nothing is left.
func during(t *testing.T, on map[string][]string, f func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, s: &server{t: t, on: on, counts: map[string]int{}}, group: work.New(nil)}
		r.ex = &proxy.Exchange{Msg: *fakeserver.Scan(t, call), Caller: proxy.Caller{Principal: "p"},
			Client: proxy.Client{Version: "2025-11-25", Info: []byte(`{"name":"c"}`), Caps: []byte(`{"roots":{"listChanged":true}}`), LogLevel: "debug"}}
		f(t, r)
		r.group.Close()
		r.group.Cancel()
		r.group.Wait()
		if r.s.open != 0 || r.s.begun != 0 {
			t.Errorf("%d answers are open, %d cancellations pending", r.s.open, r.s.begun)
		}
	})
}

// reads checks what the client reads next: messages, or the name of an error.
func (r *rig) reads(replies proxy.Replies, want string) {
	r.t.Helper()
	m, err := replies.Next(time.Time{})
	switch {
	case err != nil && proxy.AsError(err).Name != want:
		r.t.Errorf("error %v, want %s", err, want)
	case err == nil && string(m.Append(nil)) != want:
		r.t.Errorf("received %s, want %s", m.Append(nil), want)
	}
}

func (r *rig) close(replies proxy.Replies) {
	r.t.Helper()
	if err := replies.Close(); err != nil {
		r.t.Error(err)
	}
	synctest.Wait()
}
