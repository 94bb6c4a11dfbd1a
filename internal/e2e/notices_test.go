package e2e

import (
	"fmt"
	"strings"
	"testing"

	"dragoman/internal/app"
	"dragoman/internal/testkit"
)

// noticeRules are rules about resources below demo://dir, which everybody may use.
const noticeRules = `
[upstreams.default.resources."demo://dir/off"]
enabled = false
[upstreams.default.resources."demo://old"]
rename = "demo://new"
[upstreams.default.access."*"]
deny_resources = ["demo://dir/secret*"]
`

func updated(uri string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":%q}}`, uri)
}

// announcer makes a server announce changes of resources, on its own stream or in the answer of a listen.
func announcer(u *upstream) (announce func(uris ...string)) {
	u.getOpen = true
	for _, method := range []string{"resources/subscribe", "resources/unsubscribe"} {
		u.on(method, func(c *call) { c.result("{}") })
	}
	if u.legacy {
		return func(uris ...string) {
			for _, uri := range uris {
				newScript(u).away(updated(uri))
			}
		}
	}
	say := make(chan string)
	u.on("subscriptions/listen", func(c *call) {
		tag := `"_meta":{"io.modelcontextprotocol/subscriptionId":$ID}`
		c.event(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{` + tag + `,"notifications":{"resourceSubscriptions":["demo://dir","demo://old"]}}}`)
		if !strings.Contains(c.body, "demo://old") {
			<-c.cancelled
			return
		}
		for {
			select {
			case uri := <-say:
				c.event(strings.Replace(updated(uri), `"params":{`, `"params":{`+tag+`,`, 1))
			case <-c.cancelled:
				return
			}
		}
	})
	return func(uris ...string) {
		for _, uri := range uris {
			select {
			case say <- uri:
			case <-u.t.Context().Done():
			}
		}
	}
}

// noticed subscribes a client to demo://dir and a renamed resource, has the server announce hidden, renamed and allowed ones, and
// checks what the client is told.
func noticed(t *testing.T, client testClient, announce func(uris ...string), modern, scoped bool) {
	t.Helper()
	on := "stream"
	if modern {
		on = "L"
		client.send(on, listenBody(`"L"`, `"resourceSubscriptions":["demo://dir","demo://new"]`))
		wants(t, client, on, fmt.Sprintf(ackPattern, `"L"`, `"resourceSubscriptions":["demo://dir","demo://new"]`))
	} else {
		client.open("2025-11-25", "{}")
		for i, uri := range []string{"demo://dir", "demo://new"} {
			label := fmt.Sprintf("s%d", i)
			client.send(label, fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"resources/subscribe","params":{"uri":%q}}`, label, uri))
			want := fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"result":{}}`, label)
			for got := ""; got != want; {
				if got = strings.TrimSpace(client.receives(label)); got != want && !strings.Contains(got, "list_changed") && !strings.Contains(got, `"demo://dir"`) {
					t.Fatalf("received %s", got)
				}
			}
		}
		if f, ok := client.(*httpTestClient); ok {
			f.begin(on, "GET", "", []string{"Accept", "text/event-stream", "Mcp-Session-Id", f.session})
		}
	}
	announce("demo://dir/secret", "DEMO://dir/secret/a", "demo://dir/x/../secret", "demo://dir/off")
	if scoped {
		announce("demo://dir/scoped")
	}
	announce("demo://old", "demo://dir/fine")
	for renamed := false; ; { // a bridge whose listen was replaced reports once that all that a client may use has changed
		got := strings.TrimSpace(client.receives(on))
		switch {
		case strings.Contains(got, `"notifications/tools/list_changed"`), strings.Contains(got, `"uri":"demo://dir"`):
		case strings.Contains(got, `"uri":"demo://new"`):
			renamed = true
		case strings.Contains(got, `"uri":"demo://dir/fine"`) && renamed:
			return
		default:
			t.Fatalf("received %s", got)
		}
	}
}

// A notice about a resource that a client may not use does not reach it, and a renamed resource has its new name, whatever carries
// the notice: a session's own stream, its events, the pipes, or a listen.
func TestNoticesOfHiddenResources(t *testing.T) {
	for _, kind := range kinds {
		for _, face := range []string{"http", "sse", "stdio", "modern", "modern stdio"} {
			t.Run(kind+" "+face, func(t *testing.T) {
				t.Parallel()
				u := newUpstream(t, kind)
				announce := announcer(u)
				modern := strings.HasPrefix(face, "modern")
				if strings.HasSuffix(face, "stdio") {
					noticed(t, newPipeClient(t, startStdio(t, u.toml("")+noticeRules)), announce, modern, false)
					return
				}
				more, keys := keysToml("ci")
				r := startRig(t, "[security]\napi_keys_enabled = true\n"+more+u.toml(`scopes = { "resource:demo://dir/scoped" = ["x"] }`)+noticeRules, true).as(keys["ci"])
				if face == "sse" {
					noticed(t, newSSEChannelClient(r), announce, false, true)
					return
				}
				noticed(t, newHTTPTestClient(r), announce, modern, true)
			})
		}
	}
}

// Rules that become stricter hold for the notices of sessions and listens that are open, and so do rules that become laxer.
func TestNoticesAfterAReload(t *testing.T) {
	for _, face := range []string{"legacy", "modern"} {
		t.Run(face, func(t *testing.T) {
			t.Parallel()
			u := newUpstream(t, "legacy")
			announce := announcer(u)
			r := startRig(t, u.toml("")+noticeRules, true)
			client := newHTTPTestClient(r)
			noticed(t, client, announce, face == "modern", false)
			r.reload(app.ReloadApplied, u.toml("")+strings.Replace(noticeRules, "dir/secret*", "dir/fine", 1))
			on := map[string]string{"legacy": "stream", "modern": "L"}[face]
			announce("demo://dir/fine", "demo://dir/secret")
			if got := testkit.Receive(t, "a notice", client.of(on).messages); !strings.Contains(got, `"demo://dir/secret"`) {
				t.Errorf("received %s", got)
			}
		})
	}
}

// A client that goes on with a credential of more scopes is told what those permit, on the stream that it had before.
func TestNoticesWithMoreScopes(t *testing.T) {
	u := newUpstream(t, "legacy")
	announce := announcer(u)
	more, keys := keysToml("less", "more")
	for name, extra := range map[string]string{"less": "", "more": "scopes = [\"x\"]\n"} {
		head := "[security.api_keys." + name + "]\n"
		more = strings.Replace(more, head, head+"principal = \"p\"\n"+extra, 1)
	}
	r := startRig(t, "[security]\napi_keys_enabled = true\n"+more+u.toml(`scopes = { "resource:demo://dir/scoped" = ["x"] }`)+noticeRules, true)
	client := newHTTPTestClient(r.as(keys["less"]))
	noticed(t, client, announce, false, true)
	client.r = r.as(keys["more"])
	client.send("ping", `{"jsonrpc":"2.0","id":"ping","method":"ping"}`)
	wants(t, client, "ping", `{"jsonrpc":"2.0","id":"ping","result":{}}`)
	announce("demo://dir/scoped")
	if got := client.receives("stream"); !strings.Contains(got, `"demo://dir/scoped"`) {
		t.Errorf("received %s", got)
	}
}
