package translate

import (
	"testing"

	"dragoman/adapters/rules"
)

// ModernCaps by the client's revision.
func TestModernCaps(t *testing.T) {
	f := func(version, caps, want string) {
		t.Helper()
		var raw []byte
		if caps != "" {
			raw = []byte(caps)
		}
		if got := string(ModernCaps(raw, version)); got != want {
			t.Errorf("%s: %s is %s, want %s", version, caps, got, want)
		}
	}
	for _, v := range (rules.Allowed{}).Legacy() {
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
	if got := string(LegacyCaps([]byte(`{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{"listChanged":true}}`))); got != `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}` {
		t.Errorf("%s", got)
	}
}

// Change notices are not promised where they are not delivered.
func TestServerCaps(t *testing.T) {
	const allCaps = `{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true}}`
	f := func(caps string, notices bool, want string) {
		t.Helper()
		if got := string(ServerCaps([]byte(caps), notices)); got != want {
			t.Errorf("%s", got)
		}
	}
	f(allCaps, true, allCaps)
	f(allCaps, false, `{"tools":{},"prompts":{},"resources":{}}`)
	f(`{"tasks":{},"tools":{"listChanged":true}}`, true, `{"tools":{"listChanged":true}}`)
	f("", true, "{}")
}
