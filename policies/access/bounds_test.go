package access

import (
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"dragoman/policies/internal/policytest"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// A Host that is served does not open the gate to another one.
func TestOriginJudgesEachHost(t *testing.T) {
	gate := Origin(OriginOptions{Loopback: true})
	for range 2 {
		for host, served := range map[string]bool{"localhost:8080": true, "127.0.0.1:8080": true, "evil.example:8080": false} {
			if err := gate(headOf(t, "Host: "+host)); (err == nil) != served {
				t.Errorf("%s: %v", host, err)
			}
		}
	}
}

// A filter is there for any one setting, of any kind.
func TestFilterOfOneSetting(t *testing.T) {
	one, other := []string{"a"}, []string{"b"}
	for name, set := range map[string]func(o *FilterOptions){
		"disabled tools":                 func(o *FilterOptions) { o.Disabled.Tools = one },
		"disabled prompts":               func(o *FilterOptions) { o.Disabled.Prompts = one },
		"disabled resources":             func(o *FilterOptions) { o.Disabled.Resources = one },
		"disabled tools and prompts":     func(o *FilterOptions) { o.Disabled.Tools, o.Disabled.Prompts = one, other },
		"disabled tools and resources":   func(o *FilterOptions) { o.Disabled.Tools, o.Disabled.Resources = one, other },
		"disabled prompts and resources": func(o *FilterOptions) { o.Disabled.Prompts, o.Disabled.Resources = one, other },
		"versions":                       func(o *FilterOptions) { o.Versions = map[string]string{"a": "1"} },
		"renamed tools and prompts": func(o *FilterOptions) {
			o.Renamed = Renames{Tools: map[string]string{"a": "b"}, Prompts: map[string]string{"a": "b"}}
		},
		"renamed tools and resources": func(o *FilterOptions) {
			o.Renamed = Renames{Tools: map[string]string{"a": "b"}, Resources: map[string]string{"a:b": "c:d"}}
		},
	} {
		var opt FilterOptions
		set(&opt)
		if newAccess(t, opt) == nil {
			t.Errorf("%s: there is no filter", name)
		}
	}
}

// A renamed resource is not found by its old name, in any spelling; a tool of that name is.
func TestRenamedResourceByItsOldName(t *testing.T) {
	p := newAccess(t, FilterOptions{Renamed: Renames{Tools: map[string]string{"x": "y"}, Resources: map[string]string{"a:b": "c:d"}}})
	for _, uri := range []string{"a:b", "A:%62"} {
		if seen, _, err := through(t, p, "", `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"`+uri+`"}}`, okResult); err == nil || !strings.Contains(err.Error(), "Resource not found: "+uri) {
			t.Errorf("%s: the server saw %s, %v", uri, seen, err)
		}
	}
	if seen, _, err := through(t, p, "", policytest.CallOf("a:b"), okResult); err != nil || seen != policytest.CallOf("a:b") {
		t.Errorf("a tool: %s, %v", seen, err)
	}
}

// A result that depends on the principal is kept apart; one that is the same for all stays public.
func TestCacheScopeOfFilteredResults(t *testing.T) {
	const read = `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a:b"}}`
	const public = `{"jsonrpc":"2.0","id":1,"result":{"contents":[],"cacheScope":"public"}}`
	everyone := map[string]Grant{"*": {Tools: Names{Allow: []string{"read*"}}}}
	some := map[string]Grant{"ann": {Tools: Names{Allow: []string{"read*"}}}}
	for _, c := range []struct {
		name, request, reply string
		grants               map[string]Grant
		want                 string
	}{
		{"a list for everyone", listAll, toolList, everyone, "public"},
		{"a list for some", listAll, toolList, some, "private"},
		{"a resource for everyone", read, public, everyone, "public"},
		{"a resource for some", read, public, some, "private"},
		{"a call for some", policytest.CallOf("read"), public, some, "public"},
	} {
		if _, got, err := through(t, newAccess(t, FilterOptions{Grants: c.grants}), "ann", c.request, c.reply); err != nil || !strings.Contains(got, `"cacheScope":"`+c.want+`"`) {
			t.Errorf("%s: %s, %v", c.name, got, err)
		}
	}
}

// A reply that another policy has changed is filtered as it will be sent.
func TestFilterOfAChangedReply(t *testing.T) {
	opt := FilterOptions{}
	opt.Disabled.Tools = []string{"hidden"}
	m := policytest.Scan(t, `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"shown"},{"name":"fine"}]}}`)
	for i, tool := range wire.Items(m.Raw, wire.Get(m.Raw, m.Result, "tools")) {
		if i == 0 {
			m.Replace(wire.Get(m.Raw, tool, "name"), []byte(`"hidden"`))
		}
	}
	replies, err := newAccess(t, opt)(func(*proxy.Exchange) (proxy.Replies, error) { return proxy.Reply(m), nil })(policytest.Request(t, listAll))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := replies.Next(time.Time{}); err != nil || string(got.Append(nil)) != `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"fine"}]}}` {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := replies.Next(time.Time{}); err != io.EOF {
		t.Errorf("%v", err)
	}
}

// The URI of an unknown resource is told as data, unless it is long.
func TestUnknownResourceIsEchoed(t *testing.T) {
	for size, echoed := range map[int]bool{10: true, maxEchoed: true, maxEchoed + 1: false} {
		err := proxy.AsError(unknown(&proxy.Exchange{}, resourceThing, []byte(strings.Repeat("u", size))))
		if (len(err.Data) > 0) != echoed {
			t.Errorf("%d bytes: %d bytes of data", size, len(err.Data))
		}
	}
}

// A tool gets the version of its contract beside what its _meta has.
func TestVersionedTools(t *testing.T) {
	for in, want := range map[string]string{
		`{}`: `{"_meta":{"io.dragoman/version":"1"}}`, `{ }`: `{ "_meta":{"io.dragoman/version":"1"}}`,
		`{"a":1}`:             `{"a":1,"_meta":{"io.dragoman/version":"1"}}`,
		`{"_meta":{},"a":1}`:  `{"_meta":{"io.dragoman/version":"1"},"a":1}`,
		`{"_meta":{ },"a":1}`: `{"_meta":{"io.dragoman/version":"1" },"a":1}`,
		`{"_meta":{"b":2}}`:   `{"_meta":{"io.dragoman/version":"1","b":2}}`,
	} {
		if got := string(versioned([]byte(in), "1")); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// An anonymous caller is asked for a credential, another one for more scopes, and both at the endpoint that they have used.
func TestScopeRefusals(t *testing.T) {
	for _, c := range []struct {
		kind, server, path string
		row                proxy.Fault
		text               string
	}{
		{"anonymous", "", "/mcp", proxy.Unauthenticated, "show a credential"},
		{"jwt", "", "/mcp", proxy.InsufficientScope, "what was shown has not all of them"},
		{"jwt", "up", "/servers/up/mcp", proxy.InsufficientScope, "the scopes write"},
	} {
		at := ""
		scopes, err := Scopes(ScopeOptions{Rules: map[string][]ScopeRule{"up": {{"tool:t", []string{"write"}}}}, Only: "up", Metrics: prometheus.NewRegistry(),
			Challenge: func(_ *proxy.Error, path string, _ []string) string { at = path; return "Bearer x" }})
		if err != nil {
			t.Fatal(err)
		}
		ex := policytest.Request(t, policytest.Call)
		ex.Server, ex.Caller.Rights = c.server, &proxy.Rights{Kind: c.kind}
		_, failed := scopes.Policy()(func(*proxy.Exchange) (proxy.Replies, error) { return nil, nil })(ex)
		if e := proxy.AsError(failed); !proxy.IsFault(failed, c.row) || !strings.Contains(e.Message, c.text) || e.Challenge != "Bearer x" || at != c.path {
			t.Errorf("%+v: %v at %s", c, failed, at)
		}
	}
}

// What is no string is refused by the name of its member.
func TestNamesAreStrings(t *testing.T) {
	opt := FilterOptions{}
	opt.Disabled.Tools, opt.Disabled.Resources = []string{"a"}, []string{"a:b"}
	p := newAccess(t, opt)
	for request, member := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":["a"]}}`:      `"name"`,
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":["a:b"]}}`: `"uri"`,
	} {
		if _, _, err := through(t, p, "", request, okResult); err == nil || !strings.Contains(err.Error(), "the member "+member+" must be a string") {
			t.Errorf("%s: %v", request, err)
		}
	}
}

// The headers that go on to servers are bounded together.
func TestForwardedHeadersAreBounded(t *testing.T) {
	gate, err := ForwardHeaders(ForwardOptions{Names: []string{"a", "b"}, Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	for size, fits := range map[int]bool{maxCarried: true, maxCarried + 1: false} {
		var fields fasthttp.RequestHeader
		fields.Add("a", strings.Repeat("x", size-10))
		fields.Add("b", strings.Repeat("x", 10))
		if err := gate(&proxy.Head{Fields: &fields}); (err == nil) != fits || err != nil && !proxy.IsFault(err, proxy.HeadTooLarge) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// Without a configured key nobody can compute whom headers stand for: each process has a key of its own.
func TestForwardedHeadersWithoutAKey(t *testing.T) {
	seen := map[string]bool{}
	for range 2 {
		gate, err := ForwardHeaders(ForwardOptions{Names: []string{"a"}, Metrics: prometheus.NewRegistry()})
		if err != nil {
			t.Fatal(err)
		}
		h := headOf(t, "A: x")
		if err := gate(h); err != nil {
			t.Fatal(err)
		}
		seen[h.Caller.Principal] = true
	}
	if len(seen) != 2 {
		t.Errorf("two processes name the caller %v", seen)
	}
}

// All names of a server can have a beginning of their own.
func TestRenamesOfAll(t *testing.T) {
	p := newAccess(t, FilterOptions{Renamed: Renames{Tools: map[string]string{"*": "my_*"}}})
	seen, got, err := through(t, p, "", policytest.CallOf("my_read"), okResult)
	if err != nil || seen != policytest.CallOf("read") {
		t.Errorf("%s, %s, %v", seen, got, err)
	}
	if _, got, err := through(t, p, "", listAll, toolList); err != nil || !strings.Contains(got, `"name":"my_read"`) {
		t.Errorf("%s, %v", got, err)
	}
}

// A preflight is told the parameters that it asks for, if they are named and the list is not long.
func TestAskedParams(t *testing.T) {
	long := "mcp-param-" + strings.Repeat("x", maxAsked-len("mcp-param-"))
	for asked, want := range map[string]string{"": "", "Mcp-Param-": "", "Mcp-Param-a": ", Mcp-Param-a", "x, mcp-param-a ,MCP-PARAM-b": ", mcp-param-a, MCP-PARAM-b",
		"mcp-param-a b": "", "mcp-paramXa": "", long: ", " + long, long + "x": ""} {
		if got := askedParams([]byte(asked)); got != want {
			t.Errorf("%.40q: %.60q", asked, got)
		}
	}
	if got := quotable(" ~\x7f\x1f"); got != " ~" {
		t.Errorf("%q", got)
	}
}

// A trusted proxy that names neither host nor scheme leaves those of the connection.
func TestTrustedProxyLeavesTheRest(t *testing.T) {
	gate := TrustProxies([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, "")
	for _, c := range []struct {
		lines   []string
		host    string
		secure  bool
		address string
	}{
		{nil, "inner", true, "10.0.0.1"},
		{[]string{"X-Forwarded-Host: a, outer"}, "outer", true, "10.0.0.1"},
		{[]string{"X-Forwarded-Proto: http"}, "inner", false, "10.0.0.1"},
		{[]string{"X-Forwarded-Host: ", "X-Forwarded-Proto: "}, "inner", true, "10.0.0.1"},
		{[]string{"X-Forwarded-For: ,10.0.0.2"}, "inner", true, "10.0.0.2"},
		{[]string{"X-Forwarded-For: 192.0.2.1,10.0.0.2"}, "inner", true, "192.0.2.1"},
	} {
		h := headOf(t, append([]string{"Host: inner"}, c.lines...)...)
		h.Address, h.Secure = netip.MustParseAddr("10.0.0.1"), true
		if err := gate(h); err != nil || string(h.Host) != c.host || h.Secure != c.secure || h.Address.String() != c.address {
			t.Errorf("%q: %s, secure %v, %s, %v", c.lines, h.Host, h.Secure, h.Address, err)
		}
	}
}
