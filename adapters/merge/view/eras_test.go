package view

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/merge/names"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// describedAs returns what is seen of servers with the given capabilities by "name era".
func describedAs(t *testing.T, caps map[string]string, members ...Member) (*View, *catalogue.Catalogue) {
	t.Helper()
	c, err := catalogue.Open(t.Context(), catalogue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	kept := map[string]catalogue.Kept{}
	for text := range caps {
		name, _, _ := strings.Cut(text, " ")
		kept[name] = catalogue.Kept{Transport: "HTTP"}
	}
	c.Keep(kept)
	for text, caps := range caps {
		name, era, _ := strings.Cut(text, " ")
		revision := rules.LegacyVersion
		if era == "modern" {
			revision = rules.ModernVersion
		}
		c.Describe(name, catalogue.Description{Revision: revision, Capabilities: []byte(caps)})
		if !slices.ContainsFunc(members, func(m Member) bool { return m.Name == name }) && name != "other" {
			members = append(members, Member{Name: name})
		}
	}
	return NewMaker(Options{Members: members}).Of(c.Snapshot(), proxy.Caller{}), c
}

// Clients of each era are offered what servers of theirs offer, and what crosses.
func TestCapabilitiesOfTheEras(t *testing.T) {
	v, _ := describedAs(t, map[string]string{
		"a modern":     `{"tools":{"listChanged":false},"extensions":{"io.modelcontextprotocol/tasks":{},"v/x":{"a":1}}}`,
		"b legacy":     `{"tools":{"listChanged":true},"tasks":{"list":{}},"extensions":{"v/x":{"a":2,"b":false}}}`,
		"c modern":     ``,
		"other legacy": `{"prompts":{},"tasks":{"cancel":{}}}`,
	})
	for version, want := range map[string]string{
		"":                    `{"tools":{"listChanged":true},"extensions":{"io.modelcontextprotocol/tasks":{},"v/x":{"a":1,"b":false}}}`,
		rules.LegacyVersion:   `{"tools":{"listChanged":true},"extensions":{"v/x":{"a":1,"b":false}},"tasks":{"list":{}}}`,
		rules.Version20250618: `{"tools":{"listChanged":true},"extensions":{"v/x":{"a":1,"b":false}}}`,
	} {
		if got := string(v.Capabilities(version)); got != want {
			t.Errorf("for %q: %s, want %s", version, got, want)
		}
		tasks := map[string]string{rules.LegacyVersion: "[b]"}[version]
		if tasks == "" {
			tasks = "[]"
		}
		if got := fmt.Sprint(v.Offer(version, "tasks")); got != tasks {
			t.Errorf("tasks are offered to %q by %s", version, got)
		}
	}
	if got := fmt.Sprint(v.Offer("", "extensions", "io.modelcontextprotocol/tasks")); got != "[a]" {
		t.Errorf("the extension is offered by %s", got)
	}
}

// Of what is nested deeper than a capability may reasonably be the first counts.
func TestUnionIsBounded(t *testing.T) {
	nested := func(depth int, leaf string) []byte {
		return []byte(strings.Repeat(`{"a":`, depth) + leaf + strings.Repeat("}", depth))
	}
	for depth, joined := range map[int]bool{maxUnion - 1: true, maxUnion: true, maxUnion + 1: false} {
		got := string(union(nested(depth, `{"x":1}`), nested(depth, `{"y":2}`), 0, false))
		if want := string(nested(depth, `{"x":1,"y":2}`)); (got == want) != joined {
			t.Errorf("at %d: %s", depth, got)
		}
	}
	if got := string(union([]byte(`{"a":{"tools":{"b":false}}}`), []byte(`{"a":{"tools":{"b":true}}}`), 0, false)); got != `{"a":{"tools":{"b":false}}}` {
		t.Errorf("tools in something else: %s", got)
	}
	if got := string(union([]byte(`{"tools":{"a":{"b":false}}}`), []byte(`{"tools":{"a":{"b":true}}}`), 0, false)); got != `{"tools":{"a":{"b":true}}}` {
		t.Errorf("within tools: %s", got)
	}
}

func message(t *testing.T, method, params string) *wire.Message {
	t.Helper()
	m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `}}`))
	if err != nil {
		t.Fatal(err)
	}
	return &m
}

// What is none of the protocol is for the server that is named, else for the only one that has such a thing.
func TestBeyond(t *testing.T) {
	const none, one = `{"tools":{},"prompts":{},"resources":{},"completions":{},"logging":{},"tasks":{},"extensions":{"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/ui":{}},"experimental":{}}`, `{"extensions":{"v/x":{}}}`
	for _, test := range []struct {
		a, b, other, meta, want string
	}{
		{none, none, "{}", "", ""},
		{none, one, "{}", "", "b"},
		{one, none, "{}", "", "a"},
		{one, one, "{}", "", ""},
		{one, none, one, "", "a"}, // other is no member
		{none, `{"experimental":{"x":{}}}`, "{}", "", "b"},
		{`{"new":{}}`, none, "{}", "", "a"},
		{`{"tools":{"x":1}}`, none, "{}", "", ""},
		{one, one, "{}", `"b"`, "b"},
		{one, none, "{}", `"b"`, "b"},
		{one, none, "{}", `"other"`, "server_unknown"},
		{one, none, "{}", `7`, "invalid_params"},
		{one, none, "{}", `null`, "invalid_params"},
	} {
		v, _ := describedAs(t, map[string]string{"a modern": test.a, "b modern": test.b, "other modern": test.other})
		meta := ""
		if test.meta != "" {
			meta = `"_meta":{"io.dragoman/server":` + test.meta + `,"v/x":1}`
		}
		m := message(t, "v/x", meta)
		got, err := v.Beyond(m, "")
		if err != nil {
			got = err.Name
		}
		if got != test.want {
			t.Errorf("%v: %q, want %q", test, got, test.want)
		}
		DropServer(m)
		if got := string(m.Append(nil)); strings.Contains(got, "io.dragoman") || meta != "" && !strings.Contains(got, `"_meta":{"v/x":1}`) {
			t.Errorf("the server gets %s", got)
		}
	}
	for _, params := range []string{`"_meta":7`, `"_meta":{"v/x":1}`, ``} {
		m := message(t, "v/x", params)
		if DropServer(m); len(m.Edits) != 0 {
			t.Errorf("%s is edited", params)
		}
	}
}

// Tools that run only as tasks are for clients that can run them, or where that is done for them.
func TestToolsThatAreTasks(t *testing.T) {
	v, c := describedAs(t, map[string]string{"a legacy": "{}", "b legacy": "{}"}, Member{Name: "b", Drives: true})
	for _, server := range []string{"a", "b"} {
		var items []catalogue.Item
		for _, support := range []string{"required", "optional", "forbidden"} {
			items = append(items, catalogue.Item{Key: support, Raw: []byte(`{"name":"` + support + `","execution":{"taskSupport":"` + support + `"}}`)})
		}
		items = append(items, catalogue.Item{Key: "plain", Raw: []byte(`{"name":"plain","inputSchema":{"const":"required"}}`)})
		c.SetList(server, catalogue.Tools, catalogue.List{Items: items})
		c.SetList(server, catalogue.Prompts, catalogue.List{Items: items[:1]})
	}
	v = v.of.Of(c.Snapshot(), proxy.Caller{})
	for version, want := range map[string]string{"": "a.optional a.forbidden a.plain b.required b.optional b.forbidden b.plain", rules.LegacyVersion: "a.required a.optional a.forbidden a.plain b.required b.optional b.forbidden b.plain"} {
		page, err := pageOf(v, catalogue.Tools, nil, version)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, tool := range wire.Items(page, wire.Get(page, wire.Whole(page), "tools")) {
			all = append(all, string(wire.Get(page, tool, "name").Text(page)))
		}
		if got := strings.Join(all, " "); got != want || strings.Contains(string(page), `"execution"`) != (version != "") {
			t.Errorf("for %q: %s", version, page)
		}
	}
	if page, err := pageOf(v, catalogue.Prompts, nil, ""); err != nil || strings.Count(string(page), `"name":"a.required"`) != 1 {
		t.Errorf("prompts: %s, %v", page, err)
	}
	if empty := string(LeftOut([]string{"a", "b"})); empty != `{"io.dragoman/servers":[{"name":"a","list":"left out"},{"name":"b","list":"left out"}]}` {
		t.Errorf("left out: %s", empty)
	}
}

// References of tools and results to apps lead to their server, and hosts take them.
func TestReferencesToApps(t *testing.T) {
	v, c := describedAs(t, map[string]string{"a modern": "{}", "b modern": "{}"})
	for _, server := range []string{"a", "b"} {
		c.SetList(server, catalogue.Resources, catalogue.List{Items: []catalogue.Item{{Key: "ui://x", Raw: []byte(`{"uri":"ui://x"}`)}}})
	}
	v = v.of.Of(c.Snapshot(), proxy.Caller{})
	for _, meta := range []string{`{"ui":{"resourceUri":"$"},"v":"ui://x"}`, `{"ui/resourceUri":"$"}`, `{"openai/outputTemplate":"$","ui":{"domain":"ui://x"}}`, `{"ui":{"resourceUri":"$"},"ui/resourceUri":"$"}`, `{"ui":{"visibility":["app"]}}`, `{"ui":7}`} {
		for server, uri := range map[string]string{"a": "ui://x", "b": "ui://dragoman+b/x"} {
			raw := `{"jsonrpc":"2.0","id":1,"result":{"content":[],"_meta":` + meta + `}}`
			m, err := wire.Scan([]byte(strings.ReplaceAll(raw, "$", "ui://x")))
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(meta, "$") && !MayHaveURIs(m.Raw) {
				t.Errorf("%s is not looked into", meta)
			}
			v.ResultURIs(&m, m.Result, server)
			if got, want := string(m.Append(nil)), strings.ReplaceAll(raw, "$", uri); got != want {
				t.Errorf("of %s: %s, want %s", server, got, want)
			}
		}
	}
	if m := message(t, "x", ""); MayHaveURIs(m.Raw) {
		t.Error("a message without URIs is looked into")
	}
}

// A tool is at a server that has it under the name of a call.
func TestAt(t *testing.T) {
	v, c := describedAs(t, map[string]string{"a modern": "{}", "b modern": "{}"})
	c.SetList("a", catalogue.Tools, catalogue.List{Items: []catalogue.Item{{Key: "t", Raw: []byte(`{"name":"t"}`)}}})
	v = v.of.Of(c.Snapshot(), proxy.Caller{})
	m := message(t, "tools/call", `"name":"t"`)
	if d, ok := v.At(m, "a"); !ok || d.Name != (names.Name{Server: "a", Original: "t"}) || d.At != m.Name {
		t.Errorf("at a: %v, %v", d, ok)
	}
	for server, name := range map[string]string{"b": "t", "a": "a.t"} {
		if d, ok := v.At(message(t, "tools/call", `"name":"`+name+`"`), server); ok {
			t.Errorf("%s at %s: %v", name, server, d)
		}
	}
}

// A server that a caller may not use does not exist for it: nothing tells of it.
func TestServersThatACallerMayNotUse(t *testing.T) {
	scoped := func(next proxy.Handler) proxy.Handler {
		return func(ex *proxy.Exchange) (proxy.Replies, error) {
			if ex.Caller.Principal == "bob" {
				return nil, proxy.Errf(proxy.InsufficientScope, "no")
			}
			return next(ex)
		}
	}
	_, c := describedAs(t, map[string]string{"a modern": `{"extensions":{"v/a":{}}}`, "b modern": `{"tools":{},"extensions":{"v/b":{}}}`})
	for _, server := range []string{"a", "b"} {
		c.SetList(server, catalogue.Resources, catalogue.List{Items: []catalogue.Item{{Key: "demo://x", Raw: []byte(`{"uri":"demo://x"}`)}}})
	}
	c.Describe("a", catalogue.Description{Revision: rules.ModernVersion, Capabilities: []byte(`{"extensions":{"v/a":{}}}`), Instructions: "secret"})
	k := NewMaker(Options{Members: []Member{{Name: "a", Shown: scoped, Apart: true}, {Name: "b"}}})
	for who, told := range map[string]string{
		"ann": `"v/a"|secret|late a b,|beyond "",|demo://x a,|there is a, b`,
		"bob": `{"tools":{},"extensions":{"v/b":{}}}  late b,|beyond "b",|demo://x b,|there is b`,
	} {
		v := k.Of(c.Snapshot(), proxy.Caller{Principal: who})
		beyond, err := v.Beyond(message(t, "v/x", ""), "")
		if err != nil {
			t.Fatal(err)
		}
		_, unknown := v.Beyond(message(t, "v/x", `"_meta":{"io.dragoman/server":"z"}`), "")
		of, err := v.Locate("demo://x")
		if err != nil {
			t.Fatal(err)
		}
		page, err := pageOf(v, catalogue.Tools, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprintf("%s %s late %s, beyond %q, of demo://x %s, %s", v.Capabilities(""), strings.Join(strings.Fields(v.Instructions()), " "), strings.Join(v.Late(catalogue.Tools), " "), beyond, of.Server, unknown)
		for part := range strings.SplitSeq(told, "|") {
			if !strings.Contains(got, part) {
				t.Errorf("%s is told %s; no %s", who, got, part)
			}
		}
		if strings.Contains(string(page), `"name":"a"`) != (who == "ann") {
			t.Errorf("%s is told of parts: %s", who, page)
		}
	}
}
