package session

import (
	"errors"
	"testing"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// A request is in flight from Begin on, before it runs, so that a cancellation and a request with the same id find it. A cancelled one
// still reaches the handler, so that it is counted.
func TestEnter(t *testing.T) {
	s, _ := newStore(t, Options{Max: 10})
	sess := create(t, s, "a")
	sess.Initialize(proxy.Client{Version: "1"})
	request := func(raw string) *proxy.Exchange {
		m, err := wire.Scan([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		return &proxy.Exchange{Msg: m}
	}
	var seen error
	handle := func(ex *proxy.Exchange) (proxy.Replies, error) { seen = ex.Err(); return nil, seen }
	ex := request(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a"}}`)
	run := Enter(sess, ex, handle)
	if _, err := Enter(sess, request(`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`), handle)(nil); proxy.AsError(err).Name != proxy.DuplicateID.Name {
		t.Errorf("a second request with its id: %v", err)
	}
	sess.SetLogLevel("error")
	Deliver(sess, request(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`), handle)
	if _, err := run(ex); !errors.Is(err, proxy.ErrCancelled) || !errors.Is(seen, proxy.ErrCancelled) || ex.Client.LogLevel != "error" {
		t.Errorf("%v, %v, %+v", err, seen, ex.Client)
	}
	fresh := create(t, s, "b")
	ex = request(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2","capabilities":{"a":1},"clientInfo":{}}}`)
	_, _ = Enter(fresh, ex, handle)(ex)
	if ex.Client.Version != "2" || string(ex.Client.Caps) != `{"a":1}` {
		t.Errorf("what initialize offers: %+v", ex.Client)
	}
	again := func(want proxy.Fault) {
		t.Helper()
		ex := request(`{"jsonrpc":"2.0","id":2,"method":"initialize","params":{}}`)
		if _, err := Run(fresh, ex, handle); proxy.AsError(err).Name != want.Name {
			t.Errorf("initialize in a session that is %v: %v", fresh.State(), err)
		}
	}
	fresh.Initialize(proxy.Client{Version: "2"})
	again(proxy.InvalidRequest)
	fresh.End(proxy.Closed)
	again(proxy.SessionUnknown)
	if _, busy := sess.Idle(); busy {
		t.Error("still in flight")
	}
}
