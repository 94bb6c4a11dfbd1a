package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"dragoman/internal/testkit"
)

var legacyKinds = []string{"legacy", "sse", "legacy-stdio"}

const elicit = `{"jsonrpc":"2.0","id":%s,"method":"elicitation/create","params":{"message":%q,"requestedSchema":{"type":"object","properties":{}}}}`

func asksCall(id, name, extra string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":{}%s,%s}}`, id, name, extra, asksMeta)
}

// answerTo is the retry that answers the one question of an input_required result with this text.
func answerTo(t *testing.T, id, name string, res *response, text string) string {
	t.Helper()
	state := statePattern.FindStringSubmatch(res.body)
	if state == nil {
		t.Fatalf("no question: %s", res.body)
	}
	return asksCall(id, name, fmt.Sprintf(`,"inputResponses":{"r1-1":{"action":"accept","content":{"text":%q}}},"requestState":%q`, text, state[1]))
}

// echoing scripts a tool that asks, with the same id in every call, and returns the answer. where is the stream of its question.
func echoing(u *upstream) { echoingAs(u, func() string { return "0" }) }

// echoingApart is echoing with an id for each question: calls may share a session.
func echoingApart(u *upstream) {
	var n atomic.Int64
	echoingAs(u, func() string { return strconv.FormatInt(n.Add(1), 10) })
}

func echoingAs(u *upstream, newID func() string) {
	var mu sync.Mutex
	waiting := map[*stream]map[string]chan string{} // by channel, session and id
	u.on("tools/call", func(c *call) {
		answered := make(chan string, 1)
		id := newID()
		key := c.header.Get("Mcp-Session-Id") + " " + id
		mu.Lock()
		if waiting[c.out] == nil {
			waiting[c.out] = map[string]chan string{}
		}
		waiting[c.out][key] = answered
		mu.Unlock()
		name := textAfter(c.body, `"name":"`)
		c.event(fmt.Sprintf(elicit, id, name))
		select {
		case text := <-answered:
			c.result(fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, name+" "+text))
		case <-c.cancelled:
		}
	})
	u.mu.Lock()
	defer u.mu.Unlock()
	u.heard = func(s *seen, out *stream) {
		if s.method != "response" {
			return
		}
		mu.Lock()
		ch := waiting[out][s.header.Get("Mcp-Session-Id")+" "+s.id]
		mu.Unlock()
		if ch != nil {
			ch <- textAfter(s.body, `"text":"`)
		}
	}
}

// textAfter returns the text after a piece of text, up to the next quote.
func textAfter(body, after string) string {
	_, rest, _ := strings.Cut(body, after)
	text, _, _ := strings.Cut(rest, `"`)
	return text
}

// Concurrent calls of one client have a session with the server each, and the answers to their questions, which have the same id, are not
// mixed up; consecutive calls share a session (exclusive lease).
func TestQuestionsAtOnce(t *testing.T) {
	for _, kind := range legacyKinds {
		t.Run(kind, func(t *testing.T) {
			u := newUpstream(t, kind)
			u.getOpen = true
			r := startRig(t, u.toml(""), true)
			echoing(u)
			u.forget()
			const n = 4
			var group, came sync.WaitGroup
			came.Add(n)
			asking := u.answers["tools/call"][0]
			u.on("tools/call", func(c *call) {
				came.Done()
				came.Wait() // all run at once, before the first is asked
				asking(c)
			})
			asked := make([]*response, n)
			for i := range n {
				group.Go(func() {
					name := fmt.Sprintf("tool%d", i)
					asked[i] = r.must("POST", "/mcp", asksCall("1", name, ""), modernHeaders("tools/call", name)...)
				})
			}
			group.Wait()
			if got := r.h.Pending().Suspended(); got != n {
				t.Errorf("%d calls are suspended", got)
			}
			if _, leased := r.h.Targets.All[0].Sessions(); leased != n {
				t.Errorf("%d sessions are leased", leased)
			}
			for i := n - 1; i >= 0; i-- {
				name, text := fmt.Sprintf("tool%d", i), fmt.Sprintf("answer%d", i)
				res := r.must("POST", "/mcp", answerTo(t, "2", name, asked[i], text), modernHeaders("tools/call", name)...)
				if !matches(`{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"`+name+` `+text+`"}],…`, res.body) {
					t.Errorf("%s", res.body)
				}
			}
			if all, leased := r.h.Targets.All[0].Sessions(); leased != 0 || r.h.Pending().Suspended() != 0 {
				t.Errorf("afterwards %d sessions, %d leased, %d suspended", all, leased, r.h.Pending().Suspended())
			}
			u.on("tools/call", asking)
			before := len(u.all("initialize"))
			for i := range 10 {
				res := r.must("POST", "/mcp", asksCall("1", "again", ""), modernHeaders("tools/call", "again")...)
				res = r.must("POST", "/mcp", answerTo(t, "2", "again", res, fmt.Sprint(i)), modernHeaders("tools/call", "again")...)
				if !strings.Contains(res.body, fmt.Sprintf(`"again %d"`, i)) {
					t.Errorf("%s", res.body)
				}
			}
			if now := len(u.all("initialize")); now != before {
				t.Errorf("calls one after the other opened %d sessions", now-before)
			}
		})
	}
}

// Two concurrent retries with one state: one gets the result, the other an error, and the server gets one answer (vector 97).
func TestTwoRetriesAtOnce(t *testing.T) {
	for _, kind := range legacyKinds {
		t.Run(kind, func(t *testing.T) {
			u := newUpstream(t, kind)
			u.getOpen = true
			r := startRig(t, u.toml(""), true)
			echoing(u)
			for range 10 {
				asked := r.must("POST", "/mcp", asksCall("1", "a", ""), modernHeaders("tools/call", "a")...)
				u.forget()
				retry := answerTo(t, "2", "a", asked, "x")
				var group sync.WaitGroup
				both := make([]*response, 2)
				for i := range both {
					group.Go(func() { both[i] = r.must("POST", "/mcp", retry, modernHeaders("tools/call", "a")...) })
				}
				group.Wait()
				if both[0].status == 400 {
					both[0], both[1] = both[1], both[0]
				}
				if both[0].status != 200 || !strings.Contains(both[0].body, `"a x"`) {
					t.Errorf("%d %s", both[0].status, both[0].body)
				}
				if want := `{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"requestState is unknown, changed, used or expired; send the request again without it"}}`; both[1].status != 400 || both[1].body != want {
					t.Errorf("%d %s", both[1].status, both[1].body)
				}
				if n, calls := len(u.all("response")), len(u.all("tools/call")); n != 1 || calls != 0 {
					t.Errorf("the server saw %d answers and %d new calls", n, calls)
				}
			}
		})
	}
}

// If all sessions are leased, the next call that may be asked waits for the first free one. Without lease_wait it is refused, and the error
// names the keys. Other calls share sessions.
func TestLeaseWait(t *testing.T) {
	for _, patience := range []string{"10s", "0s"} {
		t.Run(patience, func(t *testing.T) {
			u := newUpstream(t, "legacy")
			u.getOpen = true
			r := startRig(t, "[questions]\nlease_wait = \""+patience+"\"\n"+u.toml("max_sessions = 3"), true)
			running := hanging(u, 0)
			f := newHTTPTestClient(r)
			for i := range 2 {
				f.send(fmt.Sprint(i), asksCall("1", "a", ""))
				testkit.Receive(t, "a call that runs", running)
			}
			echoing(u)
			done := make(chan *response, 1)
			go func() {
				done <- r.must("POST", "/mcp", asksCall("3", "late", ""), modernHeaders("tools/call", "late")...)
			}()
			if patience == "0s" {
				if res := testkit.Receive(t, "the refusal", done); !matches(`{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"…upstreams.default.max_sessions…","data":{"code":"too_many_sessions","retryable":true,"retryAfter":5}}}`, res.body) {
					t.Errorf("%d %s", res.status, res.body)
				}
				return
			}
			if res := r.must("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"prompts/list","params":{`+asksMeta+`}}`, modernHeaders("prompts/list", "")...); !strings.Contains(res.body, `"code":-32601`) {
				t.Errorf("a call that cannot be asked: %s", res.body)
			}
			f.leave("0")
			res := testkit.Receive(t, "the question of the call that waited", done)
			res = r.must("POST", "/mcp", answerTo(t, "4", "late", res, "y"), modernHeaders("tools/call", "late")...)
			if !strings.Contains(res.body, `"late y"`) {
				t.Errorf("%s", res.body)
			}
		})
	}
}

// With asks_on_call such calls share a session, because the stream shows which call a question belongs to. A question outside of a call's
// stream then belongs to no call.
func TestAsksOnCall(t *testing.T) {
	u := newUpstream(t, "legacy")
	u.getOpen = true
	r := startRig(t, u.toml("asks_on_call = true"), true)
	s := newScript(u)
	s.hold("tools/call")
	f := newHTTPTestClient(r)
	f.send("a", asksCall("1", "a", ""))
	first := s.call("tools/call")
	s.forget("tools/call")
	f.send("b", asksCall("2", "b", ""))
	second := s.call("tools/call")
	if x, y := first.header.Get("Mcp-Session-Id"), second.header.Get("Mcp-Session-Id"); x != y || x == "" {
		t.Errorf("sessions %q and %q", x, y)
	}
	s.away(fmt.Sprintf(elicit, "9", "whose?"))
	testkit.Eventually(t, "its refusal", func() bool {
		all := u.all("response")
		return len(all) == 1 && strings.HasPrefix(all[0].body, `{"jsonrpc":"2.0","id":9,"error":{"code":-32601,`)
	})
	s.says("tools/call", fmt.Sprintf(elicit, "0", "b?"))
	if got := f.receives("b"); !matches(`{"jsonrpc":"2.0","id":2,"result":{"resultType":"input_required","inputRequests":{"r1-1":{"method":"elicitation/create","params":{"message":"b?",…`, got) {
		t.Errorf("%s", got)
	}
	s.now["tools/call"] = first
	s.says("tools/call", fmt.Sprintf(elicit, "1", "a?"))
	if got := f.receives("a"); !matches(`{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{"r1-1":{"method":"elicitation/create","params":{"message":"a?",…`, got) {
		t.Errorf("%s", got)
	}
	if _, leased := r.h.Targets.All[0].Sessions(); leased != 0 {
		t.Errorf("%d leases", leased)
	}
}

// A legacy client whose session ends during a question: nothing is left, and the server is not called again.
func TestSessionEndsWhileAsked(t *testing.T) {
	for _, kind := range []string{"modern", "modern-stdio"} {
		t.Run(kind, func(t *testing.T) {
			u := newUpstream(t, kind)
			u.on("tools/call", func(c *call) {
				c.result(`{"resultType":"input_required","inputRequests":{"r":{"method":"roots/list","params":{}}}}`)
			})
			r := startRig(t, u.toml(""), true)
			f := newHTTPTestClient(r)
			f.open("2025-11-25", `{"roots":{}}`)
			f.send("k", legacyCall("1", "a"))
			if got := f.receives("k"); got != `{"jsonrpc":"2.0","id":"dragoman-1","method":"roots/list","params":{}}` {
				t.Errorf("%s", got)
			}
			if res := r.must("DELETE", "/mcp", "", "Mcp-Session-Id", f.session); res.status != 204 {
				t.Errorf("%d", res.status)
			}
			for m := range f.of("k").messages { // the question may be withdrawn; there is no response
				if !strings.Contains(m, "notifications/cancelled") {
					t.Errorf("%s", m)
				}
			}
			if res := r.must("POST", "/mcp", `{"jsonrpc":"2.0","id":"dragoman-1","result":{"roots":[]}}`, legacyHeaders(f.session)...); res.status != 404 {
				t.Errorf("an answer after the end: %d", res.status)
			}
			if n := len(u.all("tools/call")); n != 1 {
				t.Errorf("%d calls at the server", n)
			}
		})
	}
}

// A client that loses the stream of a question has not cancelled: it answers nevertheless, the call goes on, and the id is free again.
func TestClientLosesTheStreamOfAQuestion(t *testing.T) {
	u := newUpstream(t, "modern")
	u.on("tools/call", func(c *call) {
		if strings.Contains(c.body, "inputResponses") {
			c.result(`{"resultType":"complete","content":[]}`)
			return
		}
		c.result(`{"resultType":"input_required","inputRequests":{"r":{"method":"roots/list","params":{}}}}`)
	})
	r := startRig(t, u.toml(""), true)
	f := newHTTPTestClient(r)
	f.open("2025-11-25", `{"roots":{}}`)
	f.send("k", legacyCall("1", "a"))
	f.receives("k")
	f.leave("k")
	f.send("", `{"jsonrpc":"2.0","id":"dragoman-1","result":{"roots":[]}}`)
	testkit.Eventually(t, "the call with the answer", func() bool {
		all := u.all("tools/call")
		return len(all) == 2 && strings.Contains(all[1].body, `"inputResponses":{"r":{"roots":[]}}`)
	})
}

// Suspended calls are cancelled at the server when the proxy ends, and their session is ended.
func TestShutdownWhileSuspended(t *testing.T) {
	for _, kind := range legacyKinds {
		t.Run(kind, func(t *testing.T) {
			u := newUpstream(t, kind)
			u.getOpen = true
			r := startRig(t, u.toml(""), true)
			started := make(chan *call, 1)
			u.on("tools/call", func(c *call) {
				c.event(fmt.Sprintf(elicit, "0", "?"))
				started <- c
				<-c.cancelled
			})
			res := r.must("POST", "/mcp", asksCall("1", "a", ""), modernHeaders("tools/call", "a")...)
			if !strings.Contains(res.body, `"input_required"`) {
				t.Fatalf("%s", res.body)
			}
			if err := r.h.Targets.All[0].Close(); err != nil {
				t.Error(err)
			}
			testkit.Receive(t, "the end of the call", testkit.Receive(t, "the call", started).cancelled)
			if n := r.h.Pending().Suspended(); n != 0 {
				t.Errorf("%d calls are suspended", n)
			}
		})
	}
}
