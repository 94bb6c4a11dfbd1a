package e2e

import (
	"testing"

	"dragoman/internal/testkit"
)

// In an array of messages (revision 2025-03-26) a cancellation finds the request before it, and a request that waits is found by a
// cancellation in another POST. Neither reaches the server.
func TestCancelInArray(t *testing.T) {
	u := newUpstream(t, "legacy")
	r := startRig(t, u.toml(""), true)
	started := hanging(u, 0)
	s := r.open("2025-03-26", "{}")
	res := r.must("POST", "/mcp", `[`+legacyCall("1", "a")+`,{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}]`, legacyHeaders(s)...)
	if res.status != 200 || res.body != "" {
		t.Errorf("%d %s", res.status, res.body)
	}
	over := make(chan *response, 1)
	go func() {
		res, _ := r.do(t.Context(), "POST", "/mcp", `[`+legacyCall("2", "a")+`,`+legacyCall("3", "a")+`]`, legacyHeaders(s)...)
		over <- res
	}()
	first := testkit.Receive(t, "the first call", started)
	if len(u.all("tools/call")) != 1 {
		t.Error("a cancelled call has reached the server")
	}
	for _, id := range []string{"3", "2"} {
		if res := r.must("POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+id+`}}`, legacyHeaders(s)...); res.status != 202 {
			t.Errorf("%d %s", res.status, res.body)
		}
	}
	testkit.Receive(t, "its cancellation", first.cancelled)
	if res := testkit.Receive(t, "the end", over); res == nil || res.status != 200 || res.body != "" {
		t.Errorf("%+v", res)
	}
	if n := len(u.all("tools/call")); n != 1 {
		t.Errorf("%d calls have reached the server", n)
	}
	if n := r.requests()["default cancelled"] + r.requests()[" cancelled"]; n != 3 {
		t.Errorf("%v cancelled requests are counted: %v", n, r.requests())
	}
}
