package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"dragoman/internal/app"
	"dragoman/internal/testkit"
)

// hookInput is the input of a question to a decision point.
type hookInput struct {
	Version                                                                    int
	Phase, Principal, Credential, Server, Method, Tool, Prompt, Resource, Task string
	PublicName, CorrelationID                                                  string
	Scopes                                                                     []string
	Client                                                                     struct{ Era, Revision, Name string }
	Annotations                                                                map[string]any
	Arguments, Result                                                          any
}

// decider is a decision point that speaks as the Open Policy Agent does.
type decider struct {
	url    string
	mu     sync.Mutex
	asked  []hookInput
	parent string // traceparent of the last question
	decide func(in hookInput) string
}

func newDecider(t *testing.T, decide func(in hookInput) string) *decider {
	t.Helper()
	d := &decider{decide: decide}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct{ Input hookInput }
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || r.Method != "POST" || r.URL.Path != "/v1/data/mcp/allow" || q.Input.Version != 1 || q.Input.CorrelationID == "" {
			t.Errorf("%s %s: %v, %+v", r.Method, r.URL, err, q)
		}
		d.mu.Lock()
		d.asked, d.parent = append(d.asked, q.Input), r.Header.Get("Traceparent")
		d.mu.Unlock()
		_, _ = w.Write([]byte(decide(q.Input)))
	}))
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	d.url = srv.URL + "/v1/data/mcp/allow"
	return d
}

// toml is the configuration by which it is asked; extra are further keys, a line each.
func (d *decider) toml(extra string) string {
	return fmt.Sprintf("[policy_hook]\nurl = %q\n%s\n", d.url, extra)
}

// take returns what was asked since it was called last.
func (d *decider) take() []hookInput {
	d.mu.Lock()
	defer d.mu.Unlock()
	asked := d.asked
	d.asked = nil
	return asked
}

// only returns the one question since take was called last.
func (d *decider) only(t *testing.T, what string) hookInput {
	t.Helper()
	asked := d.take()
	if len(asked) != 1 {
		t.Errorf("%s: asked %d times, want once: %+v", what, len(asked), asked)
		return hookInput{}
	}
	return asked[0]
}

// listsTools makes a server list the tools of these tests.
func (u *upstream) listsTools() {
	u.on("tools/list", func(c *call) {
		c.result(`{"tools":[{"name":"drop","annotations":{"destructiveHint":true},"inputSchema":{"type":"object"}},{"name":"keep","inputSchema":{"type":"object"}},{"name":"own","inputSchema":{"type":"object"}}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}`)
	})
}

const (
	denyAnswer   = `{"result":{"allow":false,"reason":"not on Sundays"}}`
	permitAnswer = `{"result":true}`
)

// The decision point is asked about each request that uses something of a server, whichever way it came and whatever the server speaks, and
// about no other. What it denies does not reach the server.
func TestPolicyHook(t *testing.T) {
	deny := newDecider(t, func(in hookInput) string {
		if strings.Contains(in.Tool+in.Prompt+in.Resource, "secret") || in.Tool == "drop" {
			return denyAnswer
		}
		return permitAnswer
	})
	everyWay(t, deny.toml("arguments = \"full\"\n"), func(t *testing.T, u *upstream, w way) {
		u.on("tools/call", func(c *call) { c.result(`{"content":[],"resultType":"complete"}`) })
		u.listsTools()
		deny.take()
		for _, ask := range []asked{{"tools/call", theTool}, {"prompts/get", thePrompt}, {"resources/read", theResource}} {
			got := w.ask(ask.method, ask.params)
			if !strings.Contains(got, "the policy hook has denied this request: not on Sundays") || !strings.Contains(got, `"policy_denied"`) || len(u.all(ask.method)) != 0 {
				t.Errorf("%s: %s; the server got %d", ask.method, got, len(u.all(ask.method)))
			}
			in := deny.only(t, ask.method)
			era := "modern"
			if w.name == "legacy" || w.name == "sse" || w.name == "stdio legacy" {
				era = "legacy"
			}
			if in.Phase != "request" || in.Server != "default" || in.Method != ask.method || in.Client.Era != era || in.Client.Revision == "" || in.PublicName != "" {
				t.Errorf("%s: asked %+v", ask.method, in)
			}
		}
		if got := w.ask("tools/call", `"name":"keep","arguments":{"a":"b"}`); strings.Contains(got, "denied") || len(u.all("tools/call")) != 1 {
			t.Errorf("a call that is permitted: %s", got)
		}
		if in := deny.only(t, "a call"); in.Tool != "keep" || fmt.Sprint(in.Arguments) != "map[a:b]" {
			t.Errorf("asked %+v", in)
		}
		w.ask("tools/list", "")
		if asked := deny.take(); len(asked) != 0 {
			t.Errorf("asked about a list: %+v", asked)
		}
	})
}

// A denial and a decision point that cannot be asked have a status of their own for REST callers. For MCP clients they are answers to their
// request: a status of HTTP would end the session of some.
func TestPolicyHookStatuses(t *testing.T) {
	d := newDecider(t, func(hookInput) string { return denyAnswer })
	for toml, want := range map[string]struct {
		status int
		data   string
	}{
		d.toml(""): {403, `"data":{"code":"policy_denied","retryable":false}`},
		"[policy_hook]\nurl = \"http://127.0.0.1:1\"\n": {503, `"data":{"code":"policy_unavailable","retryable":true}`},
	} {
		u := newUpstream(t, "modern")
		u.listsTools()
		r := startRig(t, u.toml("")+toml, true)
		if res := r.must("POST", "/mcp/tools/call", "{"+theTool+"}", "Content-Type", jsonType); res.status != want.status {
			t.Errorf("rest: %d %s", res.status, res.body)
		}
		if res := r.must("POST", "/mcp", modernAsk("tools/call", theTool), modernHeaders("tools/call", "drop")...); res.status != 200 || !strings.Contains(res.body, want.data) {
			t.Errorf("modern: %d %s", res.status, res.body)
		}
	}
}

// A call at several servers is asked about once, for the server that gets it, by that one's names, with what it says of its tool.
func TestPolicyHookAtSeveral(t *testing.T) {
	d := newDecider(t, func(in hookInput) string {
		if in.Tool == "drop" {
			return denyAnswer
		}
		return permitAnswer
	})
	toml := d.toml("methods = [\"tools/call\", \"resources/read\"]\n")
	ups := map[string]*upstream{}
	for name, kind := range map[string]string{"a": "modern", "b": "legacy"} {
		u := newUpstream(t, kind)
		u.listsTools()
		u.on("tools/call", func(c *call) { c.result(`{"content":[],"resultType":"complete"}`) })
		ups[name] = u
		toml += strings.Replace(u.toml(""), "default", name, 1) + "[upstreams." + name + ".tools.own]\nrename = \"theirs\"\n"
	}
	r := startRig(t, toml+"[groups.g]\n", true)
	group := *r
	group.base += "/groups/g"
	for _, at := range []*rig{r, &group} {
		for _, w := range at.waysIn() {
			for name, u := range ups {
				d.take()
				u.forget()
				if got := w.ask("tools/call", fmt.Sprintf(`"name":"%s.drop","arguments":{}`, name)); !strings.Contains(got, "not on Sundays") || len(u.all("tools/call")) != 0 {
					t.Errorf("%s: %s", w.name, got)
				}
				if in := d.only(t, w.name); in.Server != name || in.Tool != "drop" || in.PublicName != name+".drop" || fmt.Sprint(in.Annotations) != "map[destructiveHint:true]" || in.Client.Revision == "" || in.Client.Name == "" && w.name != "rest" {
					t.Errorf("%s: asked %+v", w.name, in)
				}
				for tool, own := range map[string]string{"keep": "keep", "theirs": "own"} {
					if got := w.ask("tools/call", fmt.Sprintf(`"name":"%s.%s","arguments":{}`, name, tool)); strings.Contains(got, "denied") {
						t.Errorf("%s: %s", w.name, got)
					}
					if in := d.only(t, w.name); in.Server != name || in.Tool != own || in.PublicName != name+"."+tool || in.Annotations != nil {
						t.Errorf("%s: asked %+v", w.name, in)
					}
				}
			}
		}
	}
	d.take()
	if got := r.must("POST", "/servers/a/mcp", modernAsk("tools/call", `"name":"theirs","arguments":{}`), modernHeaders("tools/call", "theirs")...).body; strings.Contains(got, "denied") {
		t.Error(got)
	}
	if in := d.only(t, "one server"); in.Tool != "own" || in.PublicName != "theirs" {
		t.Errorf("asked %+v", in)
	}
}

// A result that is denied does not reach the client. The audit trail says that the server was asked, and who has denied.
func TestPolicyHookOfResults(t *testing.T) {
	d := newDecider(t, func(in hookInput) string {
		if in.Phase == "result" && strings.Contains(fmt.Sprint(in.Result), "s3cret") {
			return denyAnswer
		}
		return permitAnswer
	})
	file := filepath.Join(t.TempDir(), "audit.log")
	everyWay(t, d.toml("results = true\narguments = \"full\"\n")+fmt.Sprintf("[audit]\nenabled = true\nfile = %q\n", file), func(t *testing.T, u *upstream, w way) {
		u.listsTools()
		d.take()
		for _, text := range []string{"plain", "s3cret"} {
			u.on("tools/call", func(c *call) {
				c.result(`{"content":[{"type":"text","text":"` + text + `"}],"resultType":"complete"}`)
			})
			u.forget()
			before := strings.Count(testkit.ReadText(t, file), "\n")
			got := w.ask("tools/call", theTool)
			if denied := strings.Contains(got, "the server has carried out the request, but the policy hook has denied the result: not on Sundays"); denied != (text == "s3cret") || strings.Contains(got, text) == denied || len(u.all("tools/call")) != 1 {
				t.Errorf("%s: %s; the server got %d", text, got, len(u.all("tools/call")))
			}
			if asked := d.take(); len(asked) != 2 || asked[0].Phase != "request" || asked[1].Phase != "result" || asked[1].Tool != "drop" {
				t.Errorf("%s: asked %+v", text, asked)
			}
			testkit.Eventually(t, "a line of the audit trail", func() bool { return strings.Count(testkit.ReadText(t, file), "\n") > before })
			lines := strings.Split(strings.TrimSpace(testkit.ReadText(t, file)), "\n")
			last := lines[len(lines)-1]
			want := `"decision":"allowed"`
			if text == "s3cret" {
				want = `"decision":"denied","policy":"policy_hook","status":"error","outcome":"policy_denied"`
			}
			if !strings.Contains(last, want) || !strings.Contains(last, `"upstreamEra":`) || text == "s3cret" && !strings.Contains(last, "the server has carried out the request") {
				t.Errorf("%s: %s", text, last)
			}
		}
	})
}

// A result from the cache is asked about as any other. An answer of the decision point is kept for as long as it says.
func TestPolicyHookAndTheCaches(t *testing.T) {
	var answer atomic.Pointer[string]
	says := func(text string) { answer.Store(&text) }
	d := newDecider(t, func(hookInput) string { return *answer.Load() })
	u := newUpstream(t, "modern")
	u.on("resources/read", func(c *call) {
		c.result(`{"contents":[{"uri":"demo://a","text":"x"}],"resultType":"complete","ttlMs":60000,"cacheScope":"public"}`)
	})
	r := startRig(t, "[cache]\nbytes = \"1MiB\"\n"+u.toml("")+d.toml("results = true\n"), true)
	read := func(want string) {
		t.Helper()
		if got := r.must("POST", "/mcp", modernAsk("resources/read", `"uri":"demo://a"`), modernHeaders("resources/read", "demo://a")...).body; !strings.Contains(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
	says(permitAnswer)
	read(`"text":"x"`)
	read(`"text":"x"`)
	if asked := d.take(); len(asked) != 4 || len(u.all("resources/read")) != 1 {
		t.Errorf("asked %d times, the server %d", len(asked), len(u.all("resources/read")))
	}
	says(denyAnswer)
	read("denied this request: not on Sundays")
	says(`{"result":{"allow":true,"ttl":600}}`)
	read(`"text":"x"`)
	d.take()
	says(denyAnswer)
	read(`"text":"x"`)
	if asked := d.take(); len(asked) != 0 {
		t.Errorf("asked %+v", asked)
	}
	if n := r.sum("dragoman_policy_hook_answers_total", "source", "cached"); n != 2 {
		t.Errorf("%v answers were counted as cached", n)
	}
}

// A call that goes to a fallback is asked about for each of the two servers, its result for the one that has given it.
func TestPolicyHookAtAFallback(t *testing.T) {
	d := newDecider(t, func(hookInput) string { return permitAnswer })
	other := newUpstream(t, "modern")
	other.on("tools/call", func(c *call) { c.result(`{"content":[],"resultType":"complete"}`) })
	r := startRig(t, "[upstreams.default]\nurl = \"http://127.0.0.1:1/mcp\"\nfallback = \"other\"\n"+strings.Replace(other.toml(""), "default", "other", 1)+d.toml("results = true\n"), false)
	var got string
	testkit.Eventually(t, "the fallback serves", func() bool {
		d.take()
		got = r.must("POST", "/servers/default/mcp", modernAsk("tools/call", theTool), modernHeaders("tools/call", "drop")...).body
		return strings.Contains(got, `"content":[]`)
	})
	var asked []string
	for _, in := range d.take() {
		asked = append(asked, in.Phase+" "+in.Server)
	}
	if got := strings.Join(asked, ", "); got != "request default, request other, result other" {
		t.Errorf("asked about %s", got)
	}
}

// The policy hook comes, changes and goes with the configuration. A call that began with one asks that about its result.
func TestReloadOfThePolicyHook(t *testing.T) {
	first := newDecider(t, func(hookInput) string { return permitAnswer })
	second := newDecider(t, func(hookInput) string { return denyAnswer })
	u := newUpstream(t, "legacy")
	began, free := make(chan struct{}), make(chan struct{})
	u.on("tools/call", func(c *call) {
		if strings.Contains(c.body, `"slow"`) {
			close(began)
			<-free
		}
		c.result(`{"content":[]}`)
	})
	r := startRig(t, u.toml("")+first.toml("results = true\n"), true)
	call := func(name string) string {
		res, err := r.do(t.Context(), "POST", "/mcp", modernCall("1", name, ""), modernHeaders("tools/call", name)...)
		if err != nil {
			return err.Error()
		}
		return res.body
	}
	slow := make(chan string, 1)
	go func() { slow <- call("slow") }()
	testkit.Receive(t, "the slow call", began)
	r.reload(app.ReloadApplied, u.toml("")+second.toml("results = true\n"))
	if got := call("drop"); !strings.Contains(got, "not on Sundays") {
		t.Errorf("after a change: %s", got)
	}
	r.reload(app.ReloadApplied, u.toml(""))
	if got := call("drop"); !strings.Contains(got, `"content":[]`) {
		t.Errorf("without a hook: %s", got)
	}
	close(free)
	if got := testkit.Receive(t, "the slow call's result", slow); !strings.Contains(got, `"content":[]`) {
		t.Errorf("a call that began before: %s", got)
	}
	if asked := first.take(); len(asked) != 2 || asked[1].Phase != "result" || len(second.take()) != 1 {
		t.Errorf("the first was asked %+v", asked)
	}
}

// A client that leaves ends its question; a slow decision point delays nobody else.
func TestASlowPolicyHook(t *testing.T) {
	reached, free := make(chan struct{}, 1), make(chan struct{})
	d := newDecider(t, func(in hookInput) string {
		if in.Tool == "drop" {
			reached <- struct{}{}
			<-free
		}
		return permitAnswer
	})
	defer close(free)
	u := newUpstream(t, "modern")
	u.on("tools/call", func(c *call) { c.result(`{"content":[],"resultType":"complete"}`) })
	r := startRig(t, u.toml("")+d.toml("timeout = \"30s\"\n"), true)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	errs := make(chan error, 1)
	go func() {
		_, err := r.do(ctx, "POST", "/mcp", modernCall("1", "drop", ""), modernHeaders("tools/call", "drop")...)
		errs <- err
	}()
	testkit.Receive(t, "the question", reached)
	if got := r.must("POST", "/mcp", modernCall("2", "keep", ""), modernHeaders("tools/call", "keep")...); got.status != 200 || !strings.Contains(got.body, `"content":[]`) {
		t.Errorf("a call beside it: %+v", got)
	}
	leave()
	if err := testkit.Receive(t, "the end of the client's call", errs); err == nil {
		t.Error("the call has an answer")
	}
	testkit.Eventually(t, "the end of the call", func() bool { return r.sum("dragoman_requests_in_flight") == 0 })
	if n := r.sum("dragoman_requests_total", "outcome", "cancelled"); n != 1 || r.sum("dragoman_policy_hook_answers_total", "answer", "failed") != 0 {
		t.Errorf("%v calls are counted as cancelled", n)
	}
}

// A question has a span below that of its request, which the decision point gets as the parent of its own.
func TestPolicyHookIsTraced(t *testing.T) {
	d, spans := newDecider(t, func(hookInput) string { return denyAnswer }), newCollector(t)
	r := startRig(t, newUpstream(t, "modern").toml("")+d.toml("")+spans.toml(""), true)
	r.must("POST", "/mcp", modernAsk("tools/call", theTool), modernHeaders("tools/call", "drop")...)
	asked := spans.wait(tracepb.Span_SPAN_KIND_CLIENT, "policy_hook request", 1)[0]
	request := spans.wait(tracepb.Span_SPAN_KIND_SERVER, "tools/call drop", 1)[0]
	if string(asked.ParentSpanId) != string(request.SpanId) || string(asked.TraceId) != string(request.TraceId) || d.parent != parentOf(asked) {
		t.Errorf("the parent is %x, that of the decision point %s", asked.ParentSpanId, d.parent)
	}
	has(t, asked, "dragoman.outcome", "denied")
}

// Failures are logged when they begin and when they end, and a secret header is in no log.
func TestPolicyHookIsLogged(t *testing.T) {
	var status atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer s3cret" {
			t.Errorf("%v", r.Header)
		}
		w.WriteHeader(int(status.Load()))
		_, _ = w.Write([]byte(permitAnswer))
	}))
	t.Cleanup(srv.Close)
	u := newUpstream(t, "modern")
	u.on("tools/call", func(c *call) { c.result(`{"content":[],"resultType":"complete"}`) })
	r := startRig(t, u.toml("")+fmt.Sprintf("[policy_hook]\nurl = %q\nheaders = { Authorization = \"Bearer s3cret\" }\n", srv.URL), true)
	for _, s := range []int64{500, 500, 200, 200} {
		status.Store(s)
		got := r.must("POST", "/mcp", modernAsk("tools/call", theTool), modernHeaders("tools/call", "drop")...).body
		if strings.Contains(got, "cannot be asked about this request, which was not sent to the server: HTTP status 500") != (s == 500) {
			t.Errorf("%d: %s", s, got)
		}
	}
	logs := r.logs.String()
	if strings.Count(logs, "the policy hook cannot be asked; further failures are counted") != 1 || strings.Count(logs, "the policy hook answers again") != 1 || strings.Contains(logs, "s3cret") {
		t.Errorf("%s", logs)
	}
}
