package targets

import (
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-json"

	"dragoman/adapters/skills"
	"dragoman/internal/generate"
	"dragoman/internal/generate/output"
	"dragoman/internal/generate/source"
)

func service(name string, tools ...string) *generate.Service {
	s := &generate.Service{Name: name, URL: "http://h/" + name}
	for _, t := range tools {
		s.Tools = append(s.Tools, &generate.Tool{Name: t, Description: "Does " + t, Input: json.RawMessage(`{"type":"object","properties":{"x":{"type":"string"}},"required":["x"]}`)})
	}
	s.Prepare()
	return s
}

func all() (chosen []*Target) {
	for i := range All {
		chosen = append(chosen, &All[i])
	}
	return chosen
}

func paths(plan *output.Plan) (all []string) {
	for _, u := range plan.Units {
		for _, f := range u.Files {
			all = append(all, path.Join(u.Dir, f.Path))
		}
	}
	return all
}

func TestPlan(t *testing.T) {
	plan, err := Plan(t.Context(), []Named{{"one", service("one", "create_issue")}, {"down", nil}}, all(), nil)
	if err != nil {
		t.Fatal(err)
	}
	got := paths(plan)
	for _, want := range []string{"bash/one/create_issue.sh", "bash/one/mcp.bash", "python/pyproject.toml", "python/mcp_clients/runtime.py", "python/mcp_clients/py.typed", "python/mcp_clients/one/create_issue.py",
		"typescript/runtime.ts", "typescript/tsconfig.json", "typescript/servers/one/createIssue.ts", "cli/one/main.go", "cli/one/tools.json", "skills/one/SKILL.md", "skills/one/scripts/create_issue.sh",
		"skills/one/references/tool-create-issue.md", "openapi/one/openapi.json"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not planned", want)
		}
	}
	if want := []string{"bash/down", "python/mcp_clients/down", "typescript/servers/down", "cli/down", "skills/down", "openapi/down"}; !slices.Equal(plan.Keep, want) {
		t.Errorf("kept: %q", plan.Keep)
	}
	if want := []string{"bash", "python", "typescript", "cli", "skills", "openapi"}; !slices.Equal(plan.Roots, want) {
		t.Errorf("roots: %q", plan.Roots)
	}
}

// Whatever servers and tools are called, each file has a path of its own, which differs also where case does not count, and lies in the folder of its service.
func FuzzPaths(f *testing.F) {
	for _, s := range [][4]string{{"a", "A", "x", "X"}, {"con", "../..", "../../.bashrc", "CON"}, {"", "-", "", "\x00"}, {"a-b", "a_b", "SKILL.md", "main.go"}, {"README", "runtime", "index", "service"}, {".", "..", ".", ".."}} {
		f.Add(s[0], s[1], s[2], s[3])
	}
	f.Fuzz(func(t *testing.T, one, two, a, b string) {
		if one == two || a == b {
			return
		}
		plan, err := Plan(t.Context(), []Named{{one, service(one, a, b)}, {two, service(two, a)}}, all(), nil)
		if err != nil {
			t.Fatal(err)
		}
		seen, dirs := map[string]bool{}, map[string]bool{}
		for _, u := range plan.Units {
			if !fs.ValidPath(u.Dir) || dirs[strings.ToLower(u.Dir)] || strings.Contains(u.Dir, "..") {
				t.Errorf("folder %q", u.Dir)
			}
			dirs[strings.ToLower(u.Dir)] = true
			for _, file := range u.Files {
				name := path.Join(u.Dir, file.Path)
				if key := strings.ToLower(name); !fs.ValidPath(file.Path) || seen[key] || strings.ContainsAny(name, `\:*?"<>| `+"\n") {
					t.Errorf("file %q", name)
				} else {
					seen[key] = true
				}
				base, _, _ := strings.Cut(path.Base(name), ".")
				if slices.Contains([]string{"con", "prn", "aux", "nul", "com1", "lpt1"}, strings.ToLower(base)) {
					t.Errorf("%q is a device", name)
				}
			}
		}
	})
}

func TestSkill(t *testing.T) {
	s := service("one", "create_issue")
	s.Tools[0].Annotations = json.RawMessage(`{"readOnlyHint":true}`)
	files, err := skill(s, "one")
	if err != nil {
		t.Fatal(err)
	}
	main := string(files[0].Data)
	front, _, err := skills.Split(files[0].Data)
	if err != nil || front.Name != "one" || files[0].Path != skills.Main {
		t.Errorf("%+v, %v", front, err)
	}
	for _, want := range []string{"scripts/create_issue.sh - <<'JSON'\n{\"x\":", "`Does create_issue`", how + "`MCP_URL_ONE` says", "`MCP_TOKEN_ONE` has the token"} {
		if !strings.Contains(main, want) {
			t.Errorf("%q is not in\n%s", want, main)
		}
	}
}

// A list longer than a document may be is several, of which each names the next.
func TestOpenAPI(t *testing.T) {
	for n, want := range map[int]int{0: 1, 3: 1, 1000: 1, 2500: 3} {
		var tools []string
		for i := range n {
			tools = append(tools, fmt.Sprintf("tool_%d", i))
		}
		files, err := describe(service("one", tools...), "")
		if err != nil || len(files) != want {
			t.Errorf("%d tools: %d documents, %v", n, len(files), err)
			continue
		}
		described := 0
		for i, f := range files {
			var doc struct {
				Servers []struct{ URL string }
				Paths   map[string]any
				Info    struct {
					Tools struct{ Next string } `json:"x-tools"`
				}
			}
			if err := json.Unmarshal(f.Data, &doc); err != nil || doc.Servers[0].URL != "http://h/one" {
				t.Fatalf("%v, %+v", err, doc.Servers)
			}
			if next := doc.Info.Tools.Next; i < len(files)-1 && next != files[i+1].Path || i == len(files)-1 && next != "" {
				t.Errorf("%s: the next is %q", f.Path, next)
			}
			for p := range doc.Paths {
				if strings.HasPrefix(p, "/tools/tool_") {
					described++
				}
			}
		}
		if described != n {
			t.Errorf("%d of %d tools are described", described, n)
		}
	}
}

func TestFind(t *testing.T) {
	if got, err := Find("cli"); err != nil || got.Name != "cli" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := Find("cobol"); err == nil || !strings.Contains(err.Error(), "fix: choose of bash, python, typescript, cli, skills, openapi") {
		t.Errorf("%v", err)
	}
}

// BenchmarkPlan generates everything for 4,000 tools: those of real servers, again and again under other names.
func BenchmarkPlan(b *testing.B) {
	raw, err := os.Open("../../../adapters/skills/testdata/real.jsonl.gz")
	if err != nil {
		b.Fatal(err)
	}
	defer raw.Close()
	plain, err := gzip.NewReader(raw)
	if err != nil {
		b.Fatal(err)
	}
	var tools []generate.Tool
	for d := json.NewDecoder(plain); d.More(); {
		var line struct{ Tool json.RawMessage }
		if err := d.Decode(&line); err != nil {
			b.Fatal(err)
		}
		t, err := source.Tool(line.Tool)
		if err != nil {
			b.Fatal(err)
		}
		tools = append(tools, *t)
	}
	for b.Loop() {
		s := &generate.Service{Name: "one", URL: "http://h"}
		for i := range 4000 {
			t := tools[i%len(tools)]
			t.Name = fmt.Sprintf("%s_%d", t.Name, i)
			s.Tools = append(s.Tools, &t)
		}
		s.Prepare()
		plan, err := Plan(b.Context(), []Named{{"one", s}}, all(), nil)
		if err != nil || len(paths(plan)) < 4*4000 {
			b.Fatal(err)
		}
	}
}
