package metatools

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

func exchange(t *testing.T, params string) *proxy.Exchange {
	t.Helper()
	m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + params + `}}`))
	if err != nil {
		t.Fatal(err)
	}
	return &proxy.Exchange{Msg: m, Mirrors: true, Headers: []proxy.Header{{Name: "Mcp-Param-X", Value: "1"}}}
}

// TestThrough shows what becomes of calls: what a direct call has besides name and arguments stays.
func TestThrough(t *testing.T) {
	rules := &Rules{Rule: Rule{Mode: Search}}
	for _, c := range []struct{ params, wants, by string }{
		{`"name":"call_tool","arguments":{"name":"a.b","arguments":{"x":[1]}},"task":{"ttl":1},"_meta":{"progressToken":"p"}`, `"name":"a.b","arguments":{"x":[1]},"task":{"ttl":1},"_meta":{"progressToken":"p"}`, Call},
		{`"name":"call_read_only_tool","arguments":{"arguments":{},"name":"a.b"}`, `"name":"a.b","arguments":{}`, CallReadOnly},
		{`"name":"call_tool","arguments":{"name":"\u0061.b"}`, `"name":"\u0061.b","arguments":{}`, Call},
		{`"name":"call_tool","arguments":{"name":"a","arguments":null}`, `"name":"a","arguments":{}`, Call},
		{`"name":"call_tool","arguments":{"name":"a","arguments":""}`, `"name":"a","arguments":{}`, Call},
		{`"name":"call_tool","arguments":{"name":"a","arguments":" {\"x\":\"\\\"\"} "}`, `"name":"a","arguments":{"x":"\""}`, Call},
		{`"name":"call_tool","arguments":{"name":"a","arguments":"{\"x\":1} {}"}`, "", ""},
		{`"name":"call_tool","arguments":{"name":"a","arguments":"[]"}`, "", ""},
		{`"name":"call_tool","arguments":{"name":"a","arguments":7}`, "", ""},
		{`"name":"call_tool","arguments":{"name":"call_tool"}`, "", ""},
		{`"name":"call_tool","arguments":{"name":7}`, "", ""},
		{`"name":"call_tool","arguments":"a"`, "", ""},
		{`"name":"call_tool"`, "", ""},
		{`"name":"find_tools","arguments":{"name":"a"}`, "", ""},
		{`"name":"a.b","arguments":{"name":"a"}`, "", ""},
	} {
		ex := exchange(t, c.params)
		want := c.wants
		if want == "" {
			want = c.params
		}
		handler := Through(func(string) *Rules { return rules })(func(ex *proxy.Exchange) (proxy.Replies, error) {
			got := string(ex.Msg.Raw)
			if got != `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+want+`}}` || ex.Through != c.by || ex.Mirrors != (c.by == "") || (ex.Headers == nil) != (c.by != "") {
				t.Errorf("%s\nbecomes %s by %q, mirrors %t", c.params, got, ex.Through, ex.Mirrors)
			}
			if c.by != "" && string(ex.Msg.Of(ex.Msg.Name)) != strings.TrimPrefix(strings.SplitN(want, ",", 2)[0], `"name":`) {
				t.Errorf("the name is at another place: %s", ex.Msg.Of(ex.Msg.Name))
			}
			return nil, nil
		})
		_, _ = handler(ex)
	}
}

// A client that is listed every tool has no call_tool: the name is that of a server's tool, if anybody's.
func TestThroughForSomeOnly(t *testing.T) {
	for _, rules := range []*Rules{nil, {}, {Some: []Special{{Clients: []string{"other"}, Rule: Rule{Mode: Search}}}}} {
		ex := exchange(t, `"name":"call_tool","arguments":{"name":"a"}`)
		_, _ = Through(func(string) *Rules { return rules })(func(ex *proxy.Exchange) (proxy.Replies, error) {
			if ex.Through != "" || !ex.Msg.At(ex.Msg.Name, Call) {
				t.Errorf("%+v: the call became %s", rules, ex.Msg.Raw)
			}
			return nil, nil
		})(ex)
	}
	ex := exchange(t, `"name":"call_tool","arguments":{"name":"a"}`)
	ex.Msg.Kind = wire.Notification
	_, _ = Through(func(string) *Rules { return &Rules{Rule: Rule{Mode: Search}} })(func(ex *proxy.Exchange) (proxy.Replies, error) {
		if ex.Through != "" {
			t.Error("a notification is a call")
		}
		return nil, nil
	})(ex)
}

func TestRulesFor(t *testing.T) {
	rules := &Rules{Rule: Rule{Mode: Auto, Tools: 1}, Some: []Special{
		{Clients: []string{"cur*", "exact"}, Keys: []string{"ci"}, Rule: Rule{Mode: Search, Tools: 2}},
		{Clients: []string{"cur*"}, Rule: Rule{Mode: Search, Tools: 3}},
		{Keys: []string{"ci"}, Rule: Rule{Mode: All}},
	}}
	for _, c := range []struct {
		client, kind, key string
		want              int
	}{{"cursor", "api_key", "ci", 2}, {"exact", "api_key", "ci", 2}, {"exactly", "api_key", "ci", 0}, {"cursor", "api_key", "other", 3}, {"cursor", "jwt", "ci", 3}, {"cursor", "", "", 3}, {"exact", "", "", 1}, {"", "", "", 1}, {"x", "api_key", "ci", 0}} {
		ex := &proxy.Exchange{}
		if c.client != "" {
			ex.Client.Info = fmt.Appendf(nil, `{"name":%q}`, c.client)
		}
		if c.kind != "" {
			ex.Caller.Rights = &proxy.Rights{Kind: c.kind, Name: c.key}
		}
		got := rules.For(ex)
		if (got == nil) != (c.want == 0) || got != nil && got.Tools != c.want {
			t.Errorf("%+v: %+v", c, got)
		}
	}
	var none *Rules
	if none.For(&proxy.Exchange{}) != nil || none.On() || (&Rules{}).On() || !(&Rules{Rule: Rule{Mode: Auto}}).On() || !(&Rules{Some: []Special{{Rule: Rule{Mode: Search}}}}).On() || (&Rules{Some: []Special{{}}}).On() {
		t.Error("who is offered the meta-tools")
	}
}

func TestRuleLists(t *testing.T) {
	r := Rule{Always: []string{"a.b", "a.c*", "d.e.f"}}
	for name, want := range map[[2]string]bool{{"a", "b"}: true, {"a", "bb"}: false, {"a", "c"}: true, {"a", "cd"}: true, {"b", "b"}: false, {"d", "e.f"}: true, {"d", "e"}: false, {"d.e", "f"}: false} {
		if r.Lists(name[0], name[1]) != want {
			t.Errorf("%v: %t", name, !want)
		}
	}
}

func TestDefinitions(t *testing.T) {
	behind := &Behind{Tools: 1, Servers: []Group{{"a", 1}}}
	all := Definitions(behind)
	if len(all) != 3 {
		t.Fatalf("%d tools", len(all))
	}
	text := fmt.Sprintf("%s", all)
	for _, want := range []string{"Searches the 1 tool of 1 server that", "Servers: a (1)."} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing: %s", want, text)
		}
	}
	if strings.Contains(text, "Categories") || strings.Contains(text, `"category"`) || strings.Contains(text, "taskSupport") {
		t.Errorf("%s", text)
	}
	behind = &Behind{Tools: 100, Tasks: true, ReadOnly: true, Categories: []Group{{"code", 3}}}
	for i := range 50 {
		behind.Servers = append(behind.Servers, Group{fmt.Sprint("s", i), 2})
	}
	all = Definitions(behind)
	text = fmt.Sprintf("%s", all)
	for _, want := range []string{"the 100 tools of 50 servers", "s39 (2) and 10 more.", "Categories: code (3).", `"category":{`, `"taskSupport":"optional"`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing: %s", want, text)
		}
	}
	if strings.Contains(text, "s40") {
		t.Error("more servers are named")
	}
	hints := map[string][2]bool{}
	for _, raw := range all {
		var d struct {
			Name        string
			Annotations struct{ ReadOnlyHint, DestructiveHint bool }
			InputSchema struct{ Required []string }
		}
		if err := json.Unmarshal(raw, &d); err != nil || len(d.InputSchema.Required) != 1 {
			t.Fatalf("%v: %s", err, raw)
		}
		hints[d.Name] = [2]bool{d.Annotations.ReadOnlyHint, d.Annotations.DestructiveHint}
	}
	if fmt.Sprint(hints) != "map[call_read_only_tool:[true false] call_tool:[false true] describe_tools:[true false] find_tools:[true false]]" {
		t.Errorf("%v", hints)
	}
}

func TestParseFind(t *testing.T) {
	for args, want := range map[string]string{
		`{"query":"x"}`: `{x 5   false []}`,
		`{"query":"x","limit":7,"server":"s","category":"c","read_only":true}`: `{x 7 s c true []}`,
		`{"query":"x","limit":70}`: `{x 50   false []}`, `{"query":"x","read_only":false,"limit":null,"server":null}`: `{x 5   false []}`,
		`{"server":"s"}`: `{ 5 s  false []}`, `{"category":"c"}`: `{ 5  c false []}`,
		`{"query":"` + strings.Repeat("ä", 3000) + `"}`: `{` + strings.Repeat("ä", MaxQuery) + ` 5   false []}`,
		`{}`: "query", `{"query":""}`: "query", `{"query":7}`: "query must be a string", `{"query":"x","server":[]}`: "server must be", `{"query":"x","category":{}}`: "category must be",
		`{"query":"x","limit":0}`: "limit", `{"query":"x","limit":1.5}`: "limit", `{"query":"x","limit":"3"}`: "limit", `{"query":"x","read_only":1}`: "read_only", `[]`: "query", `"x"`: "query",
	} {
		q, wrong := ParseFind([]byte(args), wire.Whole([]byte(args)))
		if strings.HasPrefix(want, "{") && (wrong != "" || fmt.Sprint(q) != want) || !strings.HasPrefix(want, "{") && !strings.Contains(wrong, want) {
			t.Errorf("%.80s: %.80v, %q", args, q, wrong)
		}
	}
}

func TestParseDescribe(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat(`"a",`, MaxDescribed), ",")
	for args, want := range map[string]int{`{"names":["a","b"]}`: 2, `{"names":"a"}`: 1, `{"names":[` + many + `]}`: MaxDescribed, `{"names":[` + many + `,"b"]}`: 0, `{"names":[]}`: 0, `{"names":[1]}`: 0, `{"names":{}}`: 0, `{}`: 0, `[]`: 0} {
		ex := exchange(t, `"name":"describe_tools","arguments":`+args)
		names, wrong := ParseDescribe(&ex.Msg)
		if len(names) != want || (wrong == "") != (want > 0) {
			t.Errorf("%s: %v, %q", args, names, wrong)
		}
	}
}

func TestWrong(t *testing.T) {
	for args, want := range map[string]string{`{}`: `must have "name"`, `[]`: `must have "name"`, `{"name":1}`: "must be a string", `{"name":"find_tools"}`: "by itself", `{"name":"a","arguments":1}`: `the tool "a" takes`} {
		ex := exchange(t, `"name":"call_tool","arguments":`+args)
		if got := Wrong(&ex.Msg); !strings.Contains(got, want) {
			t.Errorf("%s: %s", args, got)
		}
	}
}

func TestResult(t *testing.T) {
	raw := []byte(`{"name":"x","title":7,"description":"D","inputSchema":{"type":"object"},"outputSchema":"no","annotations":{"readOnlyHint":true},"_meta":{"secret":1}}`)
	f := Found{Tools: []Tool{{Public: "a.x", Server: "a", Status: "CONNECTED", ReadOnly: true, Raw: raw, Hit: Hit{Server: "a", Name: "x", Score: 1.23456, Why: []string{"name: x"}, Categories: []string{"c"}}}}}
	want := `{"tools":[{"name":"a.x","original_name":"x","source_server":{"name":"a","status":"CONNECTED"},"description":"D","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},` +
		`"categories":["c"],"read_only":true,"score":1.2346,"why":["name: x"]}]}`
	if got := string(f.Result()); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	f = Found{Note: "n", Servers: []Group{{"a", 2}, {"b", 1}}, Categories: []Group{}}
	if got := string(f.Result()); got != `{"tools":[],"note":"n","servers":[{"name":"a","tools":2},{"name":"b","tools":1}],"categories":[]}` {
		t.Errorf("%s", got)
	}
	large := Tool{Raw: []byte(`{"inputSchema":{"x":"` + strings.Repeat("x", schemaBytes) + `"}}`)}
	f = Found{Tools: []Tool{large, large}}
	if got := string(f.Result()); strings.Count(got, "inputSchema") != 1 || strings.Count(got, "schemas_left_out") != 1 || !json.Valid([]byte(got)) {
		t.Errorf("%.200s", got)
	}
	got := string(Described([]Tool{{Public: "p", Raw: raw}}, []Unknown{{"u", []string{"p"}}, {"v", nil}}))
	if !strings.HasSuffix(got, `"unknown":[{"name":"u","nearest":["p"]},{"name":"v","nearest":[]}]}`) || !json.Valid([]byte(got)) {
		t.Errorf("%s", got)
	}
	if got := string(Described(nil, nil)); got != `{"tools":[]}` {
		t.Errorf("%s", got)
	}
	if got := string(Answer([]byte(`{"a":"\""}`))); got != `{"content":[{"type":"text","text":"{\"a\":\"\\\"\"}"}],"structuredContent":{"a":"\""},"isError":false,"resultType":"complete"}` {
		t.Errorf("%s", got)
	}
	if got := string(Refusal(`"no"`)); got != `{"content":[{"type":"text","text":"\"no\""}],"isError":true,"resultType":"complete"}` {
		t.Errorf("%s", got)
	}
}

func TestNames(t *testing.T) {
	for _, name := range Names() {
		if !Is([]byte(name)) {
			t.Errorf("%s is none", name)
		}
	}
	if Is([]byte("find")) || len(Names()) != 4 {
		t.Error("others are")
	}
}

func FuzzThrough(f *testing.F) {
	f.Add(`{"name":"a.b","arguments":{"x":1}}`)
	f.Add(`{"name":"a","arguments":"{\"x\":1}"}`)
	f.Fuzz(func(t *testing.T, args string) {
		m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"call_tool","arguments":` + args + `}}`))
		if err != nil || !m.Arguments.Present() {
			t.Skip()
		}
		ex := &proxy.Exchange{Msg: m}
		through(ex)
		if again, err := wire.Scan(ex.Msg.Raw); err != nil || ex.Through != "" && (Is(again.Text(again.Name)) || !again.Arguments.IsObject(again.Raw)) {
			t.Fatalf("%s becomes %s: %v", args, ex.Msg.Raw, err)
		}
	})
}
