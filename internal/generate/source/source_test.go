package source

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/goccy/go-json"
	"go.uber.org/goleak"

	"dragoman/internal/generate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRegistry(t *testing.T) {
	for _, test := range []struct{ file, want string }{
		{"services:\n  - name: ai-gateway\n    url: http://localhost:8000\n    enabled: true\n  - name: docwell\n    url: https://localhost:8003/servers/x\n    enabled: false  # Disabled during development\n    token_env: T\n", ""},
		{"", "it names no service"},
		{"services: []", "it names no service"},
		{"services: 1", "[1:11]"},
		{"services:\n  - name: a\n    url: http://h\n    port: 1", "unknown field"},
		{"services:\n  - name: A\n    url: http://h", `services[0]: "A" is no name of a service; fix: `},
		{"services:\n  - name: ../a\n    url: http://h", "is no name of a service"},
		{"services:\n  - name: a\n", `services[0]: "" is no address of a service`},
		{"services:\n  - name: a\n    url: ftp://h", "is no address"},
		{"services:\n  - name: a\n    url: http://u:secret@h", "the address has credentials"},
		{"services:\n  - name: a\n    url: http://h?x=1", "has a query"},
		{"services:\n  - name: a\n    url: http://h\n    token_env: A=B", "is no name of an environment variable"},
		{"services:\n  - name: a\n    url: http://h\n  - name: a\n    url: http://h", "services[1]: a service before it is named a"},
		{"services:\n  - " + strings.Repeat("x", maxRegistry), "has more than"},
	} {
		file := filepath.Join(t.TempDir(), "services.yaml")
		if err := os.WriteFile(file, []byte(test.file), 0o600); err != nil {
			t.Fatal(err)
		}
		all, err := Registry(file)
		if test.want == "" {
			if err != nil || len(all) != 2 || !all[0].On() || all[1].On() || all[1].TokenEnv != "T" {
				t.Errorf("%+v, %v", all, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "services.yaml") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%.80q: %v, want %q", test.file, err, test.want)
		}
	}
	if _, err := Registry("no-file"); err == nil {
		t.Error("a file that is not there")
	}
}

func FuzzRegistry(f *testing.F) {
	f.Add("services:\n  - name: a\n    url: http://h\n")
	f.Add("services: &a [*a]")
	f.Fuzz(func(t *testing.T, file string) {
		all, err := parse([]byte(file))
		for _, e := range all {
			if err == nil && (CheckName(e.Name) != nil || CheckURL(e.URL) != nil) {
				t.Errorf("%+v", e)
			}
		}
	})
}

// service is a service with the tools of one list, which may be in several pages.
type service struct {
	*httptest.Server
	tools  atomic.Value // string: the tools, as JSON
	full   string       // answer of POST /mcp/tools/list; empty: there is none
	status int
	asked  atomic.Int64 // times that it has given its tools
}

func start(t *testing.T, tools string) *service {
	s := &service{}
	s.tools.Store(tools)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case s.status != 0:
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(s.status)
			_, _ = w.Write([]byte("\x1bno"))
		case r.Method == "POST" && s.full != "" && r.URL.Path == "/mcp/tools/list":
			_, _ = w.Write([]byte(s.full))
		case r.Method != "GET" || r.URL.Path != "/tools":
			w.WriteHeader(404)
		default:
			tools := s.tools.Load().(string)
			tag := fmt.Sprintf("%q", fmt.Sprint(len(tools)))
			if r.Header.Get("If-None-Match") == tag {
				w.WriteHeader(304)
				return
			}
			s.asked.Add(1)
			w.Header().Set("ETag", tag)
			if strings.Contains(tools, "next page") && r.URL.Query().Get("offset") != "1" {
				w.Header().Set("Link", `</tools?offset=1>; rel="next"`)
			}
			_, _ = fmt.Fprintf(w, `{"service":"Seal Tools","version":"1.2.3","tools":[%s]}`, strings.ReplaceAll(tools, "OFFSET", r.URL.Query().Get("offset")))
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// ask asks a service once.
func ask(t *testing.T, a Asker) Result {
	t.Helper()
	all, err := a(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	return all[0]
}

func TestOne(t *testing.T) {
	s := start(t, `{"name":"a","description":"A","input_schema":{"type":"object","properties":{"x":{"type":"string"}}}},{"name":"","input_schema":{}},{"name":"b\u001b","input_schema":[]},{"name":"c"},{"name":"a","input_schema":{}}`)
	a, done := One(Entry{URL: s.URL + "/"}, "")
	defer done()
	r := ask(t, a)
	if r.Err != nil || r.Name != "seal-tools" || r.Service.URL != s.URL || r.Service.Version != "1.2.3" || len(r.Service.Tools) != 1 || r.Service.TokenVariable != "MCP_TOKEN_SEAL_TOOLS" {
		t.Fatalf("%+v, %+v", r, r.Service)
	}
	if one := r.Service.Tools[0]; one.Name != "a" || one.Description != "A" || len(one.Arguments.Fields) != 1 || one.Output != nil {
		t.Errorf("%+v", one)
	}
	if got := strings.Join(r.Skipped, "; "); got != `a tool without a name; "b\u001b": its input_schema is no object; "c": its input_schema is no object; "a": there is another of this name` {
		t.Errorf("%s", got)
	}
	// It is asked again, and says that nothing has changed.
	again := ask(t, a)
	if again.Service != r.Service || len(again.Skipped) != 4 || s.asked.Load() != 2 { // once for its name
		t.Errorf("%+v, asked %d times", again, s.asked.Load())
	}
	s.status = 503
	if r := ask(t, a); r.Err == nil || r.Service != nil {
		t.Errorf("%+v", r)
	}
	s.status = 0
	if back := ask(t, a); back.Service != r.Service {
		t.Errorf("%+v", back)
	}
	s.tools.Store(`{"name":"b","input_schema":{"type":"object"}}`)
	if r := ask(t, a); r.Service.Tools[0].Name != "b" {
		t.Errorf("%+v", r)
	}
}

// Where the service is a Dragoman, it also tells titles, results and annotations. Its list may have several pages.
func TestOfADragoman(t *testing.T) {
	s := start(t, `{"name":"toolOFFSET","description":"next page","input_schema":{"type":"object"}}`)
	s.full = `{"tools":[{"name":"tool","title":"T","outputSchema":{"type":"object","properties":{"y":{"type":"integer"}}},"annotations":{"readOnlyHint":true}},{"name":"other"},{"name":"tool1","outputSchema":7}]}`
	a, done := One(Entry{Name: "one", URL: s.URL}, "https://example.com/x")
	defer done()
	r := ask(t, a)
	if r.Err != nil || len(r.Service.Tools) != 2 || r.Service.URL != "https://example.com/x" {
		t.Fatalf("%+v", r)
	}
	if one := r.Service.Tools[0]; one.Title != "T" || one.Result == nil || one.Result.Fields[0].Name != "y" || string(one.Annotations) != `{"readOnlyHint":true}` {
		t.Errorf("%+v", one)
	}
	if two := r.Service.Tools[1]; two.Name != "tool1" || two.Output != nil {
		t.Errorf("%+v", two)
	}
}

func TestFailures(t *testing.T) {
	s := start(t, "")
	for status, want := range map[int]string{302: "/tools answers 302: ", 401: "answers 401; fix: put a token", 403: "answers 403; fix", 404: "answers 404: it has no such path", 500: `answers 500: \u001bno`} {
		s.status = status
		a, done := One(Entry{Name: "one", URL: s.URL}, "")
		if r := ask(t, a); r.Err == nil || !strings.Contains(r.Err.Error(), want) || strings.Contains(r.Err.Error(), "\x1b") {
			t.Errorf("%d: %v, want %q", status, r.Err, want)
		}
		done()
	}
	for body, want := range map[string]string{"[]": "is no list of tools", "{": "is no list of tools", `{"tools":null}`: "is no list of tools", `{"tools":1}`: "is no list of tools"} {
		bad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
		a, done := One(Entry{Name: "one", URL: bad.URL}, "")
		if r := ask(t, a); r.Err == nil || !strings.Contains(r.Err.Error(), want) {
			t.Errorf("%s: %v", body, r.Err)
		}
		if (&Entry{URL: bad.URL}).Answers(t.Context()) {
			t.Errorf("%s is a list of tools", body)
		}
		done()
		bad.Close()
	}
	a, done := One(Entry{Name: "one", URL: "http://127.0.0.1:1"}, "")
	defer done()
	if r := ask(t, a); r.Err == nil || !strings.Contains(r.Err.Error(), "http://127.0.0.1:1 does not answer") || !strings.Contains(r.Err.Error(), "fix: ") {
		t.Errorf("%v", r.Err)
	}
}

// A failing service does not stop the others; one that is not enabled is not asked; a token is sent to its service only.
func TestServices(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]string{}
	server := func(name string) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			seen[name] = r.Header.Get("Authorization") + r.Method
			mu.Unlock()
			if r.Method == "POST" {
				w.WriteHeader(405)
				return
			}
			_, _ = w.Write([]byte(`{"service":"x","tools":[]}`))
		}))
		t.Cleanup(s.Close)
		return s
	}
	t.Setenv("MCP_TOKEN_TWO_B", "secret")
	t.Setenv("OWN_TOKEN", "other")
	file := filepath.Join(t.TempDir(), "services.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	one, two, three, off := server("one"), server("two"), server("three"), server("off")
	write(fmt.Sprintf("services:\n- {name: one, url: %q}\n- {name: two-b, url: %q}\n- {name: down, url: 'http://127.0.0.1:1'}\n- {name: three, url: %q, token_env: OWN_TOKEN}\n- {name: off, url: %q, enabled: false}\n", one.URL, two.URL, three.URL, off.URL))
	a, done := Services(file)
	defer done()
	all, err := a(t.Context())
	if err != nil || len(all) != 4 || all[0].Err != nil || all[1].Err != nil || all[2].Err == nil || all[3].Err != nil || all[3].Service.TokenVariable != "OWN_TOKEN" {
		t.Fatalf("%+v, %v", all, err)
	}
	if seen["one"] != "POST" || seen["two"] != "Bearer secretPOST" || seen["three"] != "Bearer otherPOST" || seen["off"] != "" {
		t.Errorf("%q", seen)
	}
	write(fmt.Sprintf("services:\n- {name: one, url: %q}\n", one.URL))
	if all, err := a(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
	write("services: []")
	if _, err := a(t.Context()); err == nil {
		t.Error("a file that names nothing")
	}
}

// Whatever changes of an answer, or of an error, changes its sum.
func TestSum(t *testing.T) {
	result := func(change func(r *Result)) [32]byte {
		s := &generate.Service{URL: "u", Title: "t", Version: "v", Instructions: "i", Tools: []*generate.Tool{{Name: "n", Title: "t", Description: "d", Input: json.RawMessage("{}"), Output: json.RawMessage("{}"), Annotations: json.RawMessage("{}")}}}
		r := Result{Name: "one", Service: s, Skipped: []string{"a"}}
		change(&r)
		return Sum([]Result{r})
	}
	seen := map[[32]byte]int{}
	for i, change := range []func(r *Result){func(*Result) {}, func(r *Result) { r.Name = "two" }, func(r *Result) { r.Err = errors.New("x") }, func(r *Result) { r.Skipped = nil }, func(r *Result) { r.Service = nil },
		func(r *Result) { r.Service.URL = "" }, func(r *Result) { r.Service.Title = "" }, func(r *Result) { r.Service.Version = "" }, func(r *Result) { r.Service.Instructions = "" }, func(r *Result) { r.Service.TokenVariable = "x" },
		func(r *Result) { r.Service.Tools[0].Name = "" }, func(r *Result) { r.Service.Tools[0].Title = "" }, func(r *Result) { r.Service.Tools[0].Description = "" }, func(r *Result) { r.Service.Tools[0].Input = nil },
		func(r *Result) { r.Service.Tools[0].Output = nil }, func(r *Result) { r.Service.Tools[0].Annotations = nil }, func(r *Result) { r.Service.Tools = nil }, func(r *Result) { r.Service.URL, r.Service.Title = "ut", "" }} {
		sum := result(change)
		if other, twice := seen[sum]; twice {
			t.Errorf("change %d has the sum of %d", i, other)
		}
		if seen[sum] = i; result(change) != sum {
			t.Errorf("change %d has another sum at the second time", i)
		}
	}
}

func TestTools(t *testing.T) {
	all, skipped := Tools([]json.RawMessage{[]byte(`{"name":"a","title":"T","inputSchema":{"type":"object"},"outputSchema":{"type":"object"},"annotations":{}}`), []byte(`1`),
		[]byte(`{"name":"a","inputSchema":{}}`), []byte(`{"name":"b\u202e"}`), []byte(`{"inputSchema":{}}`)})
	if len(all) != 1 || all[0].Title != "T" || string(all[0].Output) != `{"type":"object"}` {
		t.Errorf("%+v", all)
	}
	if got := strings.Join(skipped, "; "); got != `a tool whose definition is no object; "a": there is another of this name; "b\u202e": its inputSchema is no object; a tool without a name` {
		t.Errorf("%s", got)
	}
}

func TestName(t *testing.T) {
	for want, texts := range map[string][]string{"mcp-servers-everything": {"mcp-servers/everything"}, "tools": {"", "标题"}, "n-3d": {"3d"}, "b": {"_", "B"}} {
		if got := Name(texts...); got != want {
			t.Errorf("%q: %q, want %q", texts, got, want)
		}
	}
}

func TestFollowing(t *testing.T) {
	for link, want := range map[string]string{`<tools?offset=1>; rel="next"`: "http://h/a/tools?offset=1", `</x>; rel="next"`: "http://h/x", `<http://evil/x>; rel="next"`: "", `<x>; rel="prev"`: "", "x": "", "": "", `<%zz>; rel="next"`: ""} {
		if got := following("http://h/a/tools", link); got != want {
			t.Errorf("%s: %q, want %q", link, got, want)
		}
	}
}
