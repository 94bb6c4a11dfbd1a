package e2e

import (
	"encoding/json"
	"strings"
	"testing"
)

// quote is a JSON string.
func quote(text string) string {
	raw, _ := json.Marshal(text)
	return string(raw)
}

// A denied, disabled or renamed resource does not reach the server in any spelling, and what is allowed reaches it as the client wrote it.
func TestSpellingsOfDeniedResources(t *testing.T) {
	denied := []string{
		"demo://secret/a", "DEMO://secret/a", "demo://SECRET/a", "demo://x/../secret/a", "demo://secret/./a", "demo://secret/x/%2e%2e/a", "demo://secret/x/%252E%2e/a",
		"demo://secret/%61", "demo://secret%2fa", "demo:///secret/a", "demo:secret/a", "demo://u@secret/a", "demo://secret:1/a", "demo://secret\\a", " demo://secret/a",
		"demo://secret/a ", "demo://sec\tret/a", "demo://secret/a\n", "demo://secret/a#", "demo://secret/a?", "demo://secret/\uff41", "demo://secret/a\u200b", "demo://other%2F@secret/a",
		"demo://off", "Demo://OFF/", "demo://old", "demo://OLD", "HTTP://b\u00fccher.example:80/a", "http://xn--bcher-kva.example/a", "http:\\\\xn--bcher-kva.example/a", "http:/x", "http://0x7f.1/",
	}
	everyWay(t, `
[upstreams.default.resources."demo://off"]
enabled = false
[upstreams.default.resources."demo://old"]
rename = "demo://new"
[upstreams.default.access."*"]
deny_resources = ["demo://secret/*", "http://b\u00fccher.example/*"]
`, func(t *testing.T, u *upstream, w way) {
		methods := []string{"resources/read", "resources/subscribe", "completion/complete"}
		if strings.Contains(w.name, "modern") || w.name == "rest" {
			methods = []string{"resources/read", "completion/complete"}
		}
		for _, method := range methods {
			u.on(method, func(c *call) {
				c.result(`{"contents":[],"completion":{"values":[]},"resultType":"complete","ttlMs":0,"cacheScope":"private"}`)
			})
			about := func(uri string) string {
				if method == "completion/complete" {
					return `"ref":{"type":"ref/resource","uri":` + quote(uri) + `},"argument":{"name":"x","value":""}`
				}
				return `"uri":` + quote(uri)
			}
			for _, uri := range denied {
				if got := w.ask(method, about(uri)); !strings.Contains(got, `-32602`) && !strings.Contains(got, `-32002`) && w.name != "rest" {
					t.Errorf("%s of %q: %s", method, uri, got)
				}
			}
			for _, s := range append(u.all(method), u.all("subscriptions/listen")...) {
				if s.method == method || strings.Contains(s.body, "resourceSubscriptions") {
					t.Errorf("the server has got %s", s.body)
				}
			}
			if method == "resources/subscribe" && !u.legacy {
				continue // it becomes a listen
			}
			for _, uri := range []string{"demo://Public/a%2Fb", "demo://public/%7E/\u00e9", "demo://public/a b?q=%41#f", "memo://insights", "file:/tmp/a"} {
				w.ask(method, about(uri))
				if all := u.all(method); len(all) == 0 || !strings.Contains(all[len(all)-1].body, quote(uri)) {
					t.Errorf("%s of %q does not reach the server as it is: %v", method, uri, all)
				}
			}
			w.ask(method, about("demo://new"))
			if all := u.all(method); !strings.Contains(all[len(all)-1].body, `"demo://old"`) {
				t.Errorf("%s of a renamed resource: %s", method, all[len(all)-1].body)
			}
		}
	})
}

// A denied tool or prompt does not reach the server in any spelling that it may trim or fold, nor behind another member or method.
func TestSpellingsOfDeniedNames(t *testing.T) {
	everyWay(t, `
[upstreams.default.tools.off]
enabled = false
[upstreams.default.tools.old]
rename = "new"
[upstreams.default.access."*"]
deny_tools = ["drop_*"]
deny_prompts = ["Secret"]
deny_resources = ["demo://secret"]
`, func(t *testing.T, u *upstream, w way) {
		u.on("tools/list", func(c *call) {
			c.result(`{"tools":[{"name":"drop_all","inputSchema":{"type":"object"}},{"name":"off","inputSchema":{"type":"object"}},{"name":"old","inputSchema":{"type":"object"}},{"name":"Fine","inputSchema":{"type":"object"}}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}`)
		})
		for _, method := range []string{"tools/call", "prompts/get", "completion/complete", "Resources/Read", "resources/read"} {
			u.on(method, func(c *call) {
				c.result(`{"content":[],"messages":[],"contents":[],"completion":{"values":[]},"resultType":"complete","ttlMs":0,"cacheScope":"private"}`)
			})
		}
		complete := `"argument":{"name":"x","value":""},`
		for _, try := range [][2]string{
			{"tools/call", `"name":"drop_all","arguments":{}`}, {"tools/call", `"name":"DROP_all","arguments":{}`}, {"tools/call", `"name":" drop_all","arguments":{}`},
			{"tools/call", `"name":"drop_all\u0000","arguments":{}`}, {"tools/call", `"name":"\u200bdrop_all","arguments":{}`}, {"tools/call", `"name":"\uff44rop_all","arguments":{}`},
			{"tools/call", `"name":["drop_all"],"arguments":{}`}, {"tools/call", `"name":"Off","arguments":{}`}, {"tools/call", `"name":"OLD","arguments":{}`},
			{"tools/call", `"name":"old","arguments":{}`}, {"prompts/get", `"name":"secret"`}, {"prompts/get", `"name":"SECRET\n"`},
			{"completion/complete", complete + `"ref":{"type":"ref/prompt","name":"secret","uri":"demo://fine"}`},
			{"completion/complete", complete + `"ref":{"type":"ref/resource","name":"fine","uri":"demo://secret"}`},
			{"completion/complete", complete + `"ref":{"type":"ref/prompt","name":"fine","Name":"secret"}`},
			{"completion/complete", complete + `"ref":{"type":"ref/prompt","name":"fine","name":"secret"}`},
			{"completion/complete", complete + `"Ref":{"type":"ref/prompt","name":"secret"}`},
			{"Resources/Read", `"uri":"demo://secret"`}, {"resources/read", `"uri":["demo://secret"]`},
		} {
			if got := w.ask(try[0], try[1]); strings.Contains(got, `"result":{`) || strings.HasPrefix(got, `{"content`) {
				t.Errorf("%s: %s", try, got)
			}
			for _, s := range u.all(try[0]) {
				t.Errorf("the server has got %s", s.body)
			}
		}
		w.ask("tools/call", `"name":"Fine","arguments":{}`)
		if all := u.all("tools/call"); len(all) != 1 || !strings.Contains(all[0].body, `"Fine"`) {
			t.Errorf("a tool that is allowed: %v", all)
		}
	})
}
