package translate

import (
	"regexp"
	"testing"

	"dragoman/adapters/rules"
)

// Questions of modern servers for clients of older revisions.
func TestLegacyQuestion(t *testing.T) {
	f := func(version, method, params, want string) {
		t.Helper()
		out, id, ok := LegacyQuestion(method, []byte(params), version)
		if got := string(out); !ok && want != "" || ok && got != want || id != "" {
			t.Errorf("%s %s %s\n  %s (id %q, ok %v)\nwant\n  %s", version, method, params, got, id, ok, want)
		}
	}
	const form = `{"mode":"form","message":"?","requestedSchema":{"type":"object","properties":{"a":{"type":"string","default":"x"}}}}`
	f("2025-11-25", "elicitation/create", form, form)
	f("2025-06-18", "elicitation/create", form, `{"message":"?","requestedSchema":{"type":"object","properties":{"a":{"type":"string"}}}}`)
	f("2025-06-18", "elicitation/create", `{"message":"?"}`, `{"message":"?"}`)
	f("2025-03-26", "elicitation/create", form, "")
	f("2024-11-05", "elicitation/create", form, "")
	f("2025-06-18", "elicitation/create", `{"mode":"url","url":"x:"}`, "")
	const sampling = `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}],"tools":[],"toolChoice":{"mode":"auto"},"maxTokens":9007199254740993}`
	f("2025-11-25", "sampling/createMessage", sampling, sampling)
	for _, v := range (rules.Allowed{}).Legacy()[1:] {
		f(v, "sampling/createMessage", sampling, `{"messages":[{"role":"user","content":{"type":"text","text":"a"}},{"role":"user","content":{"type":"text","text":"b"}}],"maxTokens":9007199254740993}`)
		f(v, "sampling/createMessage", `{"maxTokens":1}`, `{"maxTokens":1}`)
	}
	for _, v := range (rules.Allowed{}).Legacy() {
		f(v, "roots/list", ``, `{}`)
		f(v, "roots/list", `{"_meta":{}}`, `{"_meta":{}}`)
	}
}

// A page to visit receives an id, whose completion the client is notified of (2025-11-25 elicitation).
func TestURLQuestionHasAnID(t *testing.T) {
	uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := map[string]bool{}
	for range 200 {
		out, id, ok := LegacyQuestion("elicitation/create", []byte(`{"mode":"url","url":"x:","message":"?","elicitationId":"the server's"}`), rules.LegacyVersion)
		if want := `{"mode":"url","url":"x:","message":"?","elicitationId":"` + id + `"}`; !ok || string(out) != want {
			t.Fatalf("%s (%v), want %s", out, ok, want)
		}
		if seen[id] || !uuid.MatchString(id) {
			t.Fatalf("id %q", id)
		}
		seen[id] = true
	}
}

// Forms of 2025-11-25 as forms of 2025-06-18.
func TestOlderSchema(t *testing.T) {
	f := func(properties, want string) {
		t.Helper()
		out, ok := olderSchema([]byte(`{"type":"object","properties":{` + properties + `},"required":["a"]}`))
		if got := string(out); ok && got != `{"type":"object","properties":{`+want+`},"required":["a"]}` || ok != (want != "refused") {
			t.Errorf("%s\n  %s (%v)\nwant\n  %s", properties, got, ok, want)
		}
	}
	f(``, ``)
	f(`"a":{"type":"string","minLength":1.50,"format":"email"}`, `"a":{"type":"string","minLength":1.50,"format":"email"}`)
	f(`"a":{"type":"boolean","default":true}`, `"a":{"type":"boolean","default":true}`)
	f(`"a":{"type":"integer","default":5},"b":{"default":null,"type":"number"}`, `"a":{"type":"integer"},"b":{"type":"number"}`)
	f(`"a":{"type":"string","enum":["x"],"enumNames":["X"],"default":"x"}`, `"a":{"type":"string","enum":["x"],"enumNames":["X"]}`)
	f(`"a":{"type":"string","oneOf":[{"const":"x","title":"X \"q\""},{"const":"y"}]}`, `"a":{"type":"string","enum":["x","y"],"enumNames":["X \"q\"","y"]}`)
	f(`"a":{"type":"string","oneOf":[]}`, `"a":{"type":"string","enum":[],"enumNames":[]}`)
	f(`"a":{"type":"string","oneOf":[{"title":"X"}]}`, "refused")
	f(`"a":{"type":"array","items":{"type":"string","enum":["x"]}}`, "refused")
	f(`"a":5,"b":null`, `"a":5,"b":null`)
	if out, ok := olderSchema([]byte(`{"type":"object"}`)); !ok || string(out) != `{"type":"object"}` {
		t.Errorf("%s %v", out, ok)
	}
}

// Messages of several blocks become messages of one block each.
func TestSingleContents(t *testing.T) {
	f := func(messages, want string) {
		t.Helper()
		m := parse(t, `{"jsonrpc":"2.0","id":1,"method":"m","params":{"messages":`+messages+`}}`)
		out, _, ok := LegacyQuestion("sampling/createMessage", m.Of(m.Params), "2025-06-18")
		if got := string(out); !ok || got != `{"messages":`+want+`}` {
			t.Errorf("%s\n  %s\nwant\n  %s", messages, got, want)
		}
	}
	f(`[]`, `[]`)
	f(`[{"role":"user","content":{"type":"text","text":"[1]"}}]`, `[{"role":"user","content":{"type":"text","text":"[1]"}}]`)
	f(`[{"content":[{"a":1}],"role":"user","_meta":{"n":1e2}}]`, `[{"content":{"a":1},"role":"user","_meta":{"n":1e2}}]`)
	f(`[{"role":"user","content":[{"a":1},{"b":[2]}]},{"role":"assistant","content":[]},{"role":"user","content":{"c":3}}]`,
		`[{"role":"user","content":{"a":1}},{"role":"user","content":{"b":[2]}},{"role":"user","content":{"c":3}}]`)
	f(`[5,{"role":"user"},"x"]`, `[5,{"role":"user"},"x"]`)
}
