package mux

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Several callers share a channel: ids and tokens of any type are replaced and restored, messages that belong to no call go to the sink,
// and a malformed message that names a call ends that call only.
func TestMuxRouting(t *testing.T) {
	var out bytes.Buffer
	sink := &muxSink{}
	x := counting(New(proxy.Modern, func(_ context.Context, _ uint64, msg []byte) error { out.Write(append(msg, '\n')); return nil }, sink))
	call := func(id string) proxy.Replies {
		m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"m","params":{"_meta":{"progressToken":` + id + `}}}`))
		if err != nil {
			t.Fatal(err)
		}
		r, err := x.Call(&proxy.Exchange{Msg: m})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	a, b, c := call(`12`), call(`"12"`), call(`"c"`)
	if want := `{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"progressToken":"p1"}}}` + "\n" +
		`{"jsonrpc":"2.0","id":2,"method":"m","params":{"_meta":{"progressToken":"p2"}}}` + "\n" +
		`{"jsonrpc":"2.0","id":3,"method":"m","params":{"_meta":{"progressToken":"p3"}}}` + "\n"; out.String() != want {
		t.Errorf("%s", out.String())
	}
	deliver := func(raw string) {
		_ = x.Deliver([]byte(raw))
	}
	deliver(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p2","progress":1}}`)
	deliver(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p9","progress":1}}`)
	deliver(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":1}}`)
	deliver(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	deliver(`{"jsonrpc":"2.0","id":2,"result":{}}`)
	deliver(`{"jsonrpc":"2.0","id":2,"result":{"again":1}}`)
	deliver(`{"jsonrpc":"2.0","id":3,"result":{},"error":{}}`)
	deliver(`{"level":"info","id":1,"msg":"a log line"}`)
	deliver(`{"jsonrpc":"2.0","id":"1","result":{"a string":1}}`) // all ids are ours: it can mean no other
	deliver(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	next := func(r proxy.Replies) string {
		m, err := r.Next(time.Now().Add(time.Second))
		if err != nil {
			return err.Error()
		}
		return string(m.Append(nil))
	}
	f := func(r proxy.Replies, want string) {
		t.Helper()
		if got := next(r); !strings.HasPrefix(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
	f(b, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"12","progress":1}}`)
	f(b, `{"jsonrpc":"2.0","id":"12","result":{}}`)
	f(b, "EOF")
	f(a, `{"jsonrpc":"2.0","id":12,"result":{"a string":1}}`)
	f(c, "upstream_bad_answer")
	if len(sink.got) != 1 || sink.got[0] != `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` {
		t.Errorf("%v", sink.got)
	}
	for _, r := range []proxy.Replies{a, b, c} {
		_ = r.Close()
	}
	if x.InFlight() != 0 {
		t.Errorf("%d in flight", x.InFlight())
	}
	d := call("1")
	x.Fail(proxy.Errf(proxy.Lost, "gone"))
	f(d, "upstream_lost")
	_ = d.Close()
	m, _ := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"m"}`))
	if _, err := x.Call(&proxy.Exchange{Msg: m}); err == nil {
		t.Error("a dead channel takes calls")
	}
}

// muxSink records what belongs to no call.
type muxSink struct{ got []string }

func (s *muxSink) Message(m *wire.Message) bool {
	s.got = append(s.got, string(m.Append(nil)))
	return true
}

func (s *muxSink) Lost(error) {}

// A request that is cancelled while it is written may have reached the server, so a cancellation is sent.
func TestMuxCancelledWhileWriting(t *testing.T) {
	said := make(chan string, 4)
	var ex *proxy.Exchange
	x := counting(New(proxy.Legacy, func(_ context.Context, _ uint64, msg []byte) error {
		said <- string(msg)
		if strings.Contains(string(msg), `"method":"m"`) {
			ex.Cancel(proxy.ErrCancelled)
			return ex.Err()
		}
		return nil
	}, &muxSink{}))
	m, _ := wire.Scan([]byte(`{"jsonrpc":"2.0","id":"k","method":"m"}`))
	ex = &proxy.Exchange{Msg: m}
	if _, err := x.Call(ex); err == nil {
		t.Error("no error")
	}
	<-said
	if got := <-said; got != `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}` {
		t.Errorf("%s", got)
	}
}
