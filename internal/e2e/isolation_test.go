package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"

	"dragoman/internal/testkit"
)

// running returns the number of the upstream's processes.
func (r *rig) running() int { return r.h.Targets.Named("default").Dialer.Stats().Running }

// hold makes calls of a tool wait for the test.
func (u *upstream) hold(t *testing.T) (began <-chan string, free func()) {
	t.Helper()
	in, out := make(chan string, 64), make(chan struct{})
	u.on("tools/call", func(c *call) {
		in <- c.id
		select {
		case <-out:
			c.result(`{"content":[{"type":"text","text":"held"}]}`)
		case <-c.cancelled:
		}
	})
	done := false
	free = func() {
		if !done {
			done = true
			close(out)
		}
	}
	t.Cleanup(free)
	return in, free
}

// With isolation = "pool(2)" calls spread over two processes, and no third is started, however many calls there are.
func TestPoolSpreads(t *testing.T) {
	for _, kind := range []string{"legacy-stdio", "modern-stdio"} {
		t.Run(kind, func(t *testing.T) {
			u := newUpstream(t, kind)
			began, free := u.hold(t)
			r := startRig(t, u.toml(`isolation = "pool(2)"`), true)
			testkit.Eventually(t, "the probe's children have gone", func() bool { return r.running() <= 1 })
			answers := make(chan string, 6)
			for i := range 6 {
				go func() {
					res := r.must("POST", "/mcp", modernCall(fmt.Sprint(i), "a", ""), modernHeaders("tools/call", "a")...)
					answers <- res.body
				}()
			}
			for range 6 {
				testkit.Receive(t, "a call at the server", began)
			}
			if n := r.running(); n != 2 {
				t.Errorf("%d processes, want 2", n)
			}
			free()
			for range 6 {
				if got := testkit.Receive(t, "an answer", answers); !strings.Contains(got, `"text":"held"`) {
					t.Error(got)
				}
			}
			seen := map[*stream]int{}
			u.mu.Lock()
			for _, c := range u.calls {
				if c.method == "tools/call" {
					seen[c.out]++
				}
			}
			u.mu.Unlock()
			for _, n := range seen {
				if len(seen) != 2 || n < 2 {
					t.Errorf("the calls spread as %v, want two processes with about half each", seen)
					break
				}
			}
		})
	}
}

// A legacy client of a pool, or of a process shared by its principal, has a working session.
func TestMixedIsolation(t *testing.T) {
	for _, isolation := range []string{"pool(3)", "principal", "shared"} {
		t.Run(isolation, func(t *testing.T) {
			u := newUpstream(t, "legacy-stdio")
			u.on("tools/call", func(c *call) { c.result(`{"content":[{"type":"text","text":"x"}]}`) })
			r := startRig(t, u.toml(fmt.Sprintf("isolation = %q", isolation)), true)
			u.forget()
			one, two := r.open("2025-11-25", `{}`), r.open("2025-06-18", "{}")
			for i, id := range []string{one, two, one} {
				res := r.must("POST", "/mcp", legacyCall(fmt.Sprint(i), "a"), legacyHeaders(id)...)
				if want := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"x"}]}}`, i); res.body != want {
					t.Errorf("got %s\nwant %s", res.body, want)
				}
			}
			if n := len(u.all("initialize")); n != 1 {
				t.Errorf("%d handshakes for calls that came one after the other, want 1", n)
			}
		})
	}
}

// Within one principal a server that may ask can do so: it means the call that runs. A call whose client has been asked does not hold up the
// next. Legacy clients are asked too.
func TestPrincipalIsAsked(t *testing.T) {
	u := newUpstream(t, "legacy-stdio")
	r := startRig(t, u.toml("isolation = \"principal\"\ndeclare = \"all\""), true)
	echoingApart(u)
	u.forget()
	res := r.must("POST", "/mcp", asksCall("1", "one", ""), modernHeaders("tools/call", "one")...)
	older := newHTTPTestClient(r)
	older.open("2025-11-25", `{"elicitation":{}}`)
	older.send("call", `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"two","arguments":{}}}`)
	if res = r.must("POST", "/mcp", answerTo(t, "2", "one", res, "first"), modernHeaders("tools/call", "one")...); !strings.Contains(res.body, `"one first"`) {
		t.Error(res.body)
	}
	question := older.receives("call")
	id := parseMessage(t, question).ID
	if !strings.Contains(question, `"elicitation/create"`) || !strings.Contains(question, `"message":"two"`) {
		t.Fatal(question)
	}
	older.send("answer", `{"jsonrpc":"2.0","id":`+string(id)+`,"result":{"action":"accept","content":{"text":"second"}}}`)
	wants(t, older, "call", `{"jsonrpc":"2.0","id":5,"result":{"content":[{"type":"text","text":"two second"}]}}`)
	if n := len(u.all("initialize")); n != 1 {
		t.Errorf("%d handshakes, want 1", n)
	}
}

// At max_processes the session of a legacy client that was unused longest is evicted for a new one; those in use are not.
func TestProcessLimit(t *testing.T) {
	u := newUpstream(t, "legacy-stdio")
	began, free := u.hold(t)
	r := startRig(t, u.toml("max_processes = 2"), true)
	testkit.Eventually(t, "the probe's children have gone", func() bool { return r.running() == 0 })
	first := r.open("2025-11-25", `{}`)
	second := r.open("2025-11-25", `{}`)
	third := r.open("2025-11-25", `{}`)
	if res := r.must("POST", "/mcp", legacyCall("1", "a"), legacyHeaders(first)...); res.status != 404 {
		t.Errorf("the longest unused session still answers: %d %s", res.status, res.body)
	}
	if n := r.running(); n > 2 {
		t.Errorf("%d processes, want 2", n)
	}
	var calls sync.WaitGroup
	defer calls.Wait()
	for _, id := range []string{second, third} {
		calls.Go(func() { r.must("POST", "/mcp", legacyCall("1", "a"), legacyHeaders(id)...) })
		testkit.Receive(t, "the call", began)
	}
	res := r.must("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, legacyHeaders("")...)
	if !matches(`…"code":-32603,"message":"all 2 processes of the upstream server are in use; end a session, or raise upstreams.default.max_processes","data":{"code":"too_many_sessions","retryable":true,"retryAfter":5}…`, res.body) {
		t.Errorf("with all in use: %d %s", res.status, res.body)
	}
	free()
	calls.Wait()
}

// idle_exit stops the process of an idle session; its next request starts another, which gets the client's handshake.
func TestIdleExitOfSession(t *testing.T) {
	u := newUpstream(t, "legacy-stdio")
	u.on("tools/call", func(c *call) { c.result(`{"content":[]}`) })
	r := startRig(t, u.toml("idle_exit = \"1s\""), true)
	testkit.Eventually(t, "the probe's children have gone", func() bool { return r.running() == 0 })
	u.forget()
	id := r.open("2025-06-18", `{"roots":{"listChanged":true}}`)
	r.must("POST", "/mcp", `{"jsonrpc":"2.0","id":9,"method":"logging/setLevel","params":{"level":"error"}}`, legacyHeaders(id)...)
	want := fmt.Sprint(u.all("initialize")[0].body, len(u.all("notifications/initialized")), u.all("logging/setLevel")[0].body)
	testkit.Eventually(t, "the idle process has gone", func() bool { return r.running() == 0 })
	if n := r.h.Sessions().Len(); n != 1 {
		t.Fatalf("%d sessions, want 1", n)
	}
	u.forget()
	res := r.must("POST", "/mcp", legacyCall("1", "a"), legacyHeaders(id)...)
	if want := `{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`; res.body != want {
		t.Errorf("got %s\nwant %s", res.body, want)
	}
	if got := fmt.Sprint(u.all("initialize")[0].body, len(u.all("notifications/initialized")), u.all("logging/setLevel")[0].body); strip(got) != strip(want) {
		t.Errorf("the second process received\n%s\nthe first\n%s", got, want)
	}
}

// strip removes ids, which differ.
func strip(text string) string {
	return regexp.MustCompile(`"id":\d+,`).ReplaceAllString(text, `"id":n,`)
}

// idle_exit stops an unused modern server, and the next call starts it.
func TestIdleExitOfModernServer(t *testing.T) {
	u := newUpstream(t, "modern-stdio")
	u.on("tools/call", func(c *call) { c.result(`{"resultType":"complete","content":[]}`) })
	r := startRig(t, u.toml("idle_exit = \"1s\""), true)
	for range 2 {
		if res := r.must("POST", "/mcp", modernCall("1", "a", ""), modernHeaders("tools/call", "a")...); !strings.Contains(res.body, `"content":[]`) {
			t.Fatal(res.body)
		}
		testkit.Eventually(t, "the idle process has gone", func() bool { return r.running() == 0 })
	}
}

// A modern client's listen at a process survives a crash: it is reopened at the next process, and everything is reported as changed.
func TestListenOutlivesProcess(t *testing.T) {
	u := newUpstream(t, "modern-stdio")
	u.on("subscriptions/listen", func(c *call) {
		c.event(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":$ID},"notifications":{"toolsListChanged":true,"resourceSubscriptions":["u"]}}}`)
		<-c.cancelled
	})
	client := newHTTPTestClient(startRig(t, u.toml(""), true))
	client.send("L", listenBody(`"L"`, `"toolsListChanged":true,"resourceSubscriptions":["u"]`))
	wants(t, client, "L", fmt.Sprintf(ackPattern, `"L"`, `"toolsListChanged":true,"resourceSubscriptions":["u"]`))
	for range 2 {
		u.lose()
		wants(t, client, "L", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"L"}}}`)
		wants(t, client, "L", `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"u","_meta":{"io.modelcontextprotocol/subscriptionId":"L"}}}`)
	}
	client.leave("L")
}
