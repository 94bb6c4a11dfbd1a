package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"dragoman/adapters/aggregator"
	"dragoman/internal/testkit"
)

// The API finds tools of registered servers, with the states of these.
func TestSearchOfTheAPI(t *testing.T) {
	a := startAggregator(t, testkit.WriteFile(t, "c.toml", aggregatorToml(t, "[context]\nmode = \"search\"\n")))
	a.want(201, "POST", "/servers", registration("one", toolsServer(t, "create_issue", "delete_issue"), true), nil)
	a.want(201, "POST", "/servers", registration("two", toolsServer(t, "create_issue"), true), nil)
	a.becomes("one", "CONNECTED")
	a.becomes("two", "CONNECTED")
	var found []aggregator.FoundTool
	search := func(query string) string {
		a.want(200, "GET", "/search?"+query, "", &found)
		var all []string
		for _, f := range found {
			all = append(all, f.Name+" "+f.Source.Name+" "+f.Source.Status)
			if f.Score <= 0 || len(f.Why) == 0 || f.Source.ID == "" || f.InputSchema == nil {
				t.Errorf("%+v", f)
			}
		}
		return strings.Join(all, ", ")
	}
	testkit.Eventually(t, "the tools are found", func() bool { return strings.Count(search("q=create+an+issue"), "create_issue") == 2 })
	if got := search("q=create+an+issue&limit=2"); got != "one.create_issue one CONNECTED, two.create_issue two CONNECTED" {
		t.Errorf("%s", got)
	}
	if got := search("q=issue&server=one&limit=5"); strings.Contains(got, "two.") || strings.Count(got, "one.") != 2 {
		t.Errorf("of one: %s", got)
	}
	a.want(200, "POST", "/servers/one/disconnect", "", nil)
	a.becomes("one", "DISCONNECTED")
	if got := search("q=delete+issue&limit=1"); got != "one.delete_issue one DISCONNECTED" {
		t.Errorf("of a server that is disconnected: %s", got)
	}
	client := func(query string) string {
		return a.send(a.base+"/tools/search?"+query, "", "GET", "", nil).body
	}
	if got := client("q=delete+issue"); strings.Contains(got, "one.") || !strings.Contains(got, `"two.create_issue"`) {
		t.Errorf("clients find %s", got)
	}
	for _, query := range []string{"", "q=", "q=x&limit=0", "q=x&limit=101", "q=x&limit=y", "q=" + strings.Repeat("x", 2001)} {
		a.want(422, "GET", "/search?"+query, "", nil)
	}
	for query, want := range map[string]string{"": "q must say", "q=x&limit=0": "limit", "q=x&limit=y": "limit", "q=x&read_only=y": "read_only", "q=x&log_level=y": "log_level"} {
		if got := client(query); !strings.Contains(got, want) || !strings.Contains(got, `"success":false`) {
			t.Errorf("%q: %s", query, got)
		}
	}
	var c aggregator.Contexts
	a.want(200, "GET", "/contexts", "", &c)
	if len(c.Contexts) != 1 || c.Contexts[0].Path != "/mcp" || c.Contexts[0].Mode != "search" || !c.Contexts[0].Short || c.Searches == 0 {
		t.Errorf("%+v", c)
	}
}

// A single server is not searched, and the error says how it would be.
func TestSearchOfOneServer(t *testing.T) {
	u := newUpstream(t, "modern")
	r := startRig(t, u.toml(""), true)
	if res := r.must("GET", "/tools/search?q=x", ""); res.status != 404 || !strings.Contains(res.body, `merge = \"always\"`) {
		t.Errorf("%d %s", res.status, res.body)
	}
}

// Policies, the audit trail and metrics see the tool that is called, and not the one through which it is.
func TestPoliciesSeeTheRealTool(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit")
	u, other := newUpstream(t, "modern"), newUpstream(t, "modern")
	u.answerList("tools/list", `"tools":[{"name":"slow","inputSchema":{"type":"object"}},{"name":"denied","inputSchema":{"type":"object"}},{"name":"free","inputSchema":{"type":"object"}}]`)
	u.on("tools/call", func(c *call) { c.result(`{"content":[],"resultType":"complete"}`) })
	r := startRig(t, fmt.Sprintf("context.mode = \"search\"\ncatalogue.path = \"memory\"\naudit.enabled = true\naudit.arguments = \"full\"\naudit.file = %q\n", file)+
		u.toml("")+"[upstreams.default.tools.slow]\nrate_limit = 1\n"+accessDenies+fmt.Sprintf("[upstreams.other]\nurl = %q\n", other.url), true)
	through := func(tool string) string {
		return r.must("POST", "/mcp", modernAsk("tools/call", fmt.Sprintf(`"name":"call_tool","arguments":{"name":%q,"arguments":{"x":1}}`, tool)), modernHeaders("tools/call", "call_tool")...).body
	}
	for _, c := range [][2]string{{"default.slow", `"result"`}, {"default.slow", "rate"}, {"default.denied", "Tool not found"}, {"default.free", `"result"`}} {
		if got := through(c[0]); !strings.Contains(got, c[1]) {
			t.Errorf("%s: %s", c[0], got)
		}
	}
	r.must("POST", "/mcp", modernAsk("tools/call", `"name":"find_tools","arguments":{"query":"x"}`), modernHeaders("tools/call", "find_tools")...)
	var lines []string
	testkit.Eventually(t, "the audit trail is written", func() bool {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines = nil
		for line := range strings.Lines(string(raw)) {
			var l struct {
				ToolName, Through string
				Arguments         any
				Outcome           string
			}
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatal(err)
			}
			lines = append(lines, fmt.Sprint(l.ToolName, " ", l.Through, " ", l.Arguments))
		}
		return len(lines) == 5
	})
	want := "default.slow call_tool map[x:1]; default.slow call_tool map[x:1]; default.denied call_tool map[x:1]; default.free call_tool map[x:1]; find_tools  map[query:x]"
	if got := strings.Join(lines, "; "); got != want {
		t.Errorf("audited: %s\nwant %s", got, want)
	}
}

// embeddings is a service with OpenAI's API for embeddings, which knows that two words mean the same. No real one can run here; the model of the
// conformance tests is real (conformance/embedding).
type embeddings struct {
	mu    sync.Mutex
	fails bool
	keys  []string // Authorization fields
	texts []string
}

func (s *embeddings) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var in struct{ Input []string }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || r.URL.Path != "/v1/embeddings" || s.fails {
		http.Error(w, `{"error":{"message":"out of order"}}`, http.StatusBadRequest)
		return
	}
	s.keys, s.texts = append(s.keys, r.Header.Get("Authorization")), append(s.texts, in.Input...)
	type one struct {
		Index     int       `json:"index"`
		Embedding []float32 `json:"embedding"`
	}
	out := struct {
		Data []one `json:"data"`
	}{}
	for i, text := range in.Input {
		v := []float32{0.1, 0, 0}
		for _, word := range []string{"lawn", "grass"} {
			if strings.Contains(strings.ToLower(text), word) {
				v[1] = 1
			}
		}
		if strings.Contains(text, "dough") {
			v[2] = 1
		}
		out.Data = append(out.Data, one{i, v})
	}
	_ = json.NewEncoder(w).Encode(out)
}

func (s *embeddings) fail(fails bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = fails
}

// With a model, tools are found by what words mean; if it fails, by the words. Each text is embedded once, also over a restart, and the key is
// sent to the service and is nowhere else.
func TestSearchByMeaning(t *testing.T) {
	service := &embeddings{}
	u, other := newUpstream(t, "modern"), newUpstream(t, "modern")
	u.answerList("tools/list", `"tools":[{"name":"mow","description":"Cuts the lawn","inputSchema":{"type":"object"}},{"name":"knead","description":"Kneads dough","inputSchema":{"type":"object"}}]`)
	toml := fmt.Sprintf("context.mode = \"search\"\ncatalogue.path = %q\n[search.embeddings]\nurl = %q\nmodel = \"m\"\nkey = %q\n", filepath.Join(t.TempDir(), "c.db"), newTestServer(t, service)+"/v1", "file:"+testkit.WriteFile(t, "key", "s3cret-of-the-service")) +
		u.toml("") + fmt.Sprintf("[upstreams.other]\nurl = %q\n", other.url)
	find := func(r *rig, query string) string {
		return r.must("GET", "/tools/search?limit=1&q="+strings.ReplaceAll(query, " ", "+"), "").body
	}
	if !t.Run("first", func(t *testing.T) {
		r := startRig(t, toml, true)
		testkit.Eventually(t, "the tool is found by meaning", func() bool { return strings.Contains(find(r, "shorten my grass"), `"default.mow"`) })
		if got := find(r, "shorten my grass"); !strings.Contains(got, `"meaning"`) {
			t.Errorf("%s", got)
		}
		service.fail(true)
		if got := find(r, "dough and nothing else"); !strings.Contains(got, `"default.knead"`) || strings.Contains(got, `"meaning"`) {
			t.Errorf("by words: %s", got)
		}
		service.fail(false)
	}) {
		return
	}
	service.mu.Lock()
	before := len(service.texts)
	for _, key := range service.keys {
		if key != "Bearer s3cret-of-the-service" {
			t.Errorf("the key was %q", key)
		}
	}
	service.mu.Unlock()
	r := startRig(t, toml, true)
	testkit.Eventually(t, "the tool is found by meaning after a restart", func() bool { return strings.Contains(find(r, "shorten my grass"), `"meaning"`) })
	service.mu.Lock()
	defer service.mu.Unlock()
	for _, text := range service.texts[before:] {
		if strings.Contains(text, "lawn") || strings.Contains(text, "Kneads") {
			t.Errorf("embedded again after a restart: %q", text)
		}
	}
}
