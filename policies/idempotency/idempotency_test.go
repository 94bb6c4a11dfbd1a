package idempotency

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"dragoman/proxy"
)

// twice is a request that is made twice.
type twice struct {
	name          string
	first, second string
	one, two      func(*proxy.Exchange)
	want          string // result of the second: again, anew, or the name of an error
}

func sameRequests() []twice {
	sess, other := proxy.NewSession("s", "http", "", proxy.Caller{}, time.Now()), proxy.NewSession("t", "http", "", proxy.Caller{}, time.Now())
	in := func(s *proxy.Session) func(*proxy.Exchange) {
		return func(ex *proxy.Exchange) { ex.Session, ex.Key = s, "" }
	}
	key := func(k string) func(*proxy.Exchange) { return func(ex *proxy.Exchange) { ex.Key = k } }
	call := func(id, rest string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call"` + rest + `}`
	}
	const round = `,"params":{"name":"a","inputResponses":{"q":{"action":"accept"}},"requestState":"%s"}`
	return []twice{
		{"a key", aCall, aCall, nil, nil, "again"},
		{"a key, another id", aCall, call(`"x"`, `,"params":{"name":"a"}`), nil, nil, "again"},
		{"a key in another session", aCall, aCall, func(ex *proxy.Exchange) { ex.Session = sess }, func(ex *proxy.Exchange) { ex.Session = other }, "again"},
		{"another key", aCall, aCall, nil, key("l"), "anew"},
		{"another principal", aCall, aCall, nil, func(ex *proxy.Exchange) { ex.Caller.Principal = "p" }, "anew"},
		{"another server", aCall, aCall, nil, func(ex *proxy.Exchange) { ex.Server = "s" }, "anew"},
		{"another revision", aCall, aCall, nil, func(ex *proxy.Exchange) { ex.Client.Version = "w" }, "duplicate_request_id"},
		{"another era", aCall, aCall, nil, func(ex *proxy.Exchange) { ex.Client.Era = proxy.Modern }, "duplicate_request_id"},
		{"other params", aCall, call("1", `,"params":{"name":"b"}`), nil, nil, "duplicate_request_id"},
		{"no params", aCall, call("1", ""), nil, nil, "duplicate_request_id"},
		{"another method", aCall, `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"a"}}`, nil, nil, "duplicate_request_id"},
		{"a message written otherwise", aCall, call("1", `,"params":{ "name":"a"}`), nil, nil, "duplicate_request_id"},
		{"what is made anew in _meta", call("1", `,"params":{"_meta":{"progressToken":1,"x":1,"traceparent":"a"},"name":"a"}`),
			call("1", `,"params":{"_meta":{"tracestate":"q","progressToken":2,"x":1,"baggage":""},"name":"a"}`), nil, nil, "again"},
		{"another _meta", call("1", `,"params":{"_meta":{"x":1}}`), call("1", `,"params":{"_meta":{"x":2}}`), nil, nil, "duplicate_request_id"},
		{"a progress token elsewhere", call("1", `,"params":{"arguments":{"progressToken":1}}`), call("1", `,"params":{"arguments":{"progressToken":2}}`), nil, nil, "duplicate_request_id"},
		{"the answers to questions, under the call's key", aCall, call("2", fmt.Sprintf(round, "s")), nil, nil, "anew"},
		{"the answers again", call("2", fmt.Sprintf(round, "s")), call("3", fmt.Sprintf(round, "s")), nil, nil, "again"},
		{"the next round", call("2", fmt.Sprintf(round, "s")), call("3", fmt.Sprintf(round, "u")), nil, nil, "anew"},
		{"an id in a session", aCall, aCall, in(sess), in(sess), "again"},
		{"another id", aCall, call("2", `,"params":{"name":"a"}`), in(sess), in(sess), "anew"},
		{"an id as a string", aCall, call(`"1"`, `,"params":{"name":"a"}`), in(sess), in(sess), "anew"},
		{"the id of another message", aCall, call("1", ""), in(sess), in(sess), "duplicate_request_id"},
		{"an id in another session", aCall, aCall, in(sess), in(other), "anew"},
		{"neither session nor key", aCall, aCall, key(""), key(""), "anew"},
		{"a key too long", aCall, aCall, nil, key(strings.Repeat("k", 256)), "invalid_request"},
		{"a key of the greatest length", aCall, aCall, key(strings.Repeat("~", 255)), key(strings.Repeat("~", 255)), "again"},
		{"a key with a space", aCall, aCall, nil, key("a b"), "invalid_request"},
		{"a key that is not ASCII", aCall, aCall, nil, key("ä"), "invalid_request"},
		{"ping", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, nil, nil, "anew"},
		{"initialize", `{"jsonrpc":"2.0","id":1,"method":"initialize"}`, `{"jsonrpc":"2.0","id":1,"method":"initialize"}`, in(sess), in(sess), "anew"},
		{"a listen", `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen"}`, `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen"}`, nil, nil, "anew"},
	}
}

// Which requests are duplicates of each other.
func TestSameRequest(t *testing.T) {
	for _, c := range sameRequests() {
		t.Run(c.name, func(t *testing.T) {
			r := newCallsRig(t, nil)
			a := r.ask(c.first, c.one)
			r.served().say <- aResult
			a.gets(aResult)
			b := r.ask(c.second, c.two)
			switch c.want {
			case "anew":
				r.served().say <- aResult
				b.gets(aResult)
			case "again":
				b.gets(`again {"jsonrpc":"2.0",…,"result":{"_meta":{"io.dragoman/replayed":true}}}`)
				r.counted("replayed", 1)
				if b.ex.Target != "target" {
					t.Errorf("a replay names the server %q", b.ex.Target)
				}
			default:
				b.gets("error " + c.want)
			}
			r.none()
		})
	}
}

// Which responses of the first call are replayed.
func TestWhatIsReplayed(t *testing.T) {
	big := func(n int) string {
		const head, tail = `{"jsonrpc":"2.0","id":1,"result":{"x":"`, `"}}`
		return head + strings.Repeat("x", n-len(head)-len(tail)) + tail
	}
	const id = `{"jsonrpc":"2.0","id":1,`
	for _, c := range []struct {
		name string
		says any
		want string // results of a duplicate, while the first runs and after it
		anew bool   // after it: the call is made again
	}{
		{"a result", id + `"result":{"content":[]}}`, `again {"jsonrpc":"2.0","id":1,"result":{"content":[],"_meta":{"io.dragoman/replayed":true}}}`, false},
		{"with _meta", id + `"result":{"_meta":{"a":1},"content":[]}}`, `again {"jsonrpc":"2.0","id":1,"result":{"_meta":{"a":1,"io.dragoman/replayed":true},"content":[]}}`, false},
		{"marked already", id + `"result":{"_meta":{"io.dragoman/replayed":false}}}`, `again {"jsonrpc":"2.0","id":1,"result":{"_meta":{"io.dragoman/replayed":true}}}`, false},
		{"with a _meta that is none", id + `"result":{"_meta":1}}`, `again {"jsonrpc":"2.0","id":1,"result":{"_meta":{"io.dragoman/replayed":true}}}`, false},
		{"no object", id + `"result":[1]}`, `again {"jsonrpc":"2.0","id":1,"result":[1]}`, false},
		{"input_required", id + `"result":{"resultType":"input_required","requestState":"s"}}`,
			`again {"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","requestState":"s","_meta":{"io.dragoman/replayed":true}}}`, false},
		{"an error of the server", id + `"error":{"code":-1,"message":"no","data":{"a":1}}}`, `again {"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no","data":{"a":1}}}`, false},
		{"a failure on the way", proxy.Errf(proxy.Lost, "lost"), "again error upstream_lost", false},
		{"a failure nobody knows", errors.New("?"), "again error internal", false},
		{"a failure that may be retried", proxy.Errf(proxy.Unreachable, "no"), "again error upstream_unreachable", true},
		{"the largest answer that is kept", big(maxResponse), `again {"jsonrpc":"2.0","id":1,"result":{"x":"…,"_meta":{"io.dragoman/replayed":true}}}`, false},
		{"a larger one", big(maxResponse + 1), "error duplicate_request_id", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newCallsRig(t, nil)
			a := r.ask(aCall, nil)
			s := r.served()
			b := r.ask(aCall, nil)
			r.waiting(1)
			s.say <- `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`
			a.gets(`{"jsonrpc":"2.0","method":"notifications/progress",…`)
			s.say <- c.says
			b.gets(c.want) // and no notification before it
			wait(t, "the first's end", s.closed)
			after := r.ask(aCall, nil)
			if c.anew {
				r.served().say <- aResult
				after.gets(aResult)
			} else {
				after.gets(c.want)
			}
			r.none()
			r.waiting(0)
		})
	}
}

// A handler that fails before it has replies.
func TestHandlerFails(t *testing.T) {
	r := newCallsRig(t, nil)
	fails := func(err error) *asked {
		a := r.ask(aCall, nil)
		s := wait(t, "a call", r.calls)
		b := r.ask(aCall, nil)
		r.waiting(1)
		s.begin <- err
		a.gets("error " + proxy.AsError(err).Name)
		return b
	}
	fails(proxy.Errf(proxy.Overloaded, "later")).gets("again error upstream_overloaded")
	fails(proxy.Errf(proxy.InvalidParams, "never")).gets("again error invalid_params")
	r.ask(aCall, nil).gets("again error invalid_params")
	r.counted("waited", 2)
	r.counted("replayed", 1)
}

// When the client of the first call cancels it, a waiting duplicate takes its place as soon as the call is over, and the other duplicates
// wait for that. If none waits, the call is forgotten.
func TestTakeOver(t *testing.T) {
	r := newCallsRig(t, nil)
	first := r.ask(aCall, nil)
	s := r.served()
	gone := r.ask(aCall, nil)
	r.waiting(1)
	second := r.ask(aCall, nil)
	r.waiting(2)
	third := r.ask(aCall, nil)
	r.waiting(3)
	gone.ex.Cancel(proxy.ErrCancelled)
	gone.gets("error cancelled")
	r.waiting(2)
	first.ex.Cancel(proxy.ErrCancelled)
	first.gets("error cancelled")
	wait(t, "the first's end", s.closed)
	s = r.served()
	r.waiting(1)
	if next := s.ex; next != second.ex && next != third.ex {
		t.Fatal("another than the waiting duplicates took over")
	}
	if s.ex == third.ex {
		second, third = third, second
	}
	s.say <- aResult
	second.gets(aResult)
	third.gets(aReplay)
	r.counted("took_over", 1)

	key := func(ex *proxy.Exchange) { ex.Key = "alone" }
	lone := r.ask(aCall, key)
	s = r.served()
	lone.ex.Cancel(errors.New("the client has closed its side"))
	lone.gets("error internal")
	wait(t, "its end", s.closed)
	anew := r.ask(aCall, key)
	r.served().say <- aResult
	anew.gets(aResult)
	r.none()
}

// A duplicate that is cancelled or fails at the moment when it should take over leaves the call to the next one.
func TestTakeOverFails(t *testing.T) {
	r := newCallsRig(t, nil)
	first := r.ask(aCall, nil)
	s := r.served()
	m := first.ex.Msg
	var replies []proxy.Replies
	var exs []*proxy.Exchange
	for range 3 {
		ex := &proxy.Exchange{Msg: m, Key: "k", Client: first.ex.Client}
		w, err := r.handle(ex)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Next(time.Now()); err != proxy.ErrNotYet {
			t.Errorf("a duplicate that waits: %v", err)
		}
		exs, replies = append(exs, ex), append(replies, w)
	}
	first.ex.Cancel(proxy.ErrCancelled)
	wait(t, "the end", s.closed)
	r.waiting(2) // the first of them should take over, and has not noticed it yet
	exs[0].Cancel(proxy.ErrCancelled)
	if _, err := replies[0].Next(time.Time{}); err != proxy.ErrCancelled {
		t.Error(err)
	}
	_ = replies[0].Close()
	r.waiting(1)
	_ = replies[2].Close() // whether it has noticed or not, one is left
	_ = replies[1].Close()
	r.waiting(0)
	r.none()
	anew := r.ask(aCall, nil)
	r.served().say <- aResult
	anew.gets(aResult)
}

// A call that exceeds its time may have run: its duplicates get that failure.
func TestOverdue(t *testing.T) {
	r := newCallsRig(t, nil)
	a := r.ask(aCall, func(ex *proxy.Exchange) { ex.GiveUp(50 * time.Millisecond) })
	s := wait(t, "the call", r.calls)
	s.ignoresEnd = true
	s.begin <- nil
	b := r.ask(aCall, nil)
	a.gets("error upstream_timeout")
	wait(t, "its end", s.closed)
	b.gets("again error upstream_timeout")
	r.ask(aCall, nil).gets("again error upstream_timeout")

	other := func(limit time.Duration) func(*proxy.Exchange) {
		return func(ex *proxy.Exchange) { ex.Key = "b"; ex.GiveUp(limit) }
	}
	a = r.ask(aCall, other(time.Hour))
	s = r.served()
	r.ask(aCall, other(50*time.Millisecond)).gets("error upstream_timeout") // a duplicate has its own time
	s.say <- aResult
	a.gets(aResult)
}

// The store forgets the requests of a session when the session ends.
func TestSessionEnds(t *testing.T) {
	r := newCallsRig(t, nil)
	sess := proxy.NewSession("s", "http", "", proxy.Caller{}, time.Now())
	in := func(id string) *asked {
		return r.ask(strings.Replace(aCall, `"id":1`, `"id":`+id, 1), func(ex *proxy.Exchange) { ex.Session, ex.Key = sess, "" })
	}
	for i := range 3 {
		a := in(fmt.Sprint(i))
		r.served().say <- aResult
		a.gets(aResult)
	}
	keyed := r.ask(aCall, func(ex *proxy.Exchange) { ex.Session = sess })
	r.served().say <- aResult
	keyed.gets(aResult)
	running := in("9")
	s := r.served()
	sess.End(proxy.Closed)
	if n, bytes := r.p.Kept(); n != 1 || bytes > 2*entryCost {
		t.Errorf("%d requests in %d bytes are kept of an ended session, want the one with a key", n, bytes)
	}
	s.say <- aResult
	running.gets(aResult)
	late := in("10") // it was admitted at the last moment
	r.served().say <- aResult
	late.gets(aResult)
	r.p.store.mu.Lock()
	defer r.p.store.mu.Unlock()
	if n, _ := r.p.store.total(); n != 1 || len(r.p.store.sessions) != 0 || r.p.runs() != 0 {
		t.Errorf("%d kept, %d sessions, %d running", n, len(r.p.store.sessions), r.p.runs())
	}
}
