package mux

import (
	"fmt"
	"testing"
	"time"

	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// The progress token of a call that became a task counts until the task ends: its client gets the progress beside calls. That of other
// calls ends with them.
func TestProgressOfTasks(t *testing.T) {
	sink := &muxSink{}
	x := counting(NewLines(proxy.Legacy, &testLines{}, sink))
	session := proxy.NewSession("s", "stdio", "", proxy.Caller{}, time.Now())
	defer session.End(proxy.Closed)
	n := 0
	call := func(era proxy.Era, params, result string) {
		t.Helper()
		n++
		m, err := wire.Scan(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":"own","method":"tools/call","params":{"name":"a"%s}}`, params))
		if err != nil {
			t.Fatal(err)
		}
		ex := &proxy.Exchange{Msg: m, Session: session, Client: proxy.Client{Era: era, Version: rules.LegacyVersion}}
		r, err := x.Call(ex)
		if err != nil {
			t.Fatal(err)
		}
		if err := x.Deliver(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,%s}`, n, result)); err != nil {
			t.Fatal(err)
		}
		muxNext(t, r)
		_ = r.Close()
		if err := x.Deliver(progress(n, 1)); err != nil {
			t.Fatal(err)
		}
	}
	const task = `"result":{"task":{"taskId":"t"}}`
	call(proxy.Legacy, `,"_meta":{"progressToken":"mine"},"task":{}`, task)
	if len(sink.got) != 1 || sink.got[0] != `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"mine","progress":1,"message":"x"}}` {
		t.Fatalf("the client got %q", sink.got)
	}
	for _, other := range []struct {
		era            proxy.Era
		params, result string
	}{
		{proxy.Legacy, `,"_meta":{"progressToken":"mine"}`, task},
		{proxy.Legacy, `,"task":{}`, task},
		{proxy.Legacy, `,"_meta":{"progressToken":"mine"},"task":{}`, `"result":{"content":[]}`},
		{proxy.Legacy, `,"_meta":{"progressToken":"mine"},"task":{}`, `"error":{"code":-1,"message":"no"}`},
		{proxy.Modern, `,"_meta":{"progressToken":"mine"},"task":{}`, task},
	} {
		if call(other.era, other.params, other.result); len(sink.got) != 1 {
			t.Fatalf("%v: the client got %q", other, sink.got[1:])
		}
	}
	for range maxTasks - 1 {
		call(proxy.Legacy, `,"_meta":{"progressToken":7},"task":{}`, task)
	}
	sink.got = nil
	if _ = x.Deliver(progress(1, 1)); len(sink.got) != 1 {
		t.Error("the oldest of the tasks that are remembered is forgotten")
	}
	call(proxy.Legacy, `,"_meta":{"progressToken":7},"task":{}`, task)
	if _ = x.Deliver(progress(1, 1)); len(sink.got) != 2 || len(x.tasks) != maxTasks {
		t.Errorf("%d tasks are remembered; the client got %q", len(x.tasks), sink.got)
	}
}
