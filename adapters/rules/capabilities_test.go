package rules

import (
	"testing"

	"dragoman/proxy/wire"
)

func TestHasQuestions(t *testing.T) {
	f := func(caps string, want bool) {
		t.Helper()
		if got := AnyQuestion([]byte(caps)); got != want {
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
		if got := Undeclared([]byte(caps), method, raw, wire.Span{From: 0, To: uint32(len(raw))}); got != want {
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
	if got := Undeclared([]byte(`{"roots":{}}`), "roots/list", nil, wire.Span{}); got != "" {
		t.Errorf("without params: %q", got)
	}
}

// A method that uses something of a name is offered by its own capability.
func TestOffers(t *testing.T) {
	const all = `{"tools":{},"prompts":{},"resources":{},"completions":{}}`
	for _, c := range []struct {
		caps, method string
		want         bool
	}{
		{all, "tools/call", true}, {all, "prompts/get", true}, {all, "resources/read", true}, {all, "completion/complete", true},
		{all, "tools/list", false}, {all, "vendor/x", false}, {all, "", false}, {`{"":{}}`, "vendor/x", false},
		{`{"tools":{}}`, "prompts/get", false}, {`{"tools":{}}`, "completion/complete", false}, {"", "tools/call", false}, {"{}", "tools/call", false},
	} {
		if got := Offers([]byte(c.caps), c.method); got != c.want {
			t.Errorf("%s of %s: %v", c.method, c.caps, got)
		}
	}
}
