package sessions

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"dragoman/adapters/era/internal/fakeserver"
	"dragoman/adapters/era/probe"
	"dragoman/adapters/era/work"
	"dragoman/adapters/transport"
	"dragoman/proxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a pool of sessions with a server.
type rig struct {
	*Pool
}

func newRig(s *fakeserver.Server) rig {
	group := work.New(nil)
	server := &transport.Server{Name: "up", Self: []byte(`{"name":"dragoman","version":"1"}`), Wires: transport.Wires{Legacy: s.Dial}, Timeout: time.Second}
	opt := Options{Max: 10, IdleTTL: time.Hour}
	keeper := probe.NewKeeper(server, probe.Options{TTL: time.Hour}, fakeserver.NoLinks{}, group)
	return rig{NewPool(server, opt, group, keeper, NewQuota(server, opt, func(string, bool) bool { return false }))}
}

func (r rig) close(t *testing.T) {
	t.Helper()
	r.work.Close()
	r.work.Cancel()
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	r.work.Wait()
}

// session is a session of a client with the given capabilities, in which nothing runs.
func (r rig) session(t *testing.T, caps string) *Session {
	t.Helper()
	s, err := r.Acquire(&proxy.Exchange{Caller: proxy.Caller{Principal: "p"}, Client: proxy.Client{Info: []byte(`{"name":"n"}`), Caps: []byte(caps)}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	s.Release()
	return s
}

// A question without a call that it could belong to waits for one, for a bounded time and number; then it is refused, because the
// server may not answer anything before.
func TestEarlyQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(&fakeserver.Server{})
		p := r.session(t, `{"roots":{}}`)
		said := func() string {
			synctest.Wait()
			l := p.Link().(*fakeserver.Link)
			l.Lock()
			defer l.Unlock()
			all := ""
			for _, m := range l.Said {
				if strings.Contains(m, `"error"`) {
					all += m + "\n"
				}
			}
			return all
		}
		for i := range heldQuestions {
			p.Message(fakeserver.Scan(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"roots/list"}`, i)))
		}
		p.Message(fakeserver.Scan(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`))
		p.Message(fakeserver.Scan(t, `{"jsonrpc":"2.0","id":"3","method":"roots/list"}`)) // in its place
		if got := said(); got != "" {
			t.Errorf("refused at once: %s", got)
		}
		p.Message(fakeserver.Scan(t, `{"jsonrpc":"2.0","id":"more","method":"roots/list"}`))
		if got := said(); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":"more","error":{"code":-32601,`) {
			t.Errorf("the one too many: %s", got)
		}
		time.Sleep(holdTime - time.Millisecond)
		if n := strings.Count(said(), "\n"); n != 1 {
			t.Errorf("%d refusals before the time", n)
		}
		time.Sleep(time.Millisecond)
		if n := strings.Count(said(), "\n"); n != heldQuestions+1 || strings.Contains(said(), `"id":3,`) { // one was withdrawn
			t.Errorf("%d refusals", n)
		}
		p.Message(fakeserver.Scan(t, `{"jsonrpc":"2.0","id":"again","method":"roots/list"}`))
		if _, _, n := p.Usage(); n != 1 {
			t.Errorf("%d questions wait, want the last one", n)
		}
		time.Sleep(holdTime)
		if n := strings.Count(said(), "\n"); n != heldQuestions+2 {
			t.Errorf("%d refusals after the second time", n)
		}
		r.close(t)
	})
}

// A question that the session's capabilities do not allow can never belong to a call: the server gets an error at once.
func TestEarlyUndeclared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(&fakeserver.Server{})
		p := r.session(t, `{}`)
		p.Message(fakeserver.Scan(t, `{"jsonrpc":"2.0","id":7,"method":"roots/list"}`))
		synctest.Wait()
		l := p.Link().(*fakeserver.Link)
		l.Lock()
		if got := l.Said[len(l.Said)-1]; !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":7,"error":{"code":-32601,`) {
			t.Errorf("%s", got)
		}
		l.Unlock()
		r.close(t)
	})
}
