package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"dragoman/internal/testkit"
	"dragoman/proxy"
)

// restNamed are the REST endpoints of single methods, as ways in.
func (r *rig) restNamed() []way {
	post := func(path, body string) string { return r.must("POST", path, body, "Content-Type", jsonType).body }
	at := func(path string) func(string, string) string {
		return func(_, params string) string { return post(path, "{"+params+"}") }
	}
	return []way{
		{"/call-tool tools/call", at("/call-tool")}, {"/read-resource resources/read", at("/read-resource")},
		{"/get-prompt prompts/get", at("/get-prompt")}, {"/complete completion/complete", at("/complete")},
		{"/tools/NAME tools/call", func(_, params string) string {
			var p struct{ Name string }
			_ = json.Unmarshal([]byte("{"+params+"}"), &p)
			return post("/tools/"+url.PathEscape(p.Name), "{}")
		}},
	}
}

// asked is a request by method and params.
type asked struct{ method, params string }

const (
	theTool     = `"name":"drop","arguments":{}`
	thePrompt   = `"name":"secret"`
	theResource = `"uri":"demo://secret"`
	theRef      = `"ref":{"type":"ref/resource","uri":"demo://secret"},"argument":{"name":"x","value":""}`
)

var (
	theSubscription = []asked{{"resources/subscribe", theResource}}
	theListen       = []asked{{"subscriptions/listen", `"notifications":{"resourceSubscriptions":["demo://secret"]}`}}
)

// mergedAsked holds the cases of allAsked for an endpoint of several servers.
var mergedAsked = []asked{{"tools/call", `"name":"default.drop","arguments":{}`}, {"prompts/get", `"name":"default.secret"`}, {"resources/read", `"uri":"dragoman+default://demo///secret"`},
	{"completion/complete", `"ref":{"type":"ref/resource","uri":"dragoman+default://demo///secret"},"argument":{"name":"x","value":""}`}}

var allAsked = []asked{{"tools/call", theTool}, {"prompts/get", thePrompt}, {"resources/read", theResource}, {"completion/complete", theRef}}

// refusal is a reason to refuse requests, and how it is recorded.
type refusal struct {
	config  string
	asked   []asked
	only    string // ways whose names contain it; empty: all
	rows    string // of the error table
	policy  string // in the audit trail
	counter []string
	key     bool         // requests have an API key
	ofKey   string       // configuration of that key
	at      string       // the endpoint of several servers, of which default is one: /mcp or /groups/g; empty: the server is alone
	before  func(r *rig) // makes the reason true
	hook    string       // answer of a decision point that is asked about each request; empty: there is none
	results bool         // it permits requests, and the answer is that about results
	// unopened means that no session can be opened.
	unopened bool
}

var refusals = map[string]refusal{
	"access": {config: "[upstreams.default.access.\"*\"]\ndeny_tools = [\"drop\"]\ndeny_prompts = [\"secret\"]\ndeny_resources = [\"demo://secret\"]\n",
		asked: allAsked, rows: "tool_not_found invalid_params", policy: "access", counter: []string{"dragoman_access_total", "what", "refused"}},
	"allow list": {config: "[upstreams.default.access.\"*\"]\ntools = [\"other\"]\nprompts = [\"other\"]\nresources = [\"other:x\"]\n",
		asked: allAsked, rows: "tool_not_found invalid_params", policy: "access", counter: []string{"dragoman_access_total", "what", "refused"}},
	"disabled": {config: "[upstreams.default.tools.drop]\nenabled = false\n", asked: allAsked[:1], rows: "tool_not_found", policy: "access", counter: []string{"dragoman_access_total", "what", "refused"}},
	"renamed": {config: "[upstreams.default.tools.drop]\nrename = \"remove\"\n", asked: allAsked[:1], rows: "tool_not_found", policy: "access",
		counter: []string{"dragoman_access_total", "what", "refused"}},
	"spelling": {config: "[upstreams.default.access.\"*\"]\ndeny_resources = [\"demo://secret\"]\n", asked: []asked{{"resources/read", `"uri":"demo://x/../secret"`}},
		rows: "invalid_params", policy: "access", counter: []string{"dragoman_access_total", "what", "refused"}},
	"scopes": {config: "[upstreams.default.scopes]\n\"tool:drop\" = [\"x\"]\n\"prompt:secret\" = [\"x\"]\n\"resource:demo://secret\" = [\"x\"]\n", key: true,
		asked: allAsked, rows: "insufficient_scope", policy: "scopes", counter: []string{"dragoman_scope_refusals_total"}},
	"scopes of a spelling": {config: "[upstreams.default.scopes]\n\"resource:demo://secret\" = [\"x\"]\n", key: true, asked: []asked{{"resources/read", `"uri":"demo://x/../secret"`}},
		rows: "invalid_params", policy: "scopes", counter: []string{"dragoman_scope_refusals_total"}},
	"rate": {config: "[upstreams.default.tools.drop]\nrate_limit = 1\n", asked: allAsked[:1], rows: "rate_limited", policy: "rate", counter: []string{"dragoman_rate_limited_total"},
		before: func(r *rig) {
			r.must("POST", "/mcp", modernCall("1", "drop", ""), modernHeaders("tools/call", "drop")...)
		}},
	"rate of a key": {ofKey: "rate_limit = 2\n", key: true, asked: allAsked, rows: "rate_limited", policy: "rate", counter: []string{"dragoman_rate_limited_total"}}, // waysIn has sent two
	"busy": {config: "[limits]\nin_flight = 1\nqueue = 0\n", asked: allAsked, rows: "too_busy", policy: "limits", counter: []string{"dragoman_requests_refused_busy_total"},
		before: func(r *rig) {
			testkit.Eventually(r.t, "the place of what came before is free", func() bool { return r.sum("dragoman_requests_running") == 0 })
			go func() {
				_, _ = r.do(r.t.Context(), "POST", "/mcp", modernCall("1", "hang", ""), modernHeaders("tools/call", "hang")...)
			}()
			testkit.Eventually(r.t, "a call that runs", func() bool { return r.sum("dragoman_requests_running") == 1 })
		}},
	"subscription": {config: "[upstreams.default.access.\"*\"]\ndeny_resources = [\"demo://secret\"]\n", asked: theSubscription, only: "legacy", rows: "invalid_params", policy: "access",
		counter: []string{"dragoman_access_total", "what", "refused"}},
	"subscription over sse": {config: "[upstreams.default.access.\"*\"]\ndeny_resources = [\"demo://secret\"]\n", asked: theSubscription, only: "sse", rows: "invalid_params", policy: "access",
		counter: []string{"dragoman_access_total", "what", "refused"}},
	"scopes of a subscription": {config: "[upstreams.default.scopes]\n\"resource:demo://secret\" = [\"x\"]\n", key: true, asked: theSubscription, only: "legacy", rows: "insufficient_scope",
		policy: "scopes", counter: []string{"dragoman_scope_refusals_total"}},
	"scopes of a listen": {config: "[upstreams.default.scopes]\n\"resource:demo://secret\" = [\"x\"]\n", key: true, only: "modern", rows: "insufficient_scope", policy: "scopes",
		asked: theListen, counter: []string{"dragoman_scope_refusals_total"}},
	"listens": {config: "[limits]\nlistens = 1\n", asked: theListen, only: "modern", rows: "too_busy", policy: "limits", before: func(r *rig) {
		go func() {
			_, _ = r.do(r.t.Context(), "POST", "/mcp", listenBody("1", `"toolsListChanged":true`), modernHeaders("subscriptions/listen", "")...)
		}()
		testkit.Eventually(r.t, "a listen", func() bool { return r.sum("dragoman_listens_open") == 1 })
	}},
	"access at several": {at: "/mcp", config: "[upstreams.default.access.\"*\"]\ndeny_tools = [\"drop\"]\ndeny_prompts = [\"secret\"]\ndeny_resources = [\"demo://secret\"]\n",
		asked: mergedAsked, rows: "tool_not_found invalid_params", policy: "access", counter: []string{"dragoman_access_total", "what", "refused", "server", "default"}},
	"scopes at several": {at: "/mcp", config: "[upstreams.default.scopes]\n\"tool:drop\" = [\"x\"]\n\"prompt:secret\" = [\"x\"]\n\"resource:demo://secret\" = [\"x\"]\n", key: true,
		asked: mergedAsked, rows: "insufficient_scope", policy: "scopes", counter: []string{"dragoman_scope_refusals_total"}},
	"scopes of whole methods at several": {at: "/mcp", config: "[upstreams.default.scopes]\n\"method:*\" = [\"x\"]\n", key: true,
		asked: mergedAsked, rows: "insufficient_scope", policy: "scopes", counter: []string{"dragoman_scope_refusals_total"}},
	"access in a group": {at: "/groups/g", config: "[upstreams.default.access.\"*\"]\ndeny_tools = [\"drop\"]\ndeny_prompts = [\"secret\"]\ndeny_resources = [\"demo://secret\"]\n[groups.g]\n",
		asked: mergedAsked, rows: "tool_not_found invalid_params", policy: "access", counter: []string{"dragoman_access_total", "what", "refused", "server", "default"}},
	"denied by a group": {at: "/groups/g", config: "[groups.g]\ndeny_tools = [\"default.drop\"]\ndeny_prompts = [\"default.secret\"]\ndeny_resources = [\"default.demo://secret\"]\n",
		asked: mergedAsked, rows: "tool_not_found invalid_params", policy: "access", counter: []string{"dragoman_access_total", "what", "refused", "server", proxy.GroupTarget("g")}},
	"scopes of a group": {at: "/groups/g", config: "[groups.g]\nscopes = [\"x\"]\n", key: true, unopened: true, only: "modern",
		asked: mergedAsked, rows: "insufficient_scope", policy: "scopes", counter: []string{"dragoman_scope_refusals_total"}},
	"policy hook": {hook: denyAnswer, asked: allAsked, rows: "policy_denied", policy: "policy_hook", counter: []string{"dragoman_policy_hook_answers_total", "answer", "denied"}},
	"result":      {hook: `{"result":{"allow":false}}`, results: true, asked: allAsked[:1], rows: "policy_denied", policy: "policy_hook", counter: []string{"dragoman_policy_hook_answers_total", "phase", "result", "answer", "denied"}},
	"policy hook that is away": {config: "[policy_hook]\nurl = \"http://127.0.0.1:1\"\n", asked: allAsked[:3], rows: "policy_unavailable", policy: "policy_hook",
		counter: []string{"dragoman_policy_hook_answers_total", "answer", "failed"}},
	"policy hook at several": {at: "/mcp", hook: denyAnswer, asked: mergedAsked, rows: "policy_denied", policy: "policy_hook", counter: []string{"dragoman_policy_hook_answers_total", "answer", "denied"}},
	"arguments":              {asked: []asked{{"tools/call", `"name":"strict","arguments":{}`}}, only: "/", rows: "arguments_invalid", policy: "schema"},
	"rest arguments":         {asked: []asked{{"tools/call", `"name":"strict","arguments":{}`}}, only: "rest", rows: "arguments_invalid", policy: "schema"},
}

// A refusal is a refusal everywhere, whichever way the request came: in the audit trail, in the counter of its policy and
// that of requests, in the access log, and in the trace. It is recorded once.
func TestEveryRefusalIsRecorded(t *testing.T) {
	for name, c := range refusals {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUpstream(t, "legacy")
			u.on("tools/list", func(c *call) {
				c.result(`{"tools":[{"name":"drop","inputSchema":{"type":"object"}},{"name":"hang","inputSchema":{"type":"object"}},{"name":"strict","inputSchema":{"type":"object","required":["a"]}}]}`)
			})
			u.on("tools/call", func(c *call) {
				if strings.Contains(c.body, `"hang"`) {
					<-c.cancelled
				}
				c.result(`{"content":[]}`)
			})
			file, spans := filepath.Join(t.TempDir(), "audit.log"), newCollector(t)
			audit := fmt.Sprintf("[audit]\nenabled = true\nmethods = [\"*\"]\nfile = %q\n", file)
			keys, key := keysToml("ci")
			if c.key {
				audit += "[security]\napi_keys_enabled = true\n" + keys + c.ofKey
			}
			beside := ""
			if c.at != "" {
				beside = strings.Replace(newUpstream(t, "legacy").toml(""), "default", "other", 1)
			}
			r := startRig(t, audit+spans.toml("")+u.toml("")+beside+c.config+c.decider(t), true)
			if c.key {
				r = r.as(key["ci"])
			}
			r.base += strings.TrimSuffix(c.at, "/mcp")
			ways := append([]way{r.modernWay()}, r.restNamed()...)
			if !c.unopened {
				ways = append(r.waysIn(), r.restNamed()...)
			}
			if c.before != nil {
				c.before(r)
				testkit.Eventually(t, "the line of what came before", func() bool {
					text, _ := os.ReadFile(file)
					return name == "busy" || name == "listens" || strings.Contains(string(text), `"tools/call"`)
				})
			}
			for _, ask := range c.asked {
				for _, w := range ways {
					if !strings.Contains(w.name, c.only) || strings.HasPrefix(w.name, "/") && !strings.HasSuffix(w.name, ask.method) {
						continue
					}
					w.name += " " + ask.method
					c.check(t, r, w, ask, file, spans)
				}
			}
		})
	}
}

// decider returns the configuration of the decision point of a case, if it has one.
func (c *refusal) decider(t *testing.T) string {
	if c.hook == "" {
		return ""
	}
	return newDecider(t, func(in hookInput) string {
		if c.results && in.Phase == "request" {
			return permitAnswer
		}
		return c.hook
	}).toml("methods = [\"tools/call\", \"prompts/get\", \"resources/read\", \"completion/complete\"]\nresults = " + fmt.Sprint(c.results) + "\n")
}

// check makes a request that is refused, and compares what is recorded before and after.
func (c *refusal) check(t *testing.T, r *rig, w way, ask asked, file string, spans *collector) {
	t.Helper()
	lines := func() (all [][]byte) {
		text, _ := os.ReadFile(file)
		for line := range bytes.Lines(text) {
			if bytes.HasSuffix(line, []byte("\n")) && bytes.Contains(line, []byte(`"method":"`+ask.method+`"`)) {
				all = append(all, line)
			}
		}
		return all
	}
	count := func() (policy, requests float64, logged, traced int) {
		if len(c.counter) > 0 {
			policy = r.sum(c.counter[0], c.counter[1:]...)
		}
		for row := range strings.FieldsSeq(c.rows) {
			requests += r.sum("dragoman_requests_total", "outcome", row)
			logged += strings.Count(r.logs.String(), `"outcome":"`+row+`"`)
			for _, s := range spans.all() {
				if s.Kind == tracepb.Span_SPAN_KIND_SERVER && attributeOf(s.Attributes, "dragoman.outcome") == row && s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
					traced++
				}
			}
		}
		return policy, requests, logged, traced
	}
	before := len(lines())
	policy, requests, logged, traced := count()
	got := w.ask(ask.method, ask.params)
	if strings.Contains(got, `"result":`) {
		t.Errorf("%s: %s", w.name, got)
	}
	testkit.Eventually(t, w.name+": a line of the audit trail", func() bool { return len(lines()) > before })
	var line struct{ Decision, Policy, Outcome, Status, Method, Server string }
	all := lines()
	if err := json.Unmarshal(all[len(all)-1], &line); err != nil || len(all) != before+1 || line.Decision != "denied" || line.Policy != c.policy ||
		!strings.Contains(c.rows, line.Outcome) || line.Status != "error" || line.Method != ask.method {
		t.Errorf("%s: the audit trail has %d new lines, the last one %s; want denied by %s", w.name, len(all)-before, all[len(all)-1], c.policy)
	}
	testkit.Eventually(t, w.name+": a span", func() bool { _, _, _, n := count(); return n > traced })
	policyNow, requestsNow, loggedNow, tracedNow := count()
	if len(c.counter) > 0 && policyNow != policy+1 || requestsNow != requests+1 || loggedNow != logged+1 || tracedNow != traced+1 {
		t.Errorf("%s: %v counts %v more, dragoman_requests_total %v, the log %d, the trace %d; want 1 of each", w.name, c.counter, policyNow-policy, requestsNow-requests, loggedNow-logged, tracedNow-traced)
	}
}

// On standard input, a refusal is denied in the audit trail, too.
func TestRefusalsOnStdioAreAudited(t *testing.T) {
	c := refusals["access"]
	u := newUpstream(t, "legacy")
	file := filepath.Join(t.TempDir(), "audit.log")
	p := startStdio(t, fmt.Sprintf("[audit]\nenabled = true\nmethods = [\"*\"]\nfile = %q\n", file)+u.toml("")+c.config)
	want := 0
	for _, w := range p.waysIn() {
		for _, ask := range c.asked {
			w.ask(ask.method, ask.params)
			want++
		}
	}
	denied := `"decision":"denied","policy":"access","status":"error"`
	testkit.Eventually(t, "all lines", func() bool { text, _ := os.ReadFile(file); return strings.Count(string(text), denied) == want })
}

// A name that several servers have is no refusal: the answer lists the candidates. Nor is it one to find out what a caller may see.
func TestLooksAreNoRefusals(t *testing.T) {
	lists := func() *upstream {
		u := newUpstream(t, "legacy")
		u.on("tools/list", func(c *call) { c.result(`{"tools":[{"name":"both","inputSchema":{"type":"object"}}]}`) })
		return u
	}
	file := filepath.Join(t.TempDir(), "audit.log")
	keys, key := keysToml("ci")
	toml := fmt.Sprintf("[audit]\nenabled = true\nmethods = [\"*\"]\nfile = %q\n[security]\napi_keys_enabled = true\n", file) + keys
	for _, name := range []string{"a", "b", "hidden", "unlisted"} {
		toml += strings.Replace(lists().toml(""), "default", name, 1)
	}
	toml += "[upstreams.hidden.scopes]\n\"method:*\" = [\"x\"]\n[upstreams.unlisted.scopes]\n\"method:tools/list\" = [\"x\"]\n\"method:resources/*\" = [\"x\"]\n[groups.g]\n"
	whole := startRig(t, toml, true).as(key["ci"])
	group := *whole
	group.base += "/groups/g"
	for _, r := range []*rig{whole, &group} {
		for _, w := range r.waysIn() {
			for _, method := range []string{"tools/list", "resources/list"} {
				if got := w.ask(method, ""); strings.Contains(got, "hidden.both") || strings.Contains(got, "unlisted.both") || !strings.Contains(got, `"result":`) && w.name != "rest" {
					t.Errorf("%s %s: %s", w.name, method, got)
				}
			}
			if got := w.ask("tools/call", `"name":"both","arguments":{}`); !strings.Contains(got, "several servers have both; name one: a.both, b.both") {
				t.Errorf("%s: %s", w.name, got)
			}
			if n := r.sum("dragoman_scope_refusals_total") + r.sum("dragoman_access_total", "what", "refused"); n != 0 {
				t.Errorf("%s: %v refusals are counted", w.name, n)
			}
		}
	}
	testkit.Eventually(t, "lines of the audit trail", func() bool {
		text, _ := os.ReadFile(file)
		return strings.Count(string(text), `"toolName":"both"`) == 8
	})
	if text, _ := os.ReadFile(file); strings.Contains(string(text), "denied") {
		t.Fatalf("the audit trail:\n%s", text)
	}
}
