package access

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/policies/internal/policytest"
	"dragoman/proxy"
)

// The scopes that a request needs, by its subject, however its JSON is written.
func TestScopes(t *testing.T) {
	rules := []ScopeRule{{"tool:delete_*", []string{"write"}}, {"tool:delete_all", []string{"admin"}}, {"prompt:p", []string{"prompts"}},
		{"resource:file:///s/*", []string{"secret"}}, {"method:tasks/*", []string{"tasks"}}, {"method:logging/setLevel", []string{"log"}}}
	scopes, err := Scopes(ScopeOptions{Rules: map[string][]ScopeRule{"up": rules}, Only: "up", Metrics: prometheus.NewRegistry(),
		Challenge: func(*proxy.Error, string, []string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	policy := scopes.Policy()
	f := func(method, params, want string) {
		t.Helper()
		m := policytest.Scan(t, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`)
		passed := false
		ask := func(rights *proxy.Rights) string {
			passed = false
			_, err := policy(func(*proxy.Exchange) (proxy.Replies, error) { passed = true; return nil, nil })(&proxy.Exchange{Msg: m, Caller: proxy.Caller{Rights: rights}})
			if (err != nil) == passed {
				t.Errorf("%s %s: %v, but passed: %v", method, params, err, passed)
			}
			if err == nil {
				return ""
			}
			_, text, _ := strings.Cut(proxy.AsError(err).Message, "the scopes ")
			text, _, _ = strings.Cut(text, ";")
			return text
		}
		if got := ask(&proxy.Rights{Kind: "jwt", Scopes: []string{"other", "writ", "write2"}}); got != want {
			t.Errorf("%s %s needs %q, want %q", method, params, got, want)
		}
		if got := ask(&proxy.Rights{Kind: "jwt", Scopes: strings.Fields(want)}); got != "" {
			t.Errorf("%s %s: with all it needs: %q", method, params, got)
		}
		if ask(nil); !passed {
			t.Errorf("%s %s: refused without authentication", method, params)
		}
	}
	f("tools/call", `{"name":"read"}`, "")
	f("tools/call", `{"name":"delete_one"}`, "write")
	f("tools/call", `{"name":"delete_all"}`, "write admin")
	f("tools/call", `{"name":"d\u0065lete_one"}`, "write")
	for _, name := range []string{"Delete_one", " delete_one", "delete_\u200bone", "\uff44elete_one", "delete_one\\u0000"} {
		f("tools/call", `{"name":"`+name+`"}`, "write")
	}
	f("prompts/get", `{"name":"p"}`, "prompts")
	f("prompts/get", `{"name":"delete_one"}`, "")
	f("completion/complete", `{"ref":{"type":"ref/prompt","name":"q","uri":"file:///s/a"}}`, "secret")
	f("completion/complete", `{"ref":{"type":"ref/resource","uri":"file:///s/{x}"}}`, "secret")
	for _, method := range []string{"resources/read", "resources/subscribe", "resources/unsubscribe"} {
		f(method, `{"uri":"file:///s/a"}`, "secret")
		f(method, `{"uri":"FILE:/S/a"}`, "secret")
		f(method, `{"uri":"file:///t/a"}`, "")
	}
	f("subscriptions/listen", `{"notifications":{"resourceSubscriptions":["file:///t","file:///s/b"]}}`, "secret")
	f("tasks/get", `{"taskId":"1"}`, "tasks")
	f("logging/setLevel", `{"level":"info"}`, "log")
	f("tools/list", `{}`, "")
	for _, try := range [][2]string{
		{"resources/read", `{"uri":"file:///t/../s/a"}`}, {"resources/read", `{"uri":["file:///s/a"]}`}, {"resources/Read", `{"uri":"file:///s/a"}`},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"q"},"ref":{"type":"ref/prompt","name":"p"}}`},
		{"completion/complete", `{"Ref":{"type":"ref/prompt","name":"p"}}`}, {"completion/complete", `{"ref":{"type":"ref/prompt","name":"q","Name":"p"}}`},
		{"subscriptions/listen", `{"notifications":{"ResourceSubscriptions":["file:///s/b"]}}`}, {"subscriptions/listen", `{"notifications":{"resourceSubscriptions":["file:///t/%2e%2e/s/b"]}}`},
	} {
		ex := &proxy.Exchange{Msg: policytest.Scan(t, `{"jsonrpc":"2.0","id":1,"method":"`+try[0]+`","params":`+try[1]+`}`),
			Caller: proxy.Caller{Rights: &proxy.Rights{Kind: "jwt", Scopes: []string{"write", "admin", "prompts", "secret", "tasks", "log"}}}}
		_, err := policy(func(*proxy.Exchange) (proxy.Replies, error) { t.Errorf("%s passes", try); return nil, nil })(ex)
		if e := proxy.AsError(err); e.Code != proxy.CodeInvalidParams && e.Code != proxy.CodeMethodNotFound || ex.RefusedBy != "scopes" {
			t.Errorf("%s: %v, refused by %q", try, err, ex.RefusedBy)
		}
	}
	if none, err := Scopes(ScopeOptions{Rules: map[string][]ScopeRule{"up": nil}}); none.Policy() != nil || err != nil {
		t.Error("costs something without rules")
	}
}
