package merge

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"dragoman/adapters/merge/lists"
	"dragoman/adapters/merge/names"
	"dragoman/proxy/wire"
)

// appServer is a server whose tools name resources of apps in each of the ways that hosts read.
func appServer(modern bool) *script {
	s := newScript(modern, `{"tools":{},"resources":{},"extensions":{"io.modelcontextprotocol/ui":{}}}`)
	s.lists(`{"name":"chart","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://chart/view.html","visibility":["app"]},"ui/resourceUri":"ui://chart/view.html"}},`+
		`{"name":"widget","inputSchema":{"type":"object"},"_meta":{"openai/outputTemplate":"ui://widget","ui":{"visibility":["model"]}}},`+
		`{"name":"plain","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":7}}}`,
		`{"uri":"ui://chart/view.html","name":"chart","mimeType":"text/html;profile=mcp-app"}`, "")
	s.set("resources/read", `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","contents":[{"uri":$URI,"mimeType":"text/html;profile=mcp-app","text":"<p>","_meta":`+uiMeta+`}],"ttlMs":0,"cacheScope":"private"}}`)
	s.set("tools/call", `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","content":[],"_meta":{"ui":{"resourceUri":"ui://chart/view.html"},"v/x":1}}}`)
	return s
}

const uiMeta = `{"ui":{"csp":{"connectDomains":["https://x.example"],"resourceDomains":["ui://chart"]},"permissions":{"camera":{}},"domain":"ui://chart/view.html"}}`

// Two members may use one ui:// URI: a host of either era finds for each tool the app of its server.
func TestAppsOfSeveralMembers(t *testing.T) {
	for _, eras := range []string{"modern modern", "legacy legacy", "modern legacy"} {
		t.Run(eras, func(t *testing.T) {
			var servers []*script
			for era := range strings.SplitSeq(eras, " ") {
				servers = append(servers, appServer(era == "modern"))
			}
			r := scriptRig(t, Options{}, servers...)
			for _, s := range servers {
				s.mu.Lock()
				last := s.last["initialize"] + s.last["server/discover"] + s.last["tools/list"]
				s.mu.Unlock()
				has(t, last, `"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}`)
			}
			p := r.newPeer(false)
			modern := func(method, params string) reply { return r.as("", `{}`, method, params) }
			for who, call := range map[string]func(method, params string) reply{"modern": modern, "legacy": p.call} {
				got := call("tools/list", "")
				if got.err != nil || len(got.keysOf("tools", "name")) != 6 {
					t.Fatalf("%s: %v", who, got)
				}
				for _, at := range wire.Items([]byte(got.raw), wire.Path([]byte(got.raw), wire.Whole([]byte(got.raw)), "result", "tools")) {
					checkApp(t, servers, []byte(got.raw), at, call)
				}
			}
		})
	}
}

// checkApp reads the app of a tool as a host does, and calls the tool.
func checkApp(t *testing.T, servers []*script, raw []byte, tool wire.Span, call func(method, params string) reply) {
	t.Helper()
	name := string(wire.Get(raw, tool, "name").Text(raw))
	server, own, _ := strings.Cut(name, ".")
	s := servers[server[0]-'a']
	var uris []string
	plain := map[string]string{"chart": "ui://chart/view.html", "widget": "ui://widget"}[own]
	for _, path := range [][]string{{"ui", "resourceUri"}, {"ui/resourceUri"}, {"openai/outputTemplate"}} {
		if at := wire.Path(raw, wire.Get(raw, tool, "_meta"), path...); at.IsString(raw) {
			uris = append(uris, string(at.Text(raw)))
		}
	}
	if want := map[string]int{"chart": 2, "widget": 1, "plain": 0}[own]; len(uris) != want || slices.ContainsFunc(uris, func(uri string) bool { return uri != uris[0] || !strings.HasPrefix(uri, "ui://") }) {
		t.Fatalf("%s refers to %q", name, uris)
	}
	if own == "chart" {
		has(t, string(tool.Of(raw)), `"visibility":["app"]`)
	}
	for _, uri := range uris[:min(1, len(uris))] {
		got := call("resources/read", `"uri":"`+uri+`"`)
		has(t, s.hears(t, "resources/read"), `"uri":"`+plain+`"`)
		has(t, got.raw, `"contents":[{"uri":"`+uri+`"`, `"_meta":`+uiMeta)
	}
	if own == "chart" {
		got := call("tools/call", `"name":"`+name+`","arguments":{}`)
		has(t, s.hears(t, "tools/call"), `"name":"chart"`)
		has(t, got.raw, `"ui":{"resourceUri":"`+uris[0]+`"}`, `"v/x":1`)
	}
}

// An app calls tools by the names of its server. Of several servers with such a tool it is the one whose app the client has read.
func TestCallsOfApps(t *testing.T) {
	servers := []*script{appServer(false), appServer(true), appServer(false)}
	r := scriptRig(t, Options{}, servers...)
	read := func(p *peer, i int) {
		t.Helper()
		name := string(rune('a' + i))
		uri := r.viewOf(&lists.Client{Caller: p.session.Reader()}).PublicURI(name, "ui://chart/view.html")
		if got := p.call("resources/read", `"uri":"`+uri+`"`); got.err != nil {
			t.Fatal(got)
		}
		servers[i].hears(t, "resources/read")
	}
	const ambiguous = "several servers have chart; name one: a.chart, b.chart, c.chart"
	refused := func(what string, got reply) {
		t.Helper()
		if got.err == nil || !strings.Contains(got.err.Error(), ambiguous) {
			t.Errorf("%s: %v", what, got)
		}
	}
	for i := range servers {
		p := r.newPeer(false)
		refused("before any app", p.call("tools/call", `"name":"chart","arguments":{}`))
		read(p, i)
		if got := p.call("tools/call", `"name":"chart","arguments":{"i":`+fmt.Sprint(i)+`}`); got.err != nil {
			t.Errorf("the app of %d: %v", i, got)
		}
		has(t, servers[i].hears(t, "tools/call"), `"name":"chart","arguments":{"i":`+fmt.Sprint(i)+`}`)
		if got := p.call("tools/call", `"name":"none","arguments":{}`); got.err == nil || !strings.Contains(got.err.Error(), "Tool not found: none") {
			t.Errorf("unknown: %v", got)
		}
		if got := p.call("prompts/get", `"name":"chart"`); got.err == nil || !strings.Contains(got.err.Error(), "Prompt not found: chart") {
			t.Errorf("a prompt: %v", got)
		}
		read(p, (i+1)%3)
		refused("with two apps", p.call("tools/call", `"name":"chart","arguments":{}`))
	}
	refused("without a session", r.as("", `{}`, "tools/call", `"name":"chart","arguments":{}`))
	quiet(t, servers...)
}

// A Dragoman may be a member: its long URIs are not taken for those of this endpoint.
func TestURIsOfAnotherDragoman(t *testing.T) {
	other := newScript(true, `{"resources":{}}`)
	long, app := names.PublicURI("b", "demo://x"), names.PublicURI("b", "ui://x")
	other.lists("", `{"uri":"`+long+`","name":"x"},{"uri":"`+app+`","name":"y"}`, "")
	echo := `{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"complete","contents":[{"uri":$URI,"text":"x"}],"ttlMs":0,"cacheScope":"private"}}`
	other.set("resources/read", echo)
	own := newScript(true, `{"resources":{}}`)
	own.lists("", `{"uri":"demo://x","name":"x"}`, "")
	own.set("resources/read", echo)
	r := scriptRig(t, Options{}, other, own)
	uris := r.call("resources/list", "").keysOf("resources", "uri")
	if len(uris) != 3 || slices.Contains(uris, long) || slices.Contains(uris, app) {
		t.Fatalf("listed %q", uris)
	}
	for i, uri := range []string{long, app} {
		got := r.call("resources/read", `"uri":"`+uris[i]+`"`)
		has(t, other.hears(t, "resources/read"), `"uri":"`+uri+`"`)
		has(t, got.raw, `"uri":"`+uris[i]+`"`)
	}
	if got := r.call("resources/read", `"uri":"`+names.PublicURI("gone", "ui://x")+`"`); got.err == nil || !strings.Contains(got.err.Error(), "Resource not found") {
		t.Errorf("of no server: %v", got)
	}
	quiet(t, other, own)
}
