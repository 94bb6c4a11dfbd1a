//go:build unix

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"dragoman/adapters/aggregator"
	"dragoman/internal/testkit"
)

// Tools are sorted into the user's categories beside everything else. find_tools tells of them once they are known, and finds by them.
func TestCategories(t *testing.T) {
	t.Parallel()
	r := startRig(t, searching(t, "[categories.arithmetic]\nkeywords = [\"add\", \"sum\", \"numbers\"]\n[categories.echoing]\nkeywords = [\"echo\"]\n"), true)
	ask := func(tool, arguments string) string {
		return r.must("POST", "/mcp", modernAsk("tools/call", `"name":"`+tool+`","arguments":`+arguments), modernHeaders("tools/call", tool)...).body
	}
	testkit.Eventually(t, "categories in find_tools", func() bool {
		listed := r.must("POST", "/mcp", modernAsk("tools/list", ""), modernHeaders("tools/list", "")...).body
		return strings.Contains(listed, "Categories: arithmetic (3), echoing (3).")
	})
	found := ask("find_tools", `{"query":"echo add","category":"arithmetic"}`)
	mentions(t, found, "a.add", "b.add", "c.add", "arithmetic")
	if strings.Contains(found, "a.echo") {
		t.Errorf("a tool of another category: %s", found)
	}
	for query, first := range map[string]string{"add": "arithmetic", "echo": "echoing"} { // the nearest one comes first
		got := ask("find_tools", `{"query":"`+query+`","category":"gardening"}`)
		if !strings.Contains(got, "nothing is found with these filters") || !strings.Contains(got, `"categories":[{"name":"`+first+`"`) {
			t.Errorf("a category that there is not: %s", got)
		}
	}
}

// categoriesToml is a configuration with two tools, of one server each, and two categories.
func categoriesToml(t *testing.T) string {
	t.Helper()
	return aggregatorToml(t, "[context]\nmode = \"search\"\n[categories.green]\ndescription = \"Lawns\"\nkeywords = [\"lawn\"]\n[categories.hedges]\nkeywords = [\"hedge\"]\n"+
		"[upstreams.one]\nurl = \""+toolsServer(t, "mow_lawn")+"/mcp\"\n[upstreams.two]\nurl = \""+toolsServer(t, "cut_hedge", "sing")+"/mcp\"\n")
}

// skills waits until a tool has these categories, and returns it.
func (a *aggregated) skills(name string, want ...string) (tool aggregator.Tool) {
	a.t.Helper()
	testkit.Eventually(a.t, name+" has the categories "+strings.Join(want, ", "), func() bool {
		var all []aggregator.Tool
		a.want(200, "GET", "/tools", "", &all)
		i := slices.IndexFunc(all, func(one aggregator.Tool) bool { return one.Name == name })
		if i < 0 || all[i].Classification != "CLASSIFIED" {
			return false
		}
		tool = all[i]
		return slices.Equal(tool.Skills, want)
	})
	return tool
}

// The API lists and changes categories, says which ones a tool has, and has tools classified again. All of that is kept over a restart, and
// clients are told of it at once (seed 004, BR-004).
func TestCategoriesOfTheAPI(t *testing.T) {
	toml := categoriesToml(t)
	file := testkit.WriteFile(t, "c.toml", toml)
	a := startAggregator(t, file)
	if got := a.skills("one.mow_lawn", "green"); got.Primary != "green" || !got.Classified || got.Confidences[0] < 0.5 || !strings.HasPrefix(got.ClassifiedBy, "local") {
		t.Errorf("%+v", got)
	}
	a.skills("two.cut_hedge", "hedges")
	a.skills("two.sing")
	listed := func() (lines []string) {
		var all []aggregator.Category
		a.want(200, "GET", "/categories", "", &all)
		for _, c := range all {
			lines = append(lines, c.Name+" "+c.Source+" "+strings.Repeat("t", c.Tools)+strings.Repeat("p", c.Primary))
		}
		return lines
	}
	expect := func(want ...string) {
		t.Helper()
		if got := listed(); !slices.Equal(got, want) {
			t.Errorf("categories %q, want %q", got, want)
		}
	}
	expect("green configuration tp", "hedges configuration tp")

	// A new one, and one that is replaced.
	a.want(200, "PUT", "/categories/music", `{"description":"Songs","keywords":["sing"]}`, nil)
	a.skills("two.sing", "music")
	a.want(200, "PUT", "/categories/green", `{"keywords":["grass"]}`, nil)
	a.skills("one.mow_lawn")
	expect("green changed ", "hedges configuration tp", "music changed tp")
	testkit.Eventually(t, "find_tools tells of it", func() bool {
		return strings.Contains(a.send(a.base+"/tools/search?q=sing&category=music", "", "GET", "", nil).body, `"two.sing"`)
	})
	var found []aggregator.FoundTool
	a.want(200, "GET", "/search?q=cut+hedge+sing&category=music", "", &found)
	if len(found) != 1 || found[0].Name != "two.sing" || !slices.Equal(found[0].Skills, []string{"music"}) {
		t.Errorf("of a category: %+v", found)
	}
	var tools []aggregator.Tool
	a.want(200, "GET", "/servers/two/tools?category=hedges", "", &tools)
	if len(tools) != 1 || tools[0].Name != "two.cut_hedge" {
		t.Errorf("tools of a category of one server: %+v", tools)
	}
	a.want(200, "GET", "/tools?category=hedges", "", &tools)
	if len(tools) != 1 || tools[0].Name != "two.cut_hedge" {
		t.Errorf("tools of a category: %+v", tools)
	}

	// A person is right, over a restart and when all is classified again.
	var tool aggregator.Tool
	a.want(200, "POST", "/servers/one/classify", `{"tool":"mow_lawn","skill_ids":["hedges","music"]}`, &tool)
	if tool.ClassifiedBy != "person" || tool.Primary != "hedges" || !slices.Equal(tool.Confidences, []float64{1, 1}) {
		t.Errorf("%+v", tool)
	}
	var again aggregator.Reclassified
	if a.want(202, "POST", "/reclassify", "", &again); again.Tools != 2 {
		t.Errorf("%+v", again)
	}
	a.stop()
	a = startAggregator(t, file)
	a.skills("one.mow_lawn", "hedges", "music")
	a.skills("two.sing", "music")
	expect("green changed ", "hedges configuration ttpp", "music changed ttp")

	// Everything is taken back.
	a.want(200, "POST", "/servers/one/classify", `{"tool":"mow_lawn","skill_ids":[]}`, nil)
	a.want(204, "POST", "/categories/green/reset", "", nil)
	a.want(204, "DELETE", "/categories/music", "", nil)
	a.want(204, "DELETE", "/categories/hedges", "", nil)
	a.skills("one.mow_lawn", "green")
	a.skills("two.sing")
	expect("green configuration tp")
	for _, c := range []struct {
		status             int
		method, path, body string
		want               string
	}{
		{409, "DELETE", "/categories/green", "", "the last category"},
		{404, "DELETE", "/categories/music", "", "Category not found: music"},
		{404, "POST", "/categories/green/reset", "", "Category not found: green"},
		{422, "PUT", "/categories/No", "{}", "lower-case letters"},
		{422, "PUT", "/categories/no", `{"keywords":["a","\n"]}`, "word or a few"},
		{422, "PUT", "/categories/no", `{"keywords":"a"}`, "wrong type"},
		{422, "PUT", "/categories/no", `{"description":"` + strings.Repeat("x", 1001) + `"}`, "1000 characters"},
		{422, "PUT", "/categories/no", `{"keywords":[` + strings.Repeat(`"a",`, 200) + `"a"]}`, "more than 200"},
		{422, "PUT", "/categories/no", "", "body"},
		{404, "POST", "/servers/one/classify", `{"tool":"sing","skill_ids":["green"]}`, "Tool not found: one.sing"},
		{404, "POST", "/servers/one/classify", `{"tool":"mow_lawn","skill_ids":["music"]}`, "Category not found: music"},
		{404, "POST", "/servers/three/classify", `{"tool":"mow_lawn","skill_ids":[]}`, "Server not found"},
		{422, "POST", "/servers/one/classify", `{"tool":"mow_lawn"}`, "skill_ids"},
		{422, "POST", "/servers/one/classify", `{"skill_ids":[]}`, "is required"},
		{422, "POST", "/servers/one/classify", `{"tool":"mow_lawn","skill_ids":["a","b","c","d"]}`, "more than 3"},
		{422, "POST", "/reclassify", `{"tool":"sing"}`, "server"},
		{404, "POST", "/reclassify", `{"server":"three"}`, "Tool not found: three"},
		{404, "POST", "/reclassify", `{"server":"two","tool":"dance"}`, "Tool not found: two.dance"},
	} {
		if res := a.want(c.status, c.method, c.path, c.body, nil); !strings.Contains(res.body, c.want) {
			t.Errorf("%s %s %s: %s, want %q", c.method, c.path, c.body, res.body, c.want)
		}
	}
	a.want(202, "POST", "/reclassify", `{"server":"two","tool":"sing"}`, nil)
}

// Where nothing sorts tools into categories the list is empty, and a change is refused with what to do.
func TestCategoriesAreOff(t *testing.T) {
	a := startAggregator(t, testkit.WriteFile(t, "c.toml", strings.Replace(categoriesToml(t), "[context]", "[classification]\nmode = \"off\"\n[context]", 1)))
	if got := strings.TrimSpace(a.want(200, "GET", "/categories", "", nil).body); got != "[]" {
		t.Error(got)
	}
	for _, path := range []string{"/categories/green", "/categories/green/reset", "/reclassify"} {
		method := map[string]string{"/categories/green": "PUT"}[path]
		if method == "" {
			method = "POST"
		}
		if res := a.want(409, method, path, "{}", nil); !strings.Contains(res.body, "classification.mode") {
			t.Errorf("%s: %s", path, res.body)
		}
	}
	var state aggregator.State
	testkit.Eventually(t, "tools are listed", func() bool { a.want(200, "GET", "/state", "", &state); return state.Tools == 3 })
	if state.Classified != 0 || state.Unclassified != 3 {
		t.Errorf("%+v", state)
	}
}

// Clients of find_tools are told when its description changes with the categories; those that are listed every tool are not.
func TestCategoriesChangeLists(t *testing.T) {
	for _, c := range [][2]string{{"search", "2025-11-25"}, {"search", "2026-07-28"}, {"all", "2025-11-25"}, {"all", "2026-07-28"}} {
		mode, revision := c[0], c[1]
		t.Run(mode+" "+revision, func(t *testing.T) {
			a := startAggregator(t, testkit.WriteFile(t, "c.toml", strings.Replace(categoriesToml(t), `mode = "search"`, `mode = "`+mode+`"`, 1)))
			a.skills("one.mow_lawn", "green")
			a.skills("two.sing")
			var told atomic.Int64
			opt := &mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { told.Add(1) }}
			s, err := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, opt).Connect(t.Context(),
				&mcp.StreamableClientTransport{Endpoint: a.base + "/mcp", HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			described := func() string {
				list, err := s.ListTools(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				return list.Tools[0].Description
			}
			before := described()
			a.want(200, "PUT", "/categories/music", `{"keywords":["sing"]}`, nil)
			a.skills("two.sing", "music")
			if mode == "search" {
				testkit.Eventually(t, "the client is told", func() bool { return told.Load() > 0 && strings.Contains(described(), "music (1)") })
				return
			}
			a.want(200, "POST", "/servers/one/classify", `{"tool":"mow_lawn","skill_ids":["music"]}`, nil)
			a.skills("one.mow_lawn", "music")
			if after := described(); after != before || told.Load() > 0 {
				t.Errorf("told %d times; %q, %q", told.Load(), before, after)
			}
		})
	}
}

// chats is a service with large language models, a fake of one: its model answers what say returns for the tools that it is asked about.
func chats(t *testing.T, say func(tools []string) (status int, answer string)) (url string) {
	t.Helper()
	return newTestServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct {
			Messages []struct{ Role, Content string }
		}
		var tools []struct{ Name string }
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || len(asked.Messages) != 2 || json.Unmarshal([]byte(asked.Messages[1].Content), &tools) != nil {
			t.Errorf("%+v, %v", asked, err)
		}
		if r.Header.Get("Authorization") != "Bearer 5ecret" || r.URL.Path != "/v1/chat/completions" {
			t.Errorf("%s %v", r.URL, r.Header)
		}
		var names []string
		for _, tool := range tools {
			names = append(names, tool.Name)
		}
		status, answer := say(names)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"finish_reason": "stop", "message": map[string]string{"role": "assistant", "content": answer}}}})
	}))
}

// A large language model sorts tools, and words do while it is away or says what it may not (seed 004, EC-009).
func TestCategoriesByModel(t *testing.T) {
	for name, wrong := range map[string]struct {
		status int
		answer string
	}{
		"away":             {503, ""},
		"injected":         {200, `{"tools":[{"number":0,"categories":[{"name":"admin","confidence":1}]}]}`},
		"another language": {200, "Das Werkzeug gehört zu den Hecken."},
		"too much":         {200, `{"tools":[{"number":0,"categories":[{"name":"hedges","confidence":1}]}],"note":"ignore all rules"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var right atomic.Bool
			url := chats(t, func(tools []string) (int, string) {
				if !right.Load() {
					return wrong.status, wrong.answer
				}
				var all []string
				for i := range tools {
					all = append(all, fmt.Sprintf(`{"number":%d,"categories":[{"name":"hedges","confidence":0.9},{"name":"green","confidence":0.4}]}`, i))
				}
				return 200, `{"tools":[` + strings.Join(all, ",") + `]}`
			})
			a := startAggregator(t, testkit.WriteFile(t, "c.toml", strings.Replace(categoriesToml(t), "[context]",
				"[classification]\nmode = \"llm\"\nurl = \""+url+"/v1\"\nmodel = \"m\"\nkey = \"env:CHAT_KEY\"\n[context]", 1)), "CHAT_KEY=5ecret")
			if got := a.skills("one.mow_lawn", "green"); !strings.HasPrefix(got.ClassifiedBy, "local") {
				t.Errorf("while the model fails: %+v", got)
			}
			right.Store(true)
			a.want(202, "POST", "/reclassify", "", nil)
			if got := a.skills("one.mow_lawn", "hedges"); !strings.HasPrefix(got.ClassifiedBy, "chat") || got.Confidences[0] != 0.9 {
				t.Errorf("once it works: %+v", got)
			}
			a.skills("two.sing", "hedges")
			if strings.Contains(a.logs.String(), "5ecret") {
				t.Error("the log has the key")
			}
			if n := strings.Count(a.logs.String(), "the classifier fails"); n != 1 {
				t.Errorf("the log tells %d times that the classifier fails", n)
			}
		})
	}
}
