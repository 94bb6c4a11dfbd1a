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
	for range maxTasks - 2 { // beside that of the modern client, who may wait for its result
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

// The progress of a task whose client does not know it is for the call that waits for its result, and nobody else.
func TestProgressOfDrivenTasks(t *testing.T) {
	sink := &muxSink{}
	x := counting(NewLines(proxy.Legacy, &testLines{}, sink))
	call := func(method, params string) proxy.Replies {
		t.Helper()
		m, err := wire.Scan(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":"own","method":%q,"params":{%s}}`, method, params))
		if err != nil {
			t.Fatal(err)
		}
		r, err := x.Call(&proxy.Exchange{Msg: m, Client: proxy.Client{Era: proxy.Modern, Version: rules.ModernVersion}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close() })
		return r
	}
	deliver := func(msg []byte) {
		t.Helper()
		if err := x.Deliver(msg); err != nil {
			t.Fatal(err)
		}
	}
	muxNexts := func(r proxy.Replies, want string) {
		t.Helper()
		m, err := r.Next(time.Now().Add(10 * time.Second))
		if err != nil || string(m.Append(nil)) != want {
			t.Errorf("%s, %v; want %s", m.Append(nil), err, want)
		}
	}
	for n := 1; n <= 2; n++ {
		first := call("tools/call", `"name":"a","_meta":{"progressToken":"mine"},"task":{}`)
		deliver(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":{"task":{"taskId":"t%d"}}}`, n, n))
		muxNext(t, first)
		deliver(progress(n, 1)) // nobody waits yet
	}
	second, other := call("tasks/result", `"taskId":"t2"`), call("tasks/result", `"taskId":"t3"`)
	deliver(progress(1, 1))
	deliver(progress(2, 2))
	for n, r := range map[int]proxy.Replies{3: second, 4: other} {
		if n == 3 {
			muxNexts(r, string(progress(2, 2)))
		}
		deliver(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":{}}`, n))
		muxNexts(r, `{"jsonrpc":"2.0","id":"own","result":{}}`)
	}
	if deliver(progress(2, 3)); len(sink.got) != 0 {
		t.Errorf("beside calls: %q", sink.got)
	}
}
