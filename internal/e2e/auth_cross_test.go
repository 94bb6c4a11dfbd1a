package e2e

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
)

// One caller cannot use anything of another, whatever it knows of it. The same principal with another credential can.
func TestNothingCrossesBetweenCallers(t *testing.T) { byIdentity(t, nothingCrosses) }

func nothingCrosses(t *testing.T, kind string) {
	u := newUpstream(t, "legacy")
	u.getOpen = true
	alice, bob, both := twoCallers(t, u, kind, "")
	t.Run("session", func(t *testing.T) {
		id := alice.open("2025-11-25", "{}")
		list := `{"jsonrpc":"2.0","id":7,"method":"ping"}`
		for _, ask := range []struct{ verb, body string }{{"POST", list}, {"POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`}, {"GET", ""}, {"DELETE", ""}} {
			res := bob.must(ask.verb, "/mcp", ask.body, legacyHeaders(id)...)
			other := bob.must(ask.verb, "/mcp", ask.body, legacyHeaders(strings.Repeat("A", len(id)))...)
			if res.status != 404 || res.body != other.body {
				t.Errorf("%s: %d %s; an unknown session: %s", ask.verb, res.status, res.body, other.body)
			}
		}
		if res := both.must("POST", "/mcp", list, legacyHeaders(id)...); res.status != 200 {
			t.Errorf("by another key of the same: %d %s", res.status, res.body)
		}
		if kind != "keys" {
			return
		}
		anon := *alice
		anon.http = bob.http.Transport.(bearerTransport).client()
		if res := anon.must("POST", "/mcp", list, legacyHeaders(id)...); res.status != 401 {
			t.Errorf("a session id is no credential: %d %s", res.status, res.body)
		}
	})
	t.Run("stream that was lost", func(t *testing.T) {
		id := alice.open("2025-11-25", "{}")
		res := bob.must("GET", "/mcp", "", append(legacyHeaders(id), "Last-Event-ID", "1-1")...)
		if res.status != 404 {
			t.Errorf("%d %s", res.status, res.body)
		}
	})
	t.Run("HTTP+SSE session", func(t *testing.T) {
		c := alice.sse("/sse")
		res := bob.must("POST", c.post, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Content-Type", jsonType)
		if res.status != 404 {
			t.Errorf("%d %s", res.status, res.body)
		}
	})
	t.Run("requestState", func(t *testing.T) {
		echoing(u)
		asked := alice.must("POST", "/mcp", asksCall("1", "a", ""), modernHeaders("tools/call", "a")...)
		retry := answerTo(t, "2", "a", asked, "mine")
		if res := bob.must("POST", "/mcp", retry, modernHeaders("tools/call", "a")...); res.status != 400 || strings.Contains(res.body, "mine") {
			t.Errorf("%d %s", res.status, res.body)
		}
		if res := alice.must("POST", "/mcp", retry, modernHeaders("tools/call", "a")...); res.status != 200 || !strings.Contains(res.body, "a mine") {
			t.Errorf("afterwards its own: %d %s", res.status, res.body)
		}
	})
}

// A cursor of one caller is no cursor of another's.
func TestCursorsDoNotCross(t *testing.T) { byIdentity(t, cursorsDoNotCross) }

func cursorsDoNotCross(t *testing.T, kind string) {
	u := newUpstream(t, "legacy")
	alice, bob, both := twoCallers(t, u, kind, "")
	u.on("tools/list", func(c *call) {
		switch {
		case strings.Contains(c.body, `"cursor":"page2"`):
			c.result(`{"tools":[{"name":"second","inputSchema":{"type":"object"}}]}`)
		case strings.Contains(c.body, `"cursor"`): // a seal of another caller is passed on unchanged, and the server does not know it
			c.error(200, `{"code":-32602,"message":"no such cursor"}`)
		default:
			c.result(`{"tools":[],"nextCursor":"page2"}`)
		}
	})
	list := func(r *rig, cursor string) *response {
		return r.must("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+cursor+modernMeta+`}}`, modernHeaders("tools/list", "")...)
	}
	cursor := fmt.Sprintf(`"cursor":%q,`, textAfter(list(alice, "").body, `"nextCursor":"`))
	if res := list(bob, cursor); !strings.Contains(res.body, `"error"`) {
		t.Errorf("%d %s", res.status, res.body)
	}
	if res := list(both, cursor); !strings.Contains(res.body, `"second"`) {
		t.Errorf("its own: %d %s", res.status, res.body)
	}
}

// Two callers with the same Idempotency-Key and the same request make two requests, and share no session with the server.
func TestRepeatsAndPoolsOfTwoCallers(t *testing.T) { byIdentity(t, repeatsAndPools) }

func repeatsAndPools(t *testing.T, kind string) {
	u := newUpstream(t, "legacy")
	var n atomic.Int32
	sessions := make(chan string, 100)
	u.on("tools/call", func(c *call) {
		sessions <- c.header.Get("Mcp-Session-Id")
		c.result(fmt.Sprintf(`{"content":[{"type":"text","text":"run %d"}]}`, n.Add(1)))
	})
	alice, bob, both := twoCallers(t, u, kind, "")
	call := func(r *rig) *response {
		return r.must("POST", "/mcp", modernCall("1", "a", ""), append(modernHeaders("tools/call", "a"), "Idempotency-Key", "k")...)
	}
	if res := call(alice); !strings.Contains(res.body, "run 1") {
		t.Errorf("%s", res.body)
	}
	if res := call(bob); !strings.Contains(res.body, "run 2") {
		t.Errorf("another's answer: %s", res.body)
	}
	if res := call(both); !strings.Contains(res.body, "run 1") || res.header.Get("Idempotent-Replayed") == "" {
		t.Errorf("its own: %s", res.body)
	}
	if a, b := <-sessions, <-sessions; a == b || a == "" {
		t.Errorf("two callers in one session with the server: %q %q", a, b)
	}
}

// identityKinds are the ways to tell two callers apart: by keys, by a header that goes on to the server beside one key for all, and by
// that header alone.
var identityKinds = []string{"keys", "headers of one key", "headers"}

// twoCallers are clients of one proxy: alice, bob, and alice by another key, or with another header that identifies nobody.
func twoCallers(t *testing.T, u *upstream, kind, extra string) (alice, bob, both *rig) {
	t.Helper()
	toml, keys := keysToml("alice", "bob", "laptop")
	const tenants = "forward_headers = { X-Tenant = \"X-Tenant\", traceparent = \"traceparent\" }\n"
	security := "[security]\napi_keys_enabled = true\n" + toml + "principal = \"alice\"\n"
	switch kind {
	case "keys":
		r := startRig(t, security+u.toml(extra), true)
		return r.as(keys["alice"]), r.as(keys["bob"]), r.as(keys["laptop"])
	case "headers":
		r := startRig(t, u.toml(tenants+extra), true)
		return r.sending("X-Tenant", "alice"), r.sending("X-Tenant", "bob"), r.sending("X-Tenant", "alice", "Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	}
	r := startRig(t, security+u.toml(tenants+extra), true)
	return r.as(keys["alice"]).sending("X-Tenant", "alice"), r.as(keys["alice"]).sending("X-Tenant", "bob"), r.as(keys["laptop"]).sending("X-Tenant", "alice")
}

// byIdentity runs a test for each of identityKinds.
func byIdentity(t *testing.T, test func(t *testing.T, kind string)) {
	for _, kind := range identityKinds {
		t.Run(kind, func(t *testing.T) { test(t, kind) })
	}
}

// A modern server's own state that is sealed, and the answers to a session's requests, are of one caller.
func TestSealedStateAndRepeatsDoNotCross(t *testing.T) {
	byIdentity(t, func(t *testing.T, kind string) {
		u := newUpstream(t, "modern")
		var runs atomic.Int32
		u.on("tools/call", func(c *call) {
			switch {
			case strings.Contains(c.body, `"requestState":"of alice"`):
				c.result(`{"resultType":"complete","content":[{"type":"text","text":"goes on"}]}`)
			case strings.Contains(c.body, `"requestState"`):
				c.error(200, `{"code":-32602,"message":"no such state"}`)
			case strings.Contains(c.body, `"name":"asks"`):
				c.result(`{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}},"requestState":"of alice"}`)
			default:
				c.result(fmt.Sprintf(`{"resultType":"complete","content":[{"type":"text","text":"run %d"}]}`, runs.Add(1)))
			}
		})
		alice, bob, both := twoCallers(t, u, kind, "seal_state = true\n")
		asked := alice.must("POST", "/mcp", asksCall("1", "asks", ""), modernHeaders("tools/call", "asks")...)
		state := textAfter(asked.body, `"requestState":"`)
		retry := asksCall("2", "asks", fmt.Sprintf(`,"inputResponses":{"q":{"action":"decline"}},"requestState":%q`, state))
		if res := bob.must("POST", "/mcp", retry, modernHeaders("tools/call", "asks")...); res.status != 400 || strings.Contains(res.body, "goes on") {
			t.Errorf("bob goes on with the state of alice: %d %s", res.status, res.body)
		}
		if res := both.must("POST", "/mcp", retry, modernHeaders("tools/call", "asks")...); !strings.Contains(res.body, "goes on") {
			t.Errorf("its own: %d %s", res.status, res.body)
		}
		id := alice.open("2025-11-25", "{}")
		call := func(r *rig) *response { return r.must("POST", "/mcp", legacyCall("7", "a"), legacyHeaders(id)...) }
		if res := call(alice); !strings.Contains(res.body, "run 1") {
			t.Errorf("%d %s", res.status, res.body)
		}
		if res := call(bob); res.status != 404 || strings.Contains(res.body, "run") {
			t.Errorf("a request id of alice's session: %d %s", res.status, res.body)
		}
		if res := call(both); !strings.Contains(res.body, "run 1") {
			t.Errorf("its own: %d %s", res.status, res.body)
		}
	})
}
