//go:build unix

package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/goccy/go-json"

	"dragoman/internal/app"
	"dragoman/internal/testkit"
)

// threeServers is a configuration of a modern, a legacy and a dual demonstration server as child processes, and of a group.
func threeServers(t *testing.T) string {
	t.Helper()
	return demoConfig(t, "a", "modern") + demoConfig(t, "b", "legacy") + demoConfig(t, "c", "dual") +
		"[groups.some]\nservers = [\"a\", \"b\"]\ntools = [\"a.echo\", \"b.e*\"]\nprefix = \"conflict\"\nseparator = \"__\"\n"
}

// toolsOf returns the names of a list of tools, sorted.
func toolsOf(t *testing.T, body string) (names []string) {
	t.Helper()
	var got struct {
		Tools  []struct{ Name string }
		Result struct{ Tools []struct{ Name string } }
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	for _, tool := range append(got.Tools, got.Result.Tools...) {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	return names
}

// Several servers are one to every kind of client: all of their tools are listed, and each is called under its name.
func TestSeveralServersAsOne(t *testing.T) {
	t.Parallel()
	r := startRig(t, threeServers(t), true)
	direct := map[string]int{}
	want := 0
	for _, server := range []string{"a", "b", "c"} {
		direct[server] = len(toolsOf(t, r.must("GET", "/servers/"+server+"/tools", "").body))
		want += direct[server]
	}
	judge := func(who string, list string, call func(tool string) string) {
		t.Helper()
		names := toolsOf(t, list)
		each := map[string]int{}
		for _, name := range names {
			server, _, _ := strings.Cut(name, ".")
			each[server]++
		}
		if len(names) != want || fmt.Sprint(each) != fmt.Sprint(direct) {
			t.Errorf("%s: %d tools, %v; the servers have %v", who, len(names), each, direct)
		}
		for server := range direct {
			if got := call(server + ".echo"); !strings.Contains(got, "Echo: hi") {
				t.Errorf("%s: %s.echo: %s", who, server, got)
			}
		}
		if got := call("echo"); !strings.Contains(got, "several servers have echo; name one: a.echo, b.echo, c.echo") {
			t.Errorf("%s: a name that several servers have: %s", who, got)
		}
		if got := call("d.echo"); !strings.Contains(got, "Tool not found: d.echo") {
			t.Errorf("%s: a server that there is not: %s", who, got)
		}
	}
	params := func(tool string) string { return fmt.Sprintf(`"name":%q,"arguments":{"message":"hi"}`, tool) }
	judge("modern", r.must("POST", "/mcp", modernAsk("tools/list", ""), modernHeaders("tools/list", "")...).body, func(tool string) string {
		return r.must("POST", "/mcp", modernAsk("tools/call", params(tool)), modernHeaders("tools/call", tool)...).body
	})
	judge("REST", r.must("GET", "/tools", "").body, func(tool string) string {
		return r.must("POST", "/call-tool", fmt.Sprintf(`{"tool":%q,"arguments":{"message":"hi"}}`, tool), "Content-Type", jsonType).body
	})
	for name, client := range map[string]testClient{"legacy": newHTTPTestClient(r), "HTTP+SSE": newSSEChannelClient(r), "stdio": newPipeClient(t, startStdio(t, threeServers(t)))} {
		client.open("2025-11-25", "{}")
		n := 0
		request := func(method, params string) string {
			n++
			id := fmt.Sprint(n)
			client.send(id, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s}}`, id, method, params))
			return client.receives(id)
		}
		judge(name, request("tools/list", ""), func(tool string) string { return request("tools/call", params(tool)) })
	}
}

// modernAsk returns a request of a modern client; params without braces.
func modernAsk(method, params string) string { return modernBody(1, method, params) }

// A group has some of the servers' tools, under names of its own; nothing else of them is listed or can be called there.
func TestGroupOfServers(t *testing.T) {
	t.Parallel()
	r := startRig(t, threeServers(t), true)
	const base = "/groups/some"
	names := toolsOf(t, r.must("POST", base+"/mcp", modernAsk("tools/list", ""), modernHeaders("tools/list", "")...).body)
	if want := []string{"a__echo", "b__echo"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
	for _, x := range []struct{ tool, wants string }{{"a__echo", "Echo: hi"}, {"b__echo", "Echo: hi"}, {"a__add", "Tool not found"}, {"add", "Tool not found"}, {"c__echo", "Tool not found"}, {"c.echo", "Tool not found"}} {
		body := r.must("POST", base+"/mcp", modernAsk("tools/call", fmt.Sprintf(`"name":%q,"arguments":{"message":"hi","a":1,"b":2}`, x.tool)), modernHeaders("tools/call", x.tool)...).body
		mentions(t, body, x.wants)
	}
	if got := toolsOf(t, r.must("GET", base+"/tools", "").body); !slices.Equal(got, names) {
		t.Errorf("over REST: %v", got)
	}
	res := r.must("GET", base+"/health", "")
	mentions(t, res.body, `"a"`, `"b"`)
	if strings.Contains(res.body, `"c"`) {
		t.Errorf("the health of the group names another server: %s", res.body)
	}
}

// After a restart the first list is complete before any server answers, and says which parts are last known.
func TestListsOutliveDragoman(t *testing.T) {
	t.Parallel()
	toml := fmt.Sprintf("catalogue.path = %q\n", filepath.Join(t.TempDir(), "state", "c.db")) + threeServers(t)
	list := func(r *rig) string {
		return r.must("POST", "/mcp", modernAsk("tools/list", ""), modernHeaders("tools/list", "")...).body
	}
	var before string
	if !t.Run("before", func(t *testing.T) { before = list(startRig(t, toml, true)) }) {
		return
	}
	// The servers cannot be started any more.
	after := list(startDead(t, strings.ReplaceAll(toml, "\"main\"", "\"no such part\"")))
	if got, want := toolsOf(t, after), toolsOf(t, before); !slices.Equal(got, want) {
		t.Errorf("%d tools after a restart, %d before", len(got), len(want))
	}
	mentions(t, after, `"io.dragoman/servers":[`, `"ttlMs":0`)
	if n := strings.Count(after, `"last known"`); n != 3 {
		t.Errorf("%d parts are last known", n)
	}
}

// startDead is startRig for servers that do not answer.
func startDead(t *testing.T, toml string) *rig {
	t.Helper()
	r := startRig(t, toml, false)
	r.h.Targets.ReadLists()
	return r
}

// A member that is lost hides nothing: its part of the lists is the last known one, and says so, the others serve, its calls fail at once,
// and when it is back everything is as before.
func TestMemberIsLostAndBack(t *testing.T) {
	for _, kind := range []string{"modern", "legacy", "sse"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			m, other := newRestartable(t, kind), newUpstream(t, "legacy")
			other.on("tools/list", func(c *call) { c.result(`{"tools":[{"name":"steady","inputSchema":{"type":"object"}}]}`) })
			other.on("tools/call", func(c *call) { c.result(`{"content":[],"by":"other"}`) })
			r := startRig(t, "names.prefix = \"conflict\"\n"+m.toml("")+strings.Replace(other.toml(""), "default", "other", 1), true)
			list := func() string {
				return r.must("POST", "/mcp", modernAsk("tools/list", ""), modernHeaders("tools/list", "")...).body
			}
			tool := func(name string) *response {
				return r.must("POST", "/mcp", modernAsk("tools/call", fmt.Sprintf(`"name":%q,"arguments":{}`, name)), modernHeaders("tools/call", name)...)
			}
			all := []string{"hang", "ok", "steady"}
			status := func() string { return r.h.Targets.Catalogue.Snapshot().Server("default").Status.State }
			if got := toolsOf(t, list()); !slices.Equal(got, all) || tool("ok").status != 200 || tool("steady").status != 200 {
				t.Fatalf("%v", got)
			}
			m.kill()
			testkit.Eventually(t, "the state in the catalogue", func() bool { tool("ok"); return status() == "ERROR" })
			testkit.Eventually(t, "the part is last known", func() bool { return strings.Contains(list(), `"last known"`) })
			body := list()
			mentions(t, body, `"io.dragoman/servers":[{"name":"default","list":"last known"`)
			if got := toolsOf(t, body); !slices.Equal(got, all) {
				t.Errorf("while it is away: %v", got)
			}
			if res := tool("ok"); !strings.Contains(res.body, `\"default\"`) || !strings.Contains(res.body, "upstream_down") {
				t.Errorf("a call at a lost member: %d %s", res.status, res.body)
			}
			if code, e := r.post("/call-tool", `{"tool":"ok","arguments":{}}`); code != 503 || e.Code != "SERVICE_UNAVAILABLE" {
				t.Errorf("over REST: %d %+v", code, e)
			}
			mentions(t, tool("steady").body, `"by":"other"`)
			m.restart()
			testkit.Eventually(t, "it is back", func() bool { return tool("ok").status == 200 && !strings.Contains(list(), "last known") })
			if got := toolsOf(t, list()); !slices.Equal(got, all) || status() != "CONNECTED" {
				t.Errorf("when it is back: %v, %s", got, status())
			}
		})
	}
}

// When the second server comes, /mcp becomes that of both: sessions end, old names resolve while they are unambiguous. When it goes, the
// endpoint is again that of the one that stays. A member that joins two others ends nothing.
func TestMergingBeginsAndEndsAtAReload(t *testing.T) {
	t.Parallel()
	a, b, c := demoConfig(t, "a", "legacy"), demoConfig(t, "b", "modern"), demoConfig(t, "c", "legacy")
	r := startRig(t, a, true)
	id := 0
	call := func(session, tool string) *response {
		id++
		return r.must("POST", "/mcp", legacyBody(id, "tools/call", fmt.Sprintf(`"name":%q,"arguments":{"message":"hi"}`, tool)), legacyHeaders(session)...)
	}
	list := func(session string) (names []string) {
		id++
		return toolsOf(t, r.must("POST", "/mcp", legacyBody(id, "tools/list", ""), legacyHeaders(session)...).body)
	}
	ended := func(session string) {
		t.Helper()
		testkit.Eventually(t, "the session has ended", func() bool { return call(session, "echo").status == 404 })
	}
	alone := r.open("2025-11-25", "{}")
	mentions(t, call(alone, "echo").body, "Echo: hi")
	r.reload(app.ReloadApplied, a+b)
	ended(alone)
	readLists(t, r.h)
	both := r.open("2025-11-25", "{}")
	if names := list(both); !slices.Contains(names, "a.echo") || !slices.Contains(names, "b.echo") {
		t.Errorf("%v", names)
	}
	mentions(t, call(both, "a.echo").body, "Echo: hi")
	mentions(t, call(both, "echo").body, "several servers have echo; name one: a.echo, b.echo")
	r.reload(app.ReloadApplied, a+b+c)
	readLists(t, r.h)
	if names := list(both); !slices.Contains(names, "c.echo") {
		t.Errorf("with a third: %v", names)
	}
	mentions(t, call(both, "c.echo").body, "Echo: hi")
	r.reload(app.ReloadApplied, a+c)
	if res := call(both, "b.echo"); !strings.Contains(res.body, "Tool not found: b.echo") {
		t.Errorf("a server that is gone: %d %s", res.status, res.body)
	}
	mentions(t, call(both, "a.echo").body, "Echo: hi")
	r.reload(app.ReloadApplied, c)
	ended(both)
	again := r.open("2025-11-25", "{}")
	if names := list(again); slices.Contains(names, "c.echo") || !slices.Contains(names, "echo") {
		t.Errorf("one again: %v", names)
	}
	r.reload(app.ReloadApplied, "merge = \"always\"\n"+c)
	ended(again)
	readLists(t, r.h)
	one := r.open("2025-11-25", "{}")
	mentions(t, call(one, "echo").body, "Echo: hi") // an old name
	mentions(t, call(one, "c.echo").body, "Echo: hi")
}

// What a caller may use at a member is what the member's own rules allow: scopes, grants and renames hold at the endpoint of all, for clients of
// both eras, and a refusal names the path of that endpoint. Calls are counted under the server's own name of the tool.
func TestRightsAtSeveralServers(t *testing.T) {
	t.Parallel()
	keys, key := keysToml("ann", "bob")
	keys = "security.api_keys_enabled = true\n" + keys
	toml := keys + strings.Replace(demoConfig(t, "a", "modern"), "stop_grace", "access.ann = { deny_tools = [\"add\"] }\ntools.echo.rename = \"say\"\nstop_grace", 1) +
		strings.Replace(demoConfig(t, "b", "legacy"), "stop_grace", "scopes = { \"tool:add\" = [\"sums\"] }\nstop_grace", 1)
	r := startRig(t, toml, true)
	ann, bob := r.as(key["ann"]), r.as(key["bob"])
	listed := func(r *rig) (names []string) {
		return toolsOf(t, r.must("POST", "/mcp", modernAsk("tools/list", ""), modernHeaders("tools/list", "")...).body)
	}
	if names := listed(ann); slices.Contains(names, "a.add") || !slices.Contains(names, "a.say") || slices.Contains(names, "a.echo") {
		t.Errorf("ann sees %v", names)
	}
	if names := listed(bob); !slices.Contains(names, "a.add") || !slices.Contains(names, "a.say") {
		t.Errorf("bob sees %v", names)
	}
	for _, who := range []*rig{ann, bob} {
		session := who.open("2025-11-25", "{}")
		id := 10
		for _, x := range []struct{ tool, ann, bob string }{
			{"a.say", "Echo: hi", "Echo: hi"}, {"a.echo", "Tool not found", "Tool not found"}, {"say", "Echo: hi", "Echo: hi"},
			{"a.add", "Tool not found", `"sum":3`}, {"b.add", "needs the scopes sums", "needs the scopes sums"}, {"b.echo", "Echo: hi", "Echo: hi"},
		} {
			id++
			params := fmt.Sprintf(`"name":%q,"arguments":{"message":"hi","a":1,"b":2}`, x.tool)
			want := map[*rig]string{ann: x.ann, bob: x.bob}[who]
			mentions(t, who.must("POST", "/mcp", modernBody(id, "tools/call", params), modernHeaders("tools/call", x.tool)...).body, want)
			mentions(t, who.must("POST", "/mcp", legacyBody(id, "tools/call", params), legacyHeaders(session)...).body, want)
		}
	}
	if n := r.sum("dragoman_tool_calls_total", "server", "b", "tool", "echo"); n != 4 {
		t.Errorf("%v calls of echo at b", n)
	}
}

// While one member is killed, one answers nothing, one is slow, and one lies, every call at the others is answered as ever, lists stay whole,
// and each failure names its server.
func TestBadMembersDisturbNoOthers(t *testing.T) {
	t.Parallel()
	named := func(u *upstream, name string) string { return strings.Replace(u.toml(""), "default", name, 1) }
	killed := newRestartable(t, "legacy")
	mute, slow, liar, good, old := newUpstream(t, "modern"), newUpstream(t, "legacy"), newUpstream(t, "modern"), newUpstream(t, "modern"), newUpstream(t, "legacy")
	for u, tool := range map[*upstream]string{mute: "hush", slow: "crawl", good: "fine", old: "aged"} {
		u.on("tools/list", func(c *call) {
			c.result(`{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"` + tool + `","inputSchema":{"type":"object"}}]}`)
		})
		u.on("tools/call", func(c *call) { c.result(`{"resultType":"complete","content":[],"by":"` + tool + `"}`) })
	}
	for _, u := range []*upstream{killed.upstream, mute, slow, liar, good, old} {
		for _, method := range []string{"prompts/list", "resources/list", "resources/templates/list", "subscriptions/listen"} {
			u.on(method, func(c *call) { c.error(200, `{"code":-32601,"message":"no"}`) })
		}
	}
	var pages atomic.Int64
	liar.on("tools/list", func(c *call) {
		pages.Add(1)
		c.result(`{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":7},{"inputSchema":[]},"no",{"name":"lie","inputSchema":{"type":"object"}}],"nextCursor":"again"}`)
	})
	liar.on("tools/call", func(c *call) { c.raw(200, jsonType, `{"jsonrpc":"2.0","id":$ID,"result":{]`) })
	r := startRig(t, "tool_timeout = 1\nnames.prefix = \"conflict\"\n"+named(killed.upstream, "killed")+named(mute, "mute")+named(slow, "slow")+named(liar, "liar")+named(good, "good")+named(old, "old"), true)
	release := make(chan struct{})
	mute.on("tools/call", func(c *call) { <-release })
	slow.on("tools/call", func(c *call) { <-release; c.result(`{"content":[],"by":"crawl"}`) })
	ask := func(tool string) string {
		return r.must("POST", "/mcp", modernAsk("tools/call", fmt.Sprintf(`"name":%q,"arguments":{}`, tool)), modernHeaders("tools/call", tool)...).body
	}
	stop := make(chan struct{})
	var bad, steady sync.WaitGroup
	for _, tool := range []string{"hush", "crawl", "lie", "ok"} {
		bad.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if body := ask(tool); tool != "ok" && tool != "crawl" && !strings.Contains(body, `"error"`) {
					t.Errorf("%s: %s", tool, body)
					return
				}
			}
		})
	}
	killed.kill()
	for _, tool := range []string{"fine", "aged"} {
		steady.Go(func() {
			for range 200 {
				if body := ask(tool); !strings.Contains(body, `"by":"`+tool+`"`) {
					t.Errorf("%s: %s", tool, body)
					return
				}
			}
		})
	}
	for range 50 {
		if got, want := toolsOf(t, r.must("GET", "/tools", "").body), []string{"aged", "crawl", "fine", "hang", "hush", "lie", "ok"}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
			break
		}
	}
	steady.Wait()
	close(stop)
	close(release)
	bad.Wait()
	mentions(t, ask("ok"), "killed")
	if n := pages.Load(); n > 20 {
		t.Errorf("the list without end was read %d times", n)
	}
}
