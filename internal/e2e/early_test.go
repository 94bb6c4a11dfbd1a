package e2e

import (
	"fmt"
	"regexp"
	"testing"
)

// Clients that ask before they send initialize (the Python and TypeScript SDKs of the modern era ask server/discover) are answered as by a
// legacy server, and go on with their session.
func TestRequestsBeforeInitialize(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			u := newUpstream(t, kind)
			r := startRig(t, u.toml(""), true)
			u.forget()
			c := r.sse("/sse")
			for i, q := range []struct{ method, params, want string }{
				{"server/discover", `{` + modernMeta + `}`, `"error":{"code":-32601,…`},
				{"subscriptions/listen", `{"notifications":{},` + modernMeta + `}`, `"error":{"code":-32601,…`},
				{"ping", `{}`, `"result":{}}`},
				{"vendor/method", `{}`, `"error":{"code":-32601,…`},
				{"tools/list", `{}`, `"error":{"code":-32600,"message":"…initialize…`},
				{"tools/call", `{"name":"a"}`, `"error":{"code":-32600,"message":"…initialize…`},
				{"logging/setLevel", `{"level":"info"}`, `"error":{"code":-32600,"message":"…initialize…`},
				{"resources/subscribe", `{"uri":"a:b"}`, `"error":{"code":-32600,"message":"…initialize…`},
			} {
				c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, i, q.method, q.params))
				c.receives(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,%s`, i, q.want))
			}
			c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}`)
			if n := len(u.all("tools/list")) + len(u.all("tools/call")); n != 0 {
				t.Errorf("the server got %d requests", n)
			}
			c.send(stdioInit)
			c.receives(`{"jsonrpc":"2.0","id":"i","result":{"protocolVersion":"2025-11-25",…`)
			c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			u.on("tools/call", func(c *call) { c.result(`{"resultType":"complete","content":[]}`) })
			c.send(`{"jsonrpc":"2.0","id":"7","method":"tools/call","params":{"name":"a"}}`)
			c.receives(`{"jsonrpc":"2.0","id":"7","result":{…"content":[]}}`)
			for _, blame := range regexp.MustCompile(`"blame":"[^"]*"`).FindAllString(r.logs.String(), -1) {
				if blame != `"blame":"client"` {
					t.Errorf("the log has %s: %s", blame, r.logs)
				}
			}
		})
	}
}
