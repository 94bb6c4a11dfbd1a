package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"

	"dragoman/internal/testkit"
)

// Servers that send what is for one session to all of them: over HTTP+SSE, as supergateway does, and over streamable HTTP on the GET streams.
var broadcasting = []string{"sse", "legacy"}

func newBroadcaster(t *testing.T, kind string) *upstream {
	u := newUpstream(t, kind)
	u.broadcasts, u.getOpen = true, true
	u.on("tools/call", func(c *call) {
		c.result(fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, textAfter(c.body, `"name":"`)))
	})
	return u
}

// askedText is the answer that newBroadcaster gives to a call of the tool.
func askedText(name string) string { return fmt.Sprintf(`"content":[{"type":"text","text":%q}]`, name) }

// openStreams returns the number of event streams that the server has open.
func (u *upstream) openStreams() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.streams)
}

// The calls of a client that may be asked, which have sessions of their own at other servers, get their own answers.
func TestBroadcastAnswers(t *testing.T) {
	for _, kind := range broadcasting {
		t.Run(kind, func(t *testing.T) {
			u := newBroadcaster(t, kind)
			r := startRig(t, u.toml(""), true)
			for round := range 3 {
				var all sync.WaitGroup
				for i := range 10 {
					all.Go(func() {
						name := fmt.Sprintf("tool-%d-%d", round, i)
						res := r.must("POST", "/mcp", asksCall(fmt.Sprint(i), name, ""), modernHeaders("tools/call", name)...)
						if res.status != 200 || !strings.Contains(res.body, askedText(name)) {
							t.Errorf("%s: %d %s", name, res.status, res.body)
						}
					})
				}
				all.Wait()
			}
			if n := r.sum("dragoman_upstream_strays_total", "of", "foreign"); n == 0 {
				t.Error("no foreign answer was counted")
			}
			if n := r.sum("dragoman_upstream_broadcasts"); n != 1 {
				t.Errorf("broadcasts: %v", n)
			}
			testkit.Eventually(t, "one session is left", func() bool { return u.openStreams() == 1 })
			if n := strings.Count(r.logs.String(), "it broadcasts"); n != 1 {
				t.Errorf("said %d times", n)
			}
		})
	}
}

// Legacy clients get their own answers, keep their sessions, and none is asked what another's call asks, or gets its log messages.
func TestBroadcastBetweenLegacyClients(t *testing.T) {
	for _, kind := range broadcasting {
		t.Run(kind, func(t *testing.T) {
			u := newBroadcaster(t, kind)
			var mu sync.Mutex
			answered := make(chan string, 10)
			u.heard = func(s *seen, _ *stream) {
				if s.method == "response" {
					answered <- s.body
				}
			}
			plain := u.answers["tools/call"][0]
			u.on("tools/call", func(c *call) {
				name := textAfter(c.body, `"name":"`)
				if !strings.HasPrefix(name, "asks") {
					plain(c)
					return
				}
				mu.Lock() // one question at a time has this id
				defer mu.Unlock()
				c.event(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"secret of ` + name + `"}}`)
				c.event(fmt.Sprintf(elicit, "7", name))
				c.result(fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, textAfter(<-answered, `"text":"`)))
			})
			r := startRig(t, u.toml(""), true)
			clients := map[string]*httpTestClient{}
			for _, who := range []string{"a", "b", "c"} {
				f := newHTTPTestClient(r)
				f.open("2025-11-25", `{"elicitation":{}}`)
				f.listen()
				clients[who] = f
			}
			for round := range 3 {
				for who, f := range clients {
					id := fmt.Sprintf("%s-%d", who, round)
					f.send(id, legacyCall(`"`+id+`"`, "plain-"+id))
				}
				for who, f := range clients {
					id := fmt.Sprintf("%s-%d", who, round)
					if got := f.receives(id); !strings.Contains(got, askedText("plain-"+id)) {
						t.Errorf("%s: %s", id, got)
					}
				}
			}
			for who, f := range clients {
				f.send("asks", legacyCall(`"asks"`, "asks-"+who))
				var got string
				for got = f.receives("asks"); strings.Contains(got, "notifications/message"); got = f.receives("asks") {
					mentions(t, got, "secret of asks-"+who)
				}
				if !strings.Contains(got, `"message":"asks-`+who+`"`) {
					t.Fatalf("%s is asked %s", who, got)
				}
				id := regexp.MustCompile(`"id":([^,}]*)`).FindStringSubmatch(got)
				f.send("answer", fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"text":"%s says"}}}`, id[1], who))
				if got := f.receives("asks"); !strings.Contains(got, askedText(who+" says")) {
					t.Errorf("%s: %s", who, got)
				}
			}
			for who, f := range clients {
				f.over("asks", "200")
				f.leave("stream")
				for m := range f.of("stream").messages {
					t.Errorf("the stream of %s has %s", who, m)
				}
			}
		})
	}
}

// A client's calls wait for those of another, and one that goes on for longer than lease_wait is told how to do better.
func TestBroadcastTurns(t *testing.T) {
	u := newBroadcaster(t, "sse")
	r := startRig(t, "[questions]\nlease_wait = \"300ms\"\n"+u.toml(""), true)
	other := func(name string) string {
		return strings.Replace(modernCall("1", name, ""), `"name":"c"`, `"name":"other"`, 1)
	}
	var both sync.WaitGroup
	for _, body := range []string{asksCall("1", "x", ""), asksCall("2", "x", ""), other("x"), modernCall("3", "x", "")} {
		both.Go(func() { r.must("POST", "/mcp", body, modernHeaders("tools/call", "x")...) })
	}
	both.Wait()
	testkit.Eventually(t, "it is seen", func() bool { return r.sum("dragoman_upstream_broadcasts") == 1 })
	testkit.Eventually(t, "one session is left", func() bool { return u.openStreams() == 1 })
	held := hanging(u, 0)
	var hung sync.WaitGroup
	hung.Go(func() { r.must("POST", "/mcp", modernCall("1", "slow", ""), modernHeaders("tools/call", "slow")...) })
	slow := testkit.Receive(t, "the call", held)
	res := r.must("POST", "/mcp", other("y"), modernHeaders("tools/call", "y")...)
	mentions(t, res.body, `"code":"too_many_sessions"`, "one session at a time", "isolation")
	slow.result(`{"content":[]}`)
	slow.cancel() // ends the script
	hung.Wait()
	u.on("tools/call", func(c *call) { c.result(`{"content":[]}`) })
	if res := r.must("POST", "/mcp", other("y"), modernHeaders("tools/call", "y")...); !strings.Contains(res.body, `"content":[]`) {
		t.Errorf("after it: %s", res.body)
	}
}
