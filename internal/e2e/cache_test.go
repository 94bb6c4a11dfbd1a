package e2e

import (
	"strings"
	"testing"

	"dragoman/internal/testkit"
)

// A list that may be shared is requested once; a change notification, for whatever client, drops it.
func TestCacheAtEveryEndpoint(t *testing.T) {
	u := newUpstream(t, "modern")
	r := startRig(t, "[cache]\nbytes = \"1MiB\"\n[rest]\ntools_ttl = \"0s\"\n"+u.toml(""), true)
	u.on("tools/list", func(c *call) {
		c.result(`{"tools":[{"name":"a","inputSchema":{"type":"object"}}],"resultType":"complete","ttlMs":60000,"cacheScope":"public"}`)
	})
	list := func() {
		t.Helper()
		res := r.must("POST", "/mcp", `{"jsonrpc":"2.0","id":"x","method":"tools/list","params":{`+modernMeta+`}}`, modernHeaders("tools/list", "")...)
		if res.status != 200 || !strings.Contains(res.body, `"id":"x"`) || !strings.Contains(res.body, `"tools":[{"name":"a"`) {
			t.Errorf("%d %s", res.status, res.body)
		}
	}
	for range 5 {
		list()
	}
	if n := len(u.all("tools/list")); n != 1 {
		t.Errorf("the server was asked %d times", n)
	}
	if hits := r.sum("dragoman_cache_total"); hits != 1+1+4 { // a miss, kept, four hits
		t.Errorf("counted %v", hits)
	}
	change := make(chan struct{})
	u.on("subscriptions/listen", func(c *call) {
		c.event(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":$ID},"notifications":{"toolsListChanged":true}}}`)
		<-change
		c.event(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":$ID}}}`)
		<-c.cancelled
	})
	go func() {
		_, _ = r.do(t.Context(), "POST", "/mcp", `{"jsonrpc":"2.0","id":"l","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},`+modernMeta+`}}`,
			modernHeaders("subscriptions/listen", "")...) // ends with the test
	}()
	testkit.Eventually(t, "the listen", func() bool { return len(u.all("subscriptions/listen")) == 1 })
	close(change)
	testkit.Eventually(t, "the list is asked for again", func() bool { list(); return len(u.all("tools/list")) == 2 })
}
