package hook

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"dragoman/policies"
	"dragoman/policies/internal/policytest"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// A question says who asks for what, of which server, and no more than was chosen.
func TestQuestions(t *testing.T) {
	const who = `"principal":"ci","credential":"api_key","user":"key","scopes":["a","b"],"client":{"era":"modern","revision":"2026-07-28","name":"desk"},"server":"up"`
	const tool = `,"method":"tools/call","tool":"rm","annotations":{"destructiveHint":true}`
	input := func(phase, who, rest string) string {
		return fmt.Sprintf(`{"input":{"version":1,"phase":%q,%s%s,"cut":false,"correlationId":"id-1"}}`, phase, who, rest)
	}
	for _, c := range []struct {
		what, raw string
		change    func(ex *proxy.Exchange)
		want      []string
	}{
		{"", aCall, nil, []string{input("request", who, tool), input("result", who, tool)}},
		{policies.ArgumentsNone, aCall, nil, []string{input("request", who, tool), input("result", who, tool)}},
		{policies.ArgumentsKeys, aCall, nil, []string{input("request", who, tool+`,"argumentKeys":["path","token"]`),
			input("result", who, tool+`,"argumentKeys":["path","token"],"resultKeys":["content","token"]`)}},
		{policies.ArgumentsRedacted, aCall, nil, []string{input("request", who, tool+`,"arguments":{"path":"/a","token":"[redacted]"}`),
			input("result", who, tool+`,"arguments":{"path":"/a","token":"[redacted]"},"result":{"content":[],"token":"[redacted]"}`)}},
		{policies.ArgumentsFull, aCall, nil, []string{input("request", who, tool+`,"arguments":{"path":"/a","token":"s3cret"}`),
			input("result", who, tool+`,"arguments":{"path":"/a","token":"s3cret"},"result":{"content":[],"token":"s3cret"}`)}},
		{"", policytest.CallOf("t"), func(ex *proxy.Exchange) {
			ex.Caller, ex.Client, ex.PublicName = proxy.Caller{}, proxy.Client{Era: proxy.Legacy, Version: "2025-11-25"}, []byte("up.t")
		}, []string{input("request", `"principal":null,"credential":null,"user":null,"scopes":[],"client":{"era":"legacy","revision":"2025-11-25","name":null},"server":"up"`,
			`,"method":"tools/call","tool":"t","publicName":"up.t","annotations":null`)}},
		{"", `{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"p\u0022"}}`, nil, []string{input("request", who, `,"method":"prompts/get","prompt":"p\""`)}},
		{"", `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///a"}}`, nil, []string{input("request", who, `,"method":"resources/read","resource":"file:///a"`)}},
		{"", `{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"x","value":""}}}`, nil,
			[]string{input("request", who, `,"method":"completion/complete","prompt":"p"`)}},
		{"", `{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/resource","uri":"file:///{a}"},"argument":{"name":"x","value":""}}}`, nil,
			[]string{input("request", who, `,"method":"completion/complete","resource":"file:///{a}"`)}},
		{"", `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"7"}}`, nil, []string{input("request", who, `,"method":"tasks/get","task":"7"`)}},
	} {
		r := newRig(t, Options{Results: true, Arguments: policies.Arguments{What: c.what}, Methods: []string{"tools/call", "prompts/get", "resources/read", "completion/complete", "tasks/get"}})
		ex := r.exchange(c.raw)
		if c.change != nil {
			c.change(ex)
		}
		if err := policytest.Drain(r.do(ex)); err != nil {
			t.Errorf("%s: %v", c.raw, err)
		}
		for i, want := range c.want {
			if i >= len(r.asked) || r.asked[i] != want {
				t.Errorf("%s: asked\n%s, want\n%s", c.raw, strings.Join(r.asked, "\n"), want)
				break
			}
		}
		if len(r.asked) != 2 {
			t.Errorf("%s: asked %d times", c.raw, len(r.asked))
		}
	}
}

// What does not fit is cut and marked. No question is longer than 64 KiB.
func TestCutQuestions(t *testing.T) {
	for name, value := range map[string]string{
		"a long text":     `"` + strings.Repeat("x", 30<<10) + `"`,
		"escapes":         `"` + strings.Repeat(`\u0001`, 10<<10) + `"`,
		"many":            `[` + strings.Repeat(`1,`, 20<<10) + `1]`,
		"deep":            strings.Repeat(`[`, 100) + strings.Repeat(`]`, 100),
		"too large":       `"` + strings.Repeat("x", maxRead) + `"`,
		"a long name":     `{"` + strings.Repeat("x", 30<<10) + `":1}`,
		"a number":        strings.Repeat("1", 30<<10),
		"names of escape": `{"` + strings.Repeat(`\u0001`, 10<<10) + `":1}`,
	} {
		for _, what := range []string{policies.ArgumentsKeys, policies.ArgumentsRedacted, policies.ArgumentsFull} {
			if what == policies.ArgumentsKeys && name != "too large" {
				continue
			}
			r := newRig(t, Options{Results: true, Arguments: policies.Arguments{What: what}})
			r.replies = []string{`{"jsonrpc":"2.0","id":1,"result":{"a":` + value + `}}`}
			ex := r.exchange(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + strings.Repeat("t", maxName-2) + `","arguments":{"a":` + value + `}}}`)
			ex.PublicName = []byte(strings.Repeat("p", maxName-2))
			ex.Caller.Principal, ex.Caller.Rights.Name, ex.Caller.Rights.Scopes = strings.Repeat("c", maxIdentity-2), strings.Repeat("u", maxIdentity-2), []string{strings.Repeat("s", maxScopes-2)}
			if err := policytest.Drain(r.do(ex)); err != nil {
				t.Fatal(err)
			}
			for i, question := range r.asked {
				var q struct {
					Input struct {
						Cut               bool
						Arguments, Result any
						ArgumentKeys      []string
						ResultKeys        []string
					}
				}
				if err := json.Unmarshal([]byte(question), &q); err != nil || !q.Input.Cut || len(question) > 64<<10 {
					t.Errorf("%s, %s, %d: %v, %d bytes, cut: %v", name, what, i, err, len(question), q.Input.Cut)
				}
				if what == policies.ArgumentsKeys && (q.Input.ArgumentKeys == nil || q.Input.Arguments != nil || i == 1 && q.Input.ResultKeys == nil) {
					t.Errorf("%s, %s, %d: %.300s", name, what, i, question)
				} else if what != policies.ArgumentsKeys && (q.Input.Arguments == nil || i == 1 && q.Input.Result == nil) {
					t.Errorf("%s, %s, %d: %.300s", name, what, i, question)
				}
			}
			if len(r.asked) != 2 {
				t.Errorf("%s: asked %d times", name, len(r.asked))
			}
		}
	}
	r := newRig(t, Options{Arguments: policies.Arguments{What: policies.ArgumentsNone}})
	r.wants(r.run(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":"`+strings.Repeat("x", maxRead)+`"}}}`), "", 1, 1)
	if strings.Contains(r.asked[0], "xx") || !strings.Contains(r.asked[0], `"cut":false`) {
		t.Errorf("%.300s", r.asked[0])
	}
}

// Annotations that are too long are left out, which the question says.
func TestLongAnnotations(t *testing.T) {
	for size, want := range map[int]string{maxAnnotations: `,"cut":false`, maxAnnotations + 1: `"annotations":null,"cut":true`} {
		q := &question{}
		q.annotations([]byte(`"` + strings.Repeat("x", size-2) + `"`))
		b := q.body(phaseRequest)
		if !json.Valid(b.text) || !strings.Contains(string(b.text), want) {
			t.Errorf("%d: %.300s", size, b.text)
		}
	}
}

// The bounds of what is shown hold to the byte.
func TestBoundsOfContent(t *testing.T) {
	h := New(Options{Arguments: policies.Arguments{What: policies.ArgumentsFull}})
	shown := func(value string) (string, bool) {
		raw := []byte(`{"pad":"` + strings.Repeat("p", maxRead) + `","a":` + value + `}`)
		b, cut := h.shown("a", "keys", raw, wire.Get(raw, wire.Whole(raw), "a"))
		return string(b), cut
	}
	for _, n := range []int{maxText, maxText + 1} {
		got, cut := shown(`"` + strings.Repeat("x", n) + `"`)
		if want := `,"a":"` + strings.Repeat("x", maxText) + map[bool]string{true: "…", false: ""}[cut] + `"`; got != want || cut != (n > maxText) {
			t.Errorf("a text of %d: %d bytes, cut: %v", n, len(got), cut)
		}
	}
	escapes := strings.Repeat(`\u0001`, (maxContent-len(`,"a":""`))/6) // each has six bytes when it is shown, too
	for _, n := range []int{maxContent, maxContent + 1} {
		got, cut := shown(`"` + escapes + strings.Repeat("x", n-len(`,"a":""`)-len(escapes)) + `"`)
		if cut != (n > maxContent) || !cut && len(got) != n || cut && got != `,"a":"[cut]"` {
			t.Errorf("%d bytes with escapes: %d, cut: %v", n, len(got), cut)
		}
	}
	numbers := "[" + strings.Repeat("1,", maxRead/2-2) + "11]"
	if got, cut := shown(numbers); len(numbers) != maxRead || !strings.HasPrefix(got, `,"a":[1,1,`) || !strings.HasSuffix(got, `,1,"[cut]"]`) || len(got) < maxShown || !cut {
		t.Errorf("%d bytes of %d, cut: %v", len(got), len(numbers), cut)
	}
	if got, cut := shown(numbers[:maxRead-1] + " ]"); got != `,"a":"[cut]"` || !cut {
		t.Errorf("%.100s, cut: %v", got, cut)
	}
}
