package era

import (
	"testing"

	"dragoman/proxy/wire"
)

// What a legacy client's capabilities are worth to a modern server, by the client's revision.
func TestModernCaps(t *testing.T) {
	f := func(version, caps, want string) {
		t.Helper()
		var raw []byte
		if caps != "" {
			raw = []byte(caps)
		}
		if got := string(modernCaps(raw, version)); got != want {
			t.Errorf("%s: %s is %s, want %s", version, caps, got, want)
		}
	}
	for _, v := range legacyVersions {
		f(v, ``, `{}`)
		f(v, `{}`, `{}`)
		f(v, `{"roots":{"listChanged":true}}`, `{"roots":{}}`)
		f(v, `{"experimental":{"x":{"tools":1}},"tasks":{"list":{}}}`, `{"experimental":{"x":{"tools":1}}}`)
		f(v, `{"extensions":{"io.modelcontextprotocol/ui":{"a":1.50},"io.modelcontextprotocol/tasks":{}}}`, `{"extensions":{"io.modelcontextprotocol/ui":{"a":1.50}}}`)
		f(v, `{"sampling":{}}`, `{"sampling":{}}`)
	}
	f("2025-11-25", `{"sampling":{"tools":{},"context":{}}}`, `{"sampling":{"tools":{},"context":{}}}`)
	f("2025-06-18", `{"sampling":{"tools":{},"context":{},"x":1}}`, `{"sampling":{"x":1}}`)
	f("2025-11-25", `{"elicitation":{}}`, `{"elicitation":{}}`)
	f("2025-11-25", `{"elicitation":{"url":{}}}`, `{"elicitation":{"url":{}}}`)
	f("2025-11-25", `{"elicitation":{"form":{},"url":{}}}`, `{"elicitation":{"form":{},"url":{}}}`)
	f("2025-06-18", `{"elicitation":{}}`, `{"elicitation":{}}`)
	f("2025-06-18", `{"elicitation":{"form":{},"url":{}}}`, `{"elicitation":{}}`)
	f("2025-06-18", `{"elicitation":{"url":{}}}`, `{}`)
	f("2025-03-26", `{"elicitation":{},"roots":{}}`, `{"roots":{}}`)
	f("2024-11-05", `{"elicitation":{"url":{}},"roots":{}}`, `{"roots":{}}`)
	if got := string(legacyCaps([]byte(`{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{"listChanged":true}}`))); got != `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}` {
		t.Errorf("%s", got)
	}
}

func TestHasQuestions(t *testing.T) {
	f := func(caps string, want bool) {
		t.Helper()
		if got := hasQuestions([]byte(caps)); got != want {
			t.Errorf("%s: %v", caps, got)
		}
	}
	f(``, false)
	f(`{}`, false)
	f(`{"experimental":{"roots":{}},"extensions":{"sampling":{}}}`, false)
	f(`{"Roots":{}}`, false)
	f(`{"experimental":{},"roots":{}}`, true)
	f(`{"sampling":{}}`, true)
	f(`{"elicitation":{"url":{}}}`, true)
}

// What must have been declared for a question, in the words of error -32021.
func TestUndeclared(t *testing.T) {
	f := func(caps, method, params, want string) {
		t.Helper()
		raw := []byte(params)
		if got := undeclared([]byte(caps), method, raw, wire.Span{From: 0, To: uint32(len(raw))}); got != want { //nolint:gosec // of a test
			t.Errorf("%s at %s %s: %q, want %q", caps, method, params, got, want)
		}
	}
	for _, none := range []string{``, `{}`, `{"experimental":{"roots":{},"sampling":{},"elicitation":{}}}`} {
		f(none, "roots/list", `{}`, `{"roots":{}}`)
		f(none, "sampling/createMessage", `{}`, `{"sampling":{}}`)
		f(none, "sampling/createMessage", `{"tools":[]}`, `{"sampling":{"tools":{}}}`)
		f(none, "elicitation/create", `{}`, `{"elicitation":{"form":{}}}`)
		f(none, "elicitation/create", `{"mode":"url"}`, `{"elicitation":{"url":{}}}`)
	}
	f(`{"roots":{}}`, "roots/list", `{}`, "")
	f(`{"sampling":{}}`, "sampling/createMessage", `{"messages":[]}`, "")
	f(`{"sampling":{}}`, "sampling/createMessage", `{"toolChoice":{}}`, `{"sampling":{"tools":{}}}`)
	f(`{"sampling":{"tools":{}}}`, "sampling/createMessage", `{"tools":[],"toolChoice":{}}`, "")
	// an empty object is forms alone; a named mode is that mode alone
	f(`{"elicitation":{}}`, "elicitation/create", `{}`, "")
	f(`{"elicitation":{}}`, "elicitation/create", `{"mode":"form"}`, "")
	f(`{"elicitation":{}}`, "elicitation/create", `{"mode":"url"}`, `{"elicitation":{"url":{}}}`)
	f(`{"elicitation":{"url":{}}}`, "elicitation/create", `{"mode":"url"}`, "")
	f(`{"elicitation":{"url":{}}}`, "elicitation/create", `{}`, `{"elicitation":{"form":{}}}`)
	f(`{"elicitation":{"form":{}}}`, "elicitation/create", `{"mode":"form"}`, "")
	f(`{"elicitation":{"form":{},"url":{}}}`, "elicitation/create", `{}`, "")
	for _, method := range []string{"ping", "tools/call", "tasks/list", "", "roots/List"} {
		f(`{"roots":{},"sampling":{},"elicitation":{},"tasks":{}}`, method, `{}`, "{}")
	}
	if got := undeclared([]byte(`{"roots":{}}`), "roots/list", nil, wire.Span{}); got != "" {
		t.Errorf("without params: %q", got)
	}
}
