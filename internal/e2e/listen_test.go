package e2e

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"dragoman/internal/app"
	"dragoman/internal/config"
	"dragoman/internal/testkit"
)

func listenBody(id, filter string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"subscriptions/listen","params":{"notifications":{` + filter + `},` + modernMeta + `}}`
}

const ackPattern = `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":%s},"notifications":{%s}}}`

// lose breaks the connections of a legacy server to the proxy, and makes it forget all sessions.
func (u *upstream) lose() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := range u.sessions {
		u.lost[fmt.Sprintf("up-%d", i+1)] = true
	}
	for name, s := range u.streams {
		close(s.done)
		delete(u.streams, name)
	}
	for _, p := range u.procs {
		_ = p.conn.Close()
	}
	u.procs = nil
}

// wants checks the next message of a client.
func wants(t *testing.T, f testClient, label, pattern string) {
	t.Helper()
	if got := strings.TrimSpace(f.receives(label)); !matches(pattern, got) {
		t.Fatalf("received\n  %s\nwant\n  %s", got, pattern)
	}
}

// eitherClient runs a test with an HTTP client and with a stdio client, at each kind of legacy server.
func eitherClient(t *testing.T, config string, kinds []string, f func(t *testing.T, u *upstream, client testClient)) {
	t.Helper()
	for _, kind := range kinds {
		for _, name := range []string{"http", "stdio"} {
			t.Run(kind+"-"+name, func(t *testing.T) {
				t.Parallel()
				u := newUpstream(t, kind)
				u.getOpen = true
				toml := config + "\n" + u.toml("")
				if name == "stdio" {
					f(t, u, newPipeClient(t, startStdio(t, toml)))
					return
				}
				f(t, u, newHTTPTestClient(startRig(t, toml, true)))
			})
		}
	}
}

// A listen outlives the server's session: it is reopened, and everything that may have been missed is reported as changed.
func TestListenServerGone(t *testing.T) {
	eitherClient(t, "", legacyKinds, func(t *testing.T, u *upstream, client testClient) {
		u.on("resources/subscribe", func(c *call) { c.result("{}") })
		client.send("L", listenBody(`"L"`, `"toolsListChanged":true,"resourceSubscriptions":["u"]`))
		wants(t, client, "L", fmt.Sprintf(ackPattern, `"L"`, `"toolsListChanged":true,"resourceSubscriptions":["u"]`))
		for range 2 {
			u.forget()
			u.lose()
			wants(t, client, "L", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"L"}}}`)
			wants(t, client, "L", `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"u","_meta":{"io.modelcontextprotocol/subscriptionId":"L"}}}`)
			if n := len(u.all("resources/subscribe")); n != 1 {
				t.Errorf("subscribed %d times after a loss", n)
			}
		}
		newScript(u).away(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"u/1"}}`)
		wants(t, client, "L", `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"u/1","_meta":{"io.modelcontextprotocol/subscriptionId":"L"}}}`)
	})
}

// A listen at a server without a GET stream and without polling is not acknowledged.
func TestListenWithoutGET(t *testing.T) {
	for _, poll := range []string{"0s", "1h"} {
		u := newUpstream(t, "legacy")
		r := startRig(t, u.toml(fmt.Sprintf("poll_changes = %q", poll)), true)
		discover := r.must("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{`+modernMeta+`}}`, modernHeaders("server/discover", "")...)
		promised := strings.Contains(discover.body, "listChanged") || strings.Contains(discover.body, "subscribe")
		if promised != (poll != "0s") {
			t.Errorf("poll_changes %s: acknowledged %s", poll, discover.body)
		}
		client := newHTTPTestClient(r)
		client.send("L", listenBody(`1`, `"toolsListChanged":true,"resourceSubscriptions":["u"]`))
		if poll == "0s" {
			wants(t, client, "L", fmt.Sprintf(ackPattern, `1`, ``))
			wants(t, client, "L", `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":1}}}`)
			client.over("L", "200")
		} else {
			wants(t, client, "L", fmt.Sprintf(ackPattern, `1`, `"toolsListChanged":true,"resourceSubscriptions":["u"]`))
			client.leave("L")
		}
		if n := len(u.all("resources/subscribe")); n != 0 {
			t.Errorf("subscribed %d times without a stream", n)
		}
	}
}

// When the proxy ends, a listen ends like at a server: over HTTP with its result, on stdio with its result and a cancellation (vector 76;
// 2026-07-28 cancellation).
func TestListenDrains(t *testing.T) {
	for _, kind := range legacyKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			const end = `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":1}}}`
			u := newUpstream(t, kind)
			u.getOpen = true
			r := startRig(t, u.toml(""), true)
			client := newHTTPTestClient(r)
			client.send("L", listenBody("1", `"toolsListChanged":true`))
			wants(t, client, "L", fmt.Sprintf(ackPattern, "1", `"toolsListChanged":true`))
			if n := r.h.Targets.All[0].Listens(); n != 1 {
				t.Errorf("%d listens", n)
			}
			r.h.Drain()
			wants(t, client, "L", end)
			client.over("L", "200")
			testkit.Eventually(t, "the end of the listen", func() bool { return r.h.Targets.All[0].Listens() == 0 })
		})
		t.Run(kind+"-stdio", func(t *testing.T) {
			t.Parallel()
			u := newUpstream(t, kind)
			u.getOpen = true
			cfg, err := config.LoadConfig(config.LoadOptions{File: testkit.WriteFile(t, "stdio.toml", u.toml(""))})
			if err != nil {
				t.Fatal(err)
			}
			in, say := io.Pipe()
			hear, out := io.Pipe()
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				err := app.RunStdio(ctx, cfg, app.Streams{In: in, Out: out, Err: &testkit.LockedBuffer{}})
				_ = out.Close()
				done <- err
			}()
			if _, err := io.WriteString(say, listenBody("1", `"toolsListChanged":true`)+"\n"); err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			var mu sync.Mutex
			read := make(chan struct{})
			go func() {
				defer close(read)
				buf := make([]byte, 4096)
				for {
					n, err := hear.Read(buf)
					mu.Lock()
					text.Write(buf[:n])
					mu.Unlock()
					if err != nil {
						return
					}
				}
			}()
			said := func() string { mu.Lock(); defer mu.Unlock(); return text.String() }
			testkit.Eventually(t, "the acknowledgement", func() bool { return strings.HasSuffix(said(), "\n") })
			stop()
			testkit.Receive(t, "the end of the output", read)
			if err := testkit.Receive(t, "the end of stdio", done); err != nil {
				t.Error(err)
			}
			_ = say.Close()
			want := fmt.Sprintf(ackPattern, "1", `"toolsListChanged":true`) + "\n" +
				`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":1}}}` + "\n" +
				`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}` + "\n"
			if said() != want {
				t.Errorf("received\n%s\nwant\n%s", said(), want)
			}
		})
	}
}

// A listen has no response while it lasts, so the limit on requests does not apply.
func TestListenOutlivesRequestTime(t *testing.T) {
	eitherClient(t, "[limits]\nrequest_time = \"1s\"\n", []string{"legacy", "legacy-stdio"}, func(t *testing.T, u *upstream, client testClient) {
		hanging(u, 0)
		client.send("L", listenBody(`"L"`, `"toolsListChanged":true`))
		wants(t, client, "L", fmt.Sprintf(ackPattern, `"L"`, `"toolsListChanged":true`))
		client.send("k", modernCall("2", "slow", ""))
		wants(t, client, "k", `{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"no response in 1s…`)
		newScript(u).away(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		wants(t, client, "L", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"L"}}}`)
	})
}

// A leaving client is noticed although nothing is written: the server is notified and nothing is left, also with many at once.
func TestListenManyLeave(t *testing.T) {
	for _, kind := range legacyKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			u := newUpstream(t, kind)
			u.getOpen = true
			u.on("resources/subscribe", func(c *call) { c.result("{}") })
			u.on("resources/unsubscribe", func(c *call) { c.result("{}") })
			r := startRig(t, u.toml(""), true)
			client := newHTTPTestClient(r)
			u.forget()
			const many = 20
			for i := range many {
				label := fmt.Sprint(i)
				client.send(label, listenBody(label, fmt.Sprintf(`"resourceSubscriptions":["u","u%d"]`, i)))
				wants(t, client, label, fmt.Sprintf(ackPattern, label, fmt.Sprintf(`"resourceSubscriptions":["u","u%d"]`, i)))
			}
			newScript(u).away(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"u"}}`)
			for i := range many {
				wants(t, client, fmt.Sprint(i), fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"u","_meta":{"io.modelcontextprotocol/subscriptionId":%d}}}`, i))
			}
			for i := range many {
				client.leave(fmt.Sprint(i))
			}
			testkit.Eventually(t, "the end of all listens", func() bool { return r.h.Targets.All[0].Listens() == 0 })
			testkit.Eventually(t, "the end of all subscriptions", func() bool { return len(u.all("resources/unsubscribe")) == many+1 })
			if n := len(u.all("resources/subscribe")); n != many+1 {
				t.Errorf("%d subscriptions at the server", n)
			}
			if n := len(u.all("initialize")); n != 1 {
				t.Errorf("%d sessions", n)
			}
		})
	}
}

// A server that dies, stays away and comes back is reached again; a client that leaves meanwhile is not waited for.
func TestListenChildDies(t *testing.T) {
	u := newUpstream(t, "legacy-stdio")
	r := startRig(t, u.toml(""), true)
	client := newHTTPTestClient(r)
	client.send("a", listenBody("1", `"toolsListChanged":true`))
	wants(t, client, "a", fmt.Sprintf(ackPattern, "1", `"toolsListChanged":true`))
	client.send("b", listenBody("2", `"toolsListChanged":true`))
	wants(t, client, "b", fmt.Sprintf(ackPattern, "2", `"toolsListChanged":true`))
	silent := make(chan struct{})
	u.on("initialize", func(c *call) { // answers nothing, and dies
		<-silent
		_ = c.out.conn.Close()
	}, u.welcome)
	u.lose()
	testkit.Eventually(t, "another process", func() bool { return len(u.all("initialize")) >= 3 })
	client.leave("b")
	testkit.Eventually(t, "the end of one listen", func() bool { return r.h.Targets.All[0].Listens() <= 1 })
	close(silent)
	wants(t, client, "a", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}`)
	client.leave("a")
	testkit.Eventually(t, "the end of all listens", func() bool { return r.h.Targets.All[0].Listens() == 0 })
}
