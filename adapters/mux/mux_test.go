package mux

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dragoman/internal/testkit"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testLines is a channel that lends every message and counts the releases.
type testLines struct {
	lent, back atomic.Int64
	write      func(ctx context.Context, parts [][]byte) error // nil: all is well
}

func (l *testLines) WriteParts(ctx context.Context, parts ...[]byte) error {
	if l.write == nil {
		return nil
	}
	return l.write(ctx, parts)
}

func (l *testLines) Run() wire.Run { return wire.Run{} }

func (l *testLines) Keep() func() {
	l.lent.Add(1)
	return func() { l.back.Add(1) }
}

func (l *testLines) settled(t *testing.T, lent int64) {
	t.Helper()
	if l.lent.Load() != lent || l.back.Load() != lent {
		t.Errorf("%d borrowed, %d returned, want %d", l.lent.Load(), l.back.Load(), lent)
	}
}

// counting makes the ids of a Mux count from one.
func counting(x *Mux) *Mux {
	x.ids.Begin(1)
	return x
}

func muxExchange(t testing.TB, id, token string) *proxy.Exchange {
	t.Helper()
	m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":` + token + `}}}`))
	if err != nil {
		t.Fatal(err)
	}
	return &proxy.Exchange{Msg: m, Client: proxy.Client{Era: proxy.Modern, LogLevel: "debug"}}
}

func muxCallOf(t testing.TB, x *Mux) proxy.Replies {
	t.Helper()
	r, err := x.Call(muxExchange(t, `"own"`, `"tok"`))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func progress(n int, pad int) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p%d","progress":1,"message":"%s"}}`,
		n, strings.Repeat("x", pad))
}

func muxNext(t testing.TB, r proxy.Replies) wire.Message {
	t.Helper()
	m, err := r.Next(time.Now().Add(10 * time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return *m
}

// racing reports whether the race detector is on, which slows everything down.
func racing() bool {
	info, _ := debug.ReadBuildInfo()
	return slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// A large message is returned without a copy, with the client's own id, and released with the next one or when the call is closed. A
// dropped or late message is released at once.
func TestMuxKeepsLarge(t *testing.T) {
	lines := &testLines{}
	x := counting(NewLines(proxy.Modern, lines, &muxSink{}))
	r := muxCallOf(t, x)
	large := fmt.Appendf(nil, `{"jsonrpc":"2.0","result":{"text":"%s"},"id":1}`, strings.Repeat("x", minKeep))
	small := []byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p1","progress":2}}`)
	for _, raw := range [][]byte{progress(1, minKeep), small, progress(1, minKeep), large, large, progress(1, minKeep)} {
		if err := x.Deliver(raw); err != nil {
			t.Fatal(err)
		}
	}
	if m := muxNext(t, r); string(m.Append(nil)[:90]) != `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"tok","progre`[:90] {
		t.Errorf("%s", m.Append(nil)[:90])
	}
	if lines.back.Load() != 0 {
		t.Error("given back too soon")
	}
	muxNext(t, r)
	if lines.back.Load() != 1 {
		t.Error("not given back")
	}
	muxNext(t, r)
	m := muxNext(t, r)
	if &m.Raw[0] != &large[0] || !bytes.HasSuffix(m.Append(nil), []byte(`"},"id":"own"}`)) || m.Kind != wire.Result {
		t.Error("the answer was copied, or is not the client's")
	}
	if _, err := r.Next(time.Time{}); err != io.EOF {
		t.Error(err)
	}
	_ = r.Close()
	lines.settled(t, 3) // the second answer, and what came after it, belonged to no call

	r = muxCallOf(t, x)
	for range 300 { // 9.6 MiB
		_ = x.Deliver(progress(2, minKeep))
	}
	if kept := lines.lent.Load() - lines.back.Load(); kept > queueBytes/minKeep {
		t.Errorf("%d are kept", kept)
	}
	_ = r.Close()
	_ = x.Deliver(progress(2, minKeep))
	lines.settled(t, 303)

	r = muxCallOf(t, x)
	_ = x.Deliver(progress(3, minKeep))
	x.Fail(proxy.Errf(proxy.Lost, "gone"))
	muxNext(t, r)
	if _, err := r.Next(time.Time{}); err == nil {
		t.Error("no error")
	}
	_ = r.Close()
	lines.settled(t, 304)
}

// Elements of a batch and messages tagged for a listen are copied.
func TestMuxCopiesParts(t *testing.T) {
	lines := &testLines{}
	x := counting(NewLines(proxy.Modern, lines, &muxSink{}))
	a, b := muxCallOf(t, x), muxCallOf(t, x)
	pad := strings.Repeat("x", minKeep)
	raw := []byte(`[{"jsonrpc":"2.0","id":1,"result":{"t":"` + pad + `"}},{"jsonrpc":"2.0","id":2,"result":{"t":"` + pad + `","_meta":{"io.modelcontextprotocol/subscriptionId":2}}}]`)
	if err := x.Deliver(raw); err != nil {
		t.Fatal(err)
	}
	clear(raw)
	for _, r := range []proxy.Replies{a, b} {
		if m := muxNext(t, r); !strings.Contains(string(m.Append(nil)), pad) || !strings.Contains(string(m.Append(nil)), `"id":"own"`) {
			t.Errorf("%.80s", m.Raw)
		}
		_ = r.Close()
	}
	lines.settled(t, 0)
}

// A client that does not read loses the oldest notifications of a flood, but not its response, and does not block other calls.
func TestMuxFlood(t *testing.T) {
	flood := 1_000_000
	if racing() {
		flood = 20_000
	}
	x := counting(NewLines(proxy.Modern, &testLines{}, &muxSink{}))
	slow := muxCallOf(t, x)
	note := progress(1, 50)
	var other sync.WaitGroup
	for i := range flood {
		if err := x.Deliver(note); err != nil {
			t.Fatal(err)
		}
		if i%(flood/100) == 0 {
			quick := muxCallOf(t, x)
			n := quick.(*call).n
			_ = x.Deliver(progress(int(n), 1))
			_ = x.Deliver(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":{}}`, n))
			other.Go(func() {
				defer func() { _ = quick.Close() }()
				for _, want := range []wire.Kind{wire.Notification, wire.Result} {
					if m, err := quick.Next(time.Now().Add(10 * time.Second)); err != nil || m.Kind != want {
						t.Errorf("%v, %v", m.Kind, err)
					}
				}
			})
		}
	}
	other.Wait()
	_ = x.Deliver([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`))
	notes := 0
	for m := muxNext(t, slow); m.Kind == wire.Notification; m = muxNext(t, slow) {
		notes++
	}
	if notes != queueMessages {
		t.Errorf("%d notifications were kept", notes)
	}
	_ = slow.Close()
}

// Messages for a server that does not read are bounded in number and bytes. The error of a refused call says that nothing was sent,
// and a cancelled call makes room. The server receives no cancellation of a call that it has not received.
func TestMuxOverload(t *testing.T) {
	f := func(name string, raw []byte, fit int) {
		t.Helper()
		m, err := wire.Scan(raw)
		if err != nil {
			t.Fatal(err)
		}
		var writes atomic.Int64
		x := counting(NewLines(proxy.Modern, &testLines{write: func(ctx context.Context, _ [][]byte) error {
			writes.Add(1)
			<-ctx.Done()
			return ctx.Err()
		}}, &muxSink{}))
		var all sync.WaitGroup
		var exs []*proxy.Exchange
		begin := func(ex *proxy.Exchange) {
			exs = append(exs, ex)
			all.Go(func() {
				if _, err := x.Call(ex); err == nil || proxy.AsError(err).Name != proxy.Cancelled.Name {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		for range fit {
			begin(&proxy.Exchange{Msg: m})
		}
		until(t, func() bool { return writes.Load() == int64(fit) })
		if _, err = x.Call(&proxy.Exchange{Msg: m}); err == nil || proxy.AsError(err).Name != proxy.Overloaded.Name {
			t.Errorf("%s: one too many: %v", name, err)
		}
		if err := x.Send(t.Context(), raw); err == nil || proxy.AsError(err).Name != proxy.Overloaded.Name {
			t.Errorf("%s: a notification too many: %v", name, err)
		}
		exs[0].Cancel(proxy.ErrCancelled)
		until(t, func() bool { return x.waiting.Load() == int64(fit-1) })
		begin(&proxy.Exchange{Msg: m})
		until(t, func() bool { return writes.Load() == int64(fit+1) })
		for _, ex := range exs {
			ex.Cancel(proxy.ErrCancelled)
		}
		all.Wait()
		x.Settle(t.Context())
		if n := writes.Load(); n != int64(fit+1) || x.InFlight() != 0 || x.waiting.Load() != 0 || x.waitingBytes.Load() != 0 {
			t.Errorf("%s: %d writes, %d in flight, %d and %d bytes wait", name, n, x.InFlight(), x.waiting.Load(), x.waitingBytes.Load())
		}
	}
	pad := func(n int) []byte {
		return []byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"` + strings.Repeat("x", n) + `"}}`)
	}
	if !racing() {
		f("many", pad(1), waitingMessages)
	}
	f("large", pad(10<<20), 6)
	f("one that is larger than all may be", pad(65<<20), 1)
}

func until(t *testing.T, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("not within 20 s")
		}
	}
}

// Every valid element of a batch is delivered; nested arrays are invalid at any depth and are rejected without recursion.
func TestMuxArrays(t *testing.T) {
	sink := &muxSink{}
	x := counting(NewLines(proxy.Legacy, &testLines{}, sink))
	r := muxCallOf(t, x)
	note := `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	f := func(raw string, bad bool, notes int) {
		t.Helper()
		before := len(sink.got)
		if err := x.Deliver([]byte(raw)); (err != nil) != bad || len(sink.got)-before != notes {
			t.Errorf("%.60s: %v, %d notices", raw, err, len(sink.got)-before)
		}
	}
	f(`[`+note+`,`+note+`]`, false, 2)
	f(`[`+note+`,1,{},"x",`+note+`]`, true, 2)
	f(`[]`, true, 0)
	f(`[[]]`, true, 0)
	f(`[`+note+`,[`+note+`]]`, true, 1)
	f(strings.Repeat("[", 1000)+note+strings.Repeat("]", 1000), true, 0)
	f(strings.Repeat("[", 100_000)+strings.Repeat("]", 100_000), true, 0)
	deep := strings.Repeat("[", 1000) + `"` + strings.Repeat("x", 1<<20) + `"` + strings.Repeat("]", 1000)
	if took := testkit.Took(t, func() { f(`[`+deep+`]`, true, 0) }); took > 2*time.Second { // each level looked at anew takes far longer
		t.Errorf("took %v", took)
	}
	f(`[`+note+`,{"jsonrpc":"2.0","id":1,"result":{}}]`, false, 1)
	if m := muxNext(t, r); m.Kind != wire.Result {
		t.Error(m.Kind)
	}
	_ = r.Close()
}

// An id that comes back in another form still names its call, or ends it with the reason. An unknown id is ignored.
func TestMuxOddIDs(t *testing.T) {
	f := func(id, want string) {
		t.Helper()
		x := counting(NewLines(proxy.Modern, &testLines{}, &muxSink{}))
		x.ids.Begin(7)
		r, other := muxCallOf(t, x), muxCallOf(t, x)
		defer func() { _ = other.Close() }()
		defer func() { _ = r.Close() }()
		_ = x.Deliver([]byte(`{"jsonrpc":"2.0","id":` + id + `,"result":{}}`))
		_ = x.Deliver([]byte(`{"jsonrpc":"2.0","id":` + id + `,"result":{"again":1}}`))
		got := "nothing"
		m, err := r.Next(time.Now().Add(-time.Second))
		var fault *proxy.Error
		switch {
		case err == nil:
			got = string(m.Append(nil))
		case errors.As(err, &fault):
			got = fault.Name
		}
		if got != want {
			t.Errorf("id %s: %s, want %s", id, got, want)
		}
		if _, err := other.Next(time.Now().Add(-time.Second)); err != proxy.ErrNotYet {
			t.Errorf("id %s: the other call: %v", id, err)
		}
	}
	const answer = `{"jsonrpc":"2.0","id":"own","result":{}}`
	f(`7`, answer)
	f(`"7"`, answer)
	f(`7.0`, "upstream_bad_answer")
	f(`7e0`, "upstream_bad_answer")
	f(`70e-1`, "upstream_bad_answer")
	f(`7.5`, "nothing")
	f(`-7`, "nothing")
	f(`"07"`, "nothing")
	f(`"+7"`, "nothing")
	f(`" 7"`, "nothing")
	f(`9`, "nothing")
	f(`0`, "nothing")
	f(`1e400`, "nothing")
	f(`18446744073709551623`, "nothing") // 7 in 64 bits
	f(`true`, "nothing")
	f(`"own"`, "nothing")
}

// A line that is too long ends the call it answers, if its beginning or end names it; noise and notifications end none.
func TestMuxTooLong(t *testing.T) {
	f := func(beginning, end string, calls int, ended string) {
		t.Helper()
		x := counting(NewLines(proxy.Modern, &testLines{}, &muxSink{}))
		x.ids.Begin(7)
		var all []proxy.Replies
		for range calls {
			all = append(all, muxCallOf(t, x))
		}
		x.TooLong([]byte(beginning), []byte(end), proxy.Errf(proxy.ResponseTooLarge, "too long"))
		got := ""
		for i, r := range all {
			if _, err := r.Next(time.Now().Add(-time.Second)); err != proxy.ErrNotYet {
				got += fmt.Sprint(7 + i)
			}
			_ = r.Close()
		}
		if got != ended {
			t.Errorf("%s … %s among %d: ended %q, want %q", beginning, end, calls, got, ended)
		}
	}
	const xs = "xxxxxxxxxxxxx"
	f(xs, xs, 1, "")
	f(`"text`, xs, 1, "")
	f(" \t", xs, 1, "")
	f(`{"jsonrpc":"2.0","method":"notifications/message","params":{"x":"`, xs+`"}}`, 1, "")
	f(`{"jsonrpc":"2.0","id":8,"method":"sampling/createMessage","params":{"x":"`, xs+`"}}`, 2, "")
	f(`{"jsonrpc":"2.0","id":8,"result":{"x":"`, xs+`"}}`, 2, "8")
	f(`{"jsonrpc":"2.0","id":"8","result":{"x":"`, xs+`"}}`, 2, "8")
	f(`{"jsonrpc":"2.0","id":9,"result":{"x":"`, xs+`"}}`, 2, "")
	f(`{"result":{"x":"`, xs+`"},"jsonrpc":"2.0","id":8}`, 2, "8")
	f(`{"result":{"x":"`, xs+`"}, "id" : 8 , "jsonrpc" : "2.0" } `, 2, "8")
	f(`{"result":{"x":"`, `{"id":8}}`, 2, "")
	f(`{"result":{"x":"`, `"id":8}]}}`, 2, "")
	f(`{"result":{"x":"`, xs+`"}}`, 2, "")
	f(`{"result":{"x":"`, xs+`"}}`, 1, "7")
	f(`{"result":{"x":"`, xs+`"},"id":9}`, 1, "")
	f(`[{"result":{"x":"`, xs, 1, "7")
	f(`{"result":{"x":"`, `8}`, 2, "")
	f(`{"result":{"x":"`, ``, 2, "")
}

// With a hundred thousand calls in flight a message costs as much as with one.
func TestMuxManyPending(t *testing.T) {
	pending := 100_000
	if racing() {
		pending = 5000
	}
	x := counting(NewLines(proxy.Modern, &testLines{}, &muxSink{}))
	all := make([]proxy.Replies, pending)
	for i := range all {
		all[i] = muxCallOf(t, x)
	}
	log := []byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`)
	took := testkit.Took(t, func() {
		for range 10_000 {
			_ = x.Deliver(log)
		}
	})
	if took > 5*time.Second { // a look at each call would be a thousand million
		t.Errorf("10 000 log messages took %v", took)
	}
	for i := pending - 1; i > 0; i-- {
		_ = x.Deliver(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":{}}`, i+1))
		if m := muxNext(t, all[i]); m.Kind != wire.Result {
			t.Fatal(m.Kind)
		}
		_ = all[i].Close()
	}
	_ = x.Deliver(log) // it is the only one's now
	if m := muxNext(t, all[0]); !m.Is("notifications/message") {
		t.Error(m.Kind)
	}
	_ = all[0].Close()
	if x.InFlight() != 0 || x.lists != [listKinds]callList{} {
		t.Errorf("%d are in flight, %v", x.InFlight(), x.lists)
	}
}

// A log message names no call. The only call that wants any gets it if no other caller can have caused it: none whose call is in flight,
// or was the last to end.
func TestMuxLogsOfOthers(t *testing.T) {
	x := counting(NewLines(proxy.Modern, &testLines{}, &muxSink{}))
	n := 0
	begin := func(who, session, level, method string) (*proxy.Exchange, proxy.Replies, func()) {
		ex := muxExchange(t, `"own"`, `"tok"`)
		if method != "" {
			m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"` + method + `"}`))
			if err != nil {
				t.Fatal(err)
			}
			ex.Msg = m
		}
		ex.Caller.Principal, ex.Client.LogLevel = who, level
		if session != "" {
			ex.Session = &proxy.Session{ID: session}
		}
		r, err := x.Call(ex)
		if err != nil {
			t.Fatal(err)
		}
		n++
		id := n
		return ex, r, func() {
			_ = x.Deliver(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":{}}`, id))
			if m := muxNext(t, r); m.Kind != wire.Result {
				t.Errorf("%s was told %s", who, m.Raw)
			}
			_ = r.Close()
		}
	}
	log := []byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`)
	gets := func(what string, r proxy.Replies, want bool) {
		t.Helper()
		_ = x.Deliver(log)
		m, err := r.Next(time.Now())
		if got := err == nil && m.Is("notifications/message"); got != want {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
	_, own, end := begin("alice", "", "debug", "")
	gets("the only call", own, true)
	_, _, endOther := begin("bob", "", "", "")
	gets("beside another caller's call", own, false)
	endOther()
	gets("after another caller's call", own, true)
	for _, method := range []string{"ping", "subscriptions/listen", "tools/list"} {
		_, _, endMute := begin("bob", "", "", method)
		gets("beside "+method, own, true)
		endMute()
		gets("after "+method, own, true)
	}
	end()
	_, own, end = begin("", "one", "debug", "")
	gets("after another caller", own, true)
	_, _, endOther = begin("", "two", "", "")
	gets("beside another anonymous session", own, false)
	endOther()
	end()
	_, own, end = begin("", "one", "debug", "")
	gets("its own again", own, true)
	for range aloneMost {
		_, _, endMany := begin("", "one", "", "")
		defer endMany()
	}
	gets("among many", own, false)
	end()
}

// BenchmarkMux is a call and its answer, of a size, and a log message with so many calls in flight.
func BenchmarkMux(b *testing.B) {
	for _, size := range []int{100, 10 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("call/%d", size), func(b *testing.B) {
			x := counting(New(proxy.Modern, func(context.Context, uint64, []byte) error { return nil }, &muxSink{}))
			pad := strings.Repeat("x", size)
			var raw []byte
			b.ReportAllocs()
			for n := 1; b.Loop(); n++ {
				r := muxCallOf(b, x)
				raw = fmt.Appendf(raw[:0], `{"jsonrpc":"2.0","id":%d,"result":{"t":"%s"}}`, n, pad)
				_ = x.Deliver(raw)
				muxNext(b, r)
				_ = r.Close()
			}
		})
	}
	for _, pending := range []int{2, 1000} {
		b.Run(fmt.Sprintf("log/%d", pending), func(b *testing.B) {
			x := counting(New(proxy.Modern, func(context.Context, uint64, []byte) error { return nil }, &muxSink{}))
			for range pending {
				c := muxCallOf(b, x)
				defer func() { _ = c.Close() }()
			}
			log := []byte(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`)
			b.ReportAllocs()
			for b.Loop() {
				_ = x.Deliver(log)
			}
		})
	}
}

// The memory of a call that ends before its response is not recycled, since a concurrent delivery could reach another call.
func TestMuxLeavesACallThatIsDeliveredTo(t *testing.T) {
	x := counting(NewLines(proxy.Modern, &testLines{}, &muxSink{}))
	for _, answered := range []bool{true, false} {
		m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":"own","method":"tools/call","params":{"name":"a"}}`))
		if err != nil {
			t.Fatal(err)
		}
		ex := proxy.Borrow()
		ex.Msg, ex.Server = m, "mine"
		r, err := x.Call(ex)
		if err != nil {
			t.Fatal(err)
		}
		if answered {
			_ = x.Deliver(fmt.Appendf(nil, `{"jsonrpc":"2.0","result":{},"id":%d}`, r.(*call).n))
		}
		_ = r.Close()
		ex.Release()
		ex.Recycle()
		if cleared := ex.Server == ""; cleared != answered {
			t.Errorf("answered %v, given back %v", answered, cleared)
		}
	}
}

// A call that the channel has refused unsent is as it was, so that another channel may get it.
func TestRefusedCallIsUnchanged(t *testing.T) {
	lines := &testLines{write: func(context.Context, [][]byte) error { return proxy.Errf(proxy.SessionLost, "it has ended") }}
	x := counting(NewLines(proxy.Modern, lines, &muxSink{}))
	defer x.Fail(io.EOF)
	ex := muxExchange(t, `"own"`, `"tok"`)
	before := string(ex.Msg.Append(nil))
	for range 2 {
		if _, err := x.Call(ex); !proxy.IsFault(err, proxy.SessionLost) {
			t.Errorf("%v", err)
		}
		if got := string(ex.Msg.Append(nil)); got != before || x.InFlight() != 0 {
			t.Errorf("%s, want %s; %d calls", got, before, x.InFlight())
		}
	}
}
