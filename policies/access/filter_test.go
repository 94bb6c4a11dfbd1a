package access

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/policies/internal/policytest"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// through sends a request through a policy to a server that answers with reply, and returns what the server and the client received.
func through(t *testing.T, p proxy.Policy, who, request, reply string) (seen, got string, err error) {
	t.Helper()
	handle := p(func(ex *proxy.Exchange) (proxy.Replies, error) {
		seen = string(ex.Msg.Append(nil))
		return proxy.Reply(policytest.Scan(t, reply)), nil
	})
	replies, err := handle(&proxy.Exchange{Msg: policytest.Scan(t, request), Caller: proxy.Caller{Principal: who}, Client: proxy.Client{Era: proxy.Modern}})
	if err != nil {
		return seen, "", err
	}
	m, err := replies.Next(time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	got = string(m.Append(nil))
	if _, err := wire.Scan([]byte(got)); err != nil {
		t.Fatalf("%s: %v", got, err)
	}
	return seen, got, replies.Close()
}

func newAccess(t *testing.T, opt FilterOptions) proxy.Policy {
	t.Helper()
	metric, err := NewFilterMetric(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	opt.Server = "up"
	return NewFilter(opt, metric).Policy()
}

const (
	toolList = `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"read","inputSchema":{}},{"inputSchema":{},"name":"write"},{"name":"re\u0061d_all","_meta":{"a":1}}],"ttlMs":5,"cacheScope":"public","nextCursor":"c"}}`
	listAll  = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	okResult = `{"jsonrpc":"2.0","id":1,"result":{}}`
)

func TestAccessHidesAndRefuses(t *testing.T) {
	p := newAccess(t, FilterOptions{Grants: map[string]Grant{
		"*":   {Tools: Names{Allow: []string{"read*"}}},
		"ann": {Tools: Names{Deny: []string{"read"}}, Prompts: Names{Allow: []string{"p"}}, Resources: Names{Allow: []string{"file:///srv/*"}, Deny: []string{"file:///srv/secret*"}}},
	}})
	for who, want := range map[string]string{"": "read re\\u0061d_all", "bob": "read re\\u0061d_all", "ann": "write re\\u0061d_all"} {
		_, got, err := through(t, p, who, listAll, toolList)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{`"read"`, `"write"`, `"re\u0061d_all"`} {
			if strings.Contains(got, name) != strings.Contains(" "+want+" ", " "+strings.Trim(name, `"`)+" ") {
				t.Errorf("%q sees %s, want %s", who, got, want)
			}
		}
		if !strings.Contains(got, `"cacheScope":"private"`) || !strings.Contains(got, `"nextCursor":"c"`) {
			t.Errorf("a filtered result may not be shared: %s", got)
		}
	}
	read := func(uri string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"` + uri + `"}}`
	}
	for _, c := range []struct{ who, request, fails string }{
		{"ann", policytest.CallOf("write"), ""},
		{"ann", policytest.CallOf("read"), "tool_not_found: Tool not found: read"},
		{"bob", policytest.CallOf("read"), ""},
		{"", policytest.CallOf("write"), "Tool not found: write"},
		{"ann", read("file:///srv/a"), ""},
		{"ann", read("file:///srv/secret/a"), "Resource not found: file:///srv/secret/a"},
		{"ann", read("file:///etc/passwd"), "Resource not found"},
		{"bob", read("file:///etc/passwd"), ""},
		{"ann", `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"q"}}`, "Prompt not found: q"},
		{"ann", `{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"q"},"argument":{}}}`, "Prompt not found: q"},
		{"ann", `{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/resource","uri":"b:c"},"argument":{}}}`, "Resource not found: b:c"},
		{"ann", `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"b:c"}}`, "Resource not found: b:c"},
		{"ann", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, ""},
	} {
		seen, _, err := through(t, p, c.who, c.request, okResult)
		if c.fails == "" && err != nil || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails) || seen != "") {
			t.Errorf("%s, %s: the server saw %q, %v; want %q", c.who, c.request, seen, err, c.fails)
		}
	}
	seen, _, err := through(t, p, "ann", `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["file:///srv/a","b:c"]}}}`, okResult)
	if err != nil || !strings.Contains(seen, `"resourceSubscriptions":["file:///srv/a"]`) || !strings.Contains(seen, `"toolsListChanged":true`) {
		t.Errorf("a listen: %s, %v", seen, err)
	}
}

func TestAccessErrorsAreTheEras(t *testing.T) {
	p := newAccess(t, FilterOptions{Grants: map[string]Grant{"*": {Resources: Names{Deny: []string{"*"}}}}})
	for era, code := range map[proxy.Era]int{proxy.Legacy: -32002, proxy.Modern: -32602} {
		_, err := p(func(*proxy.Exchange) (proxy.Replies, error) { return nil, nil })(&proxy.Exchange{Msg: policytest.Scan(t, `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a:\"b"}}`), Client: proxy.Client{Era: era}})
		var e *proxy.Error
		if !errors.As(err, &e) || e.Code != code || string(e.Data) != `{"uri":"a:\"b"}` {
			t.Errorf("%v: %+v", era, err)
		}
	}
}

func TestAccessDisablesAndVersions(t *testing.T) {
	opt := FilterOptions{Versions: map[string]string{"read*": "1.2.3"}}
	opt.Disabled.Tools = []string{"write"}
	p := newAccess(t, opt)
	_, got, err := through(t, p, "", listAll, toolList)
	want := `"tools":[{"name":"read","inputSchema":{},"_meta":{"io.dragoman/version":"1.2.3"}},{"name":"re\u0061d_all","_meta":{"io.dragoman/version":"1.2.3","a":1}}],"ttlMs":5,"cacheScope":"public"`
	if err != nil || !strings.Contains(got, want) {
		t.Errorf("%s\nwant %s", got, want)
	}
	if _, _, err := through(t, p, "", policytest.CallOf("write"), okResult); err == nil {
		t.Error("a disabled tool was called")
	}
}

func TestAccessRenames(t *testing.T) {
	p := newAccess(t, FilterOptions{Renamed: Renames{Tools: map[string]string{"read": "lese", "read_*": "lies_*"}, Prompts: map[string]string{"p": "q"},
		Resources: map[string]string{"file:///srv/*": "doc:///*", "a:b": "c:d"}}})
	for _, c := range []struct{ name, request, seen, reply, got string }{
		{"a tool", policytest.CallOf("lese"), policytest.CallOf("read"), okResult, okResult},
		{"by its beginning", policytest.CallOf("lies_all"), policytest.CallOf("read_all"), okResult, okResult},
		{"another", policytest.CallOf("write"), policytest.CallOf("write"), okResult, okResult},
		{"a prompt", `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"q"}}`, `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"p"}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"file:///srv/a/b"}}}]}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"doc:///a/b"}}}]}}`},
		{"completion", `{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"q"}}}`,
			`{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"p"}}}`, okResult, okResult},
		{"a resource", `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"doc:///a"}}`, `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///srv/a"}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"contents":[{"uri":"file:///srv/a","text":"uri file:///srv/a"},{"uri":"x:y"}]}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"contents":[{"uri":"doc:///a","text":"uri file:///srv/a"},{"uri":"x:y"}]}}`},
		{"an error", `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"c:d"}}`, `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"a:b"}}`,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no","data":{"uri":"a:b"}}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no","data":{"uri":"c:d"}}}`},
		{"links", policytest.CallOf("t"), policytest.CallOf("t"),
			`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"resource_link","uri":"a:b"},{"type":"text","text":"a:b","uri":"a:b"}],"structuredContent":{"uri":"a:b"}}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"resource_link","uri":"c:d"},{"type":"text","text":"a:b","uri":"a:b"}],"structuredContent":{"uri":"a:b"}}}`},
		{"lists", `{"jsonrpc":"2.0","id":1,"method":"resources/list"}`, `{"jsonrpc":"2.0","id":1,"method":"resources/list"}`,
			`{"jsonrpc":"2.0","id":1,"result":{"resources":[{"uri":"a:b","name":"a:b"},{"uri":"file:///srv/"}]}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"resources":[{"uri":"c:d","name":"a:b"},{"uri":"doc:///"}]}}`},
		{"templates", `{"jsonrpc":"2.0","id":1,"method":"resources/templates/list"}`, `{"jsonrpc":"2.0","id":1,"method":"resources/templates/list"}`,
			`{"jsonrpc":"2.0","id":1,"result":{"resourceTemplates":[{"uriTemplate":"file:///srv/{x}"}]}}`, `{"jsonrpc":"2.0","id":1,"result":{"resourceTemplates":[{"uriTemplate":"doc:///{x}"}]}}`},
		{"tools", listAll, listAll, toolList, strings.NewReplacer(`"name":"read"`, `"name":"lese"`, `"name":"re\u0061d_all"`, `"name":"lies_all"`).Replace(toolList)},
	} {
		seen, got, err := through(t, p, "", c.request, c.reply)
		if err != nil || seen != c.seen || got != c.got {
			t.Errorf("%s: %v\nthe server saw %s\nwant           %s\nthe client got %s\nwant           %s", c.name, err, seen, c.seen, got, c.got)
		}
	}
	for _, hidden := range []string{"read", "read_all"} {
		if _, _, err := through(t, p, "", policytest.CallOf(hidden), okResult); err == nil {
			t.Errorf("%s was found by its old name", hidden)
		}
	}
	if newAccess(t, FilterOptions{}) != nil {
		t.Error("there is a policy without settings")
	}
}
