package config

import (
	"reflect"
	"strings"
	"testing"

	"dragoman/adapters/merge/names"
	"dragoman/internal/testkit"
)

const three = `
[upstreams.a]
url = "http://127.0.0.1:1/mcp"
[upstreams.b]
url = "http://127.0.0.1:2/mcp"
[upstreams.c]
url = "http://127.0.0.1:3/mcp"
`

// A server that is the fallback of another is no member, and merging begins with the second member.
func TestMembers(t *testing.T) {
	for text, want := range map[string]struct {
		members string
		merged  bool
	}{
		three: {"a b c", true},
		three + "[upstreams.d]\nurl = \"http://127.0.0.1:4/mcp\"\nfallback = \"a\"\n":                                        {"b c d", true},
		"[upstreams.a]\nurl = \"http://127.0.0.1:1/mcp\"\nfallback = \"b\"\n[upstreams.b]\nurl = \"http://127.0.0.1:2/mcp\"": {"a", false},
		"[upstreams.a]\nurl = \"http://127.0.0.1:1/mcp\"":                                                                    {"a", false},
		"merge = \"always\"\n[upstreams.a]\nurl = \"http://127.0.0.1:1/mcp\"":                                                {"a", true},
		"merge = \"always\"":          {"", false},
		"merge = \"never\"\n" + three: {"a b c", false},
	} {
		cfg, err := load(t, testkit.WriteFile(t, "m.toml", text), nil)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		var all []string
		for _, u := range cfg.Members() {
			all = append(all, u.Name)
		}
		if got := strings.Join(all, " "); got != want.members || cfg.Merged() != want.merged {
			t.Errorf("%s: members %q, merged %t", text, got, cfg.Merged())
		}
		if only := cfg.Unnamed(); (only != nil) != (len(all) == 1 && !want.merged) || only != nil && only.Name != all[0] {
			t.Errorf("%s: of paths that name no server is %+v", text, only)
		}
	}
}

func TestGroups(t *testing.T) {
	cfg, err := load(t, testkit.WriteFile(t, "g.toml", `
names.separator = "__"
names.prefix = "conflict"
`+three+`
[groups.coding]
servers = ["a", "b"]
tools = ["a.read_*", "a.api.v2.get"]
deny_resources = ["b.file:///etc/*"]
length = 40
prefix = "never"
strict = true
[groups.all]
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	g := cfg.Groups[0]
	if g.Name != "coding" || strings.Join(g.Servers, " ") != "a b" || !g.Strict || cfg.Groups[1].Name != "all" {
		t.Errorf("%+v", g)
	}
	if got, want := cfg.Style(g), (names.Style{When: names.Never, Separator: "__", Budget: 40}); got != want {
		t.Errorf("style of the group: %+v", got)
	}
	if got, want := cfg.Style(nil), (names.Style{When: names.OnConflict, Separator: "__", Budget: 64}); got != want {
		t.Errorf("style: %+v", got)
	}
	if got, want := g.At("a"), (GrantConfig{Principal: "*", Tools: []string{"read_*", "api.v2.get"}}); !reflect.DeepEqual(got, want) {
		t.Errorf("a: %+v", got)
	}
	if got, want := g.At("b"), (GrantConfig{Principal: "*", Tools: []string{nothing}, DenyResources: []string{"file:///etc/*"}}); !reflect.DeepEqual(got, want) {
		t.Errorf("b: %+v", got)
	}
}

func TestGroupsAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		"servers = [\"x\"]":                    `groups.g.servers: "x" is no upstream`,
		"servers = [\"A\"]":                    `"A" is no NAME of an upstream`,
		"tools = [\"x.read\"]":                 `groups.g.tools: "x.read" is about a server that is not in the group`,
		"tools = [\"read\"]":                   `"read" does not begin with the NAME of an upstream and a dot`,
		"deny_prompts = [\"a.*x\"]":            "groups.g.deny_prompts",
		"servers = [\"a\"]\ntools = [\"b.x\"]": `"b.x" is about a server that is not in the group`,
		"scopes = [\"s\"]":                     "nobody is asked who he is",
		"prefix = \"sometimes\"":               "groups.g.prefix",
		"separator = \"::\"":                   "groups.g.separator",
		"separator = \"....\"":                 "groups.g.separator",
		"length = 23":                          "groups.g.length",
		"server = []":                          "did you mean groups.g.servers?",
	} {
		_, err := load(t, testkit.WriteFile(t, "g.toml", three+"[groups.g]\n"+text), nil)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "fix: ") && !strings.Contains(err.Error(), "; did you mean") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := load(t, testkit.WriteFile(t, "g.toml", three+"[groups.G]\nservers = []"), nil); err == nil || !strings.Contains(err.Error(), `"G" is not a name for a group`) {
		t.Errorf("an invalid name: %v", err)
	}
}

// Names, patterns and scopes of a group may be as long as is said, and no longer.
func TestGroupsAreBounded(t *testing.T) {
	credentials := "security.api_keys_enabled = true\nsecurity.api_keys.k.hashes = [\"sha256:" + strings.Repeat("0", 64) + "\"]\n"
	group := func(name, parts string) string {
		return credentials + three + "[groups." + name + "]\n" + parts
	}
	of := func(key string, n int, text string) string {
		return group("g", key+" = [\""+strings.Repeat(text, n)+"\"]")
	}
	for what, test := range map[string]struct{ most, more string }{
		"name":    {group(strings.Repeat("g", 64), ""), group(strings.Repeat("g", 65), "")},
		"pattern": {group("g", "tools = [\"a."+strings.Repeat("x", 4096)+"\"]"), group("g", "tools = [\"a."+strings.Repeat("x", 4097)+"\"]")},
		"scope":   {of("scopes", 256, "x"), of("scopes", 257, "x")},
		"first":   {of("scopes", 1, "!"), of("scopes", 2, "x x")},
		"last":    {of("scopes", 1, "~"), of("scopes", 1, "é")},
	} {
		if _, err := load(t, testkit.WriteFile(t, "g.toml", test.most), nil); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := load(t, testkit.WriteFile(t, "g.toml", test.more), nil); err == nil {
			t.Errorf("one more %s is no error", what)
		}
	}
}

// A registered server is merged although it is alone, unless nothing is to be merged.
func TestOnlyRegisteredIsMerged(t *testing.T) {
	for merge, want := range map[string]bool{"auto": true, "always": true, "never": false} {
		cfg, err := load(t, testkit.WriteFile(t, "m.toml", "merge = \""+merge+"\"\n"), nil)
		if err != nil {
			t.Fatal(err)
		}
		one := Registered{ID: "1", Name: "one", Transport: "HTTP", Connection: []byte(`{"base_url":"https://x.example"}`)}
		next, left := cfg.With([]Registered{one})
		if len(left) > 0 || next.Merged() != want || (next.Unnamed() == nil) != want {
			t.Errorf("%s: merged %t, %v", merge, next.Merged(), left)
		}
		alone, err := cfg.Alone(one)
		if err != nil || alone.Merged() || alone.Unnamed() == nil {
			t.Errorf("%s: of a test merged: %+v, %v", merge, alone, err)
		}
	}
}
