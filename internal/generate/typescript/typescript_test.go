package typescript

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-json"

	"dragoman/internal/generate"
)

var update = flag.Bool("update", false, "write the files of testdata")

// issue is a tool with everything that a schema may have.
const issue = `{"type":"object","description":"What is sent.","properties":{
	"title":{"type":"string","description":"The title.\nIn two lines */ @quoted \\"},
	"labels":{"type":"array","items":{"$ref":"#/$defs/Label"},"description":"Labels"},
	"state":{"enum":["open","closed",null,1,1.5,true,12345678901234567890],"default":"open"},
	"X-Key":{"type":"number","minimum":0}, "é":{"type":["boolean","null"]}, "$ok":{"type":"string"}, "":{"type":"null"},
	"parent":{"$ref":"#/$defs/Node"}, "value":{"$ref":"#/$defs/Json"}, "any":{}, "meta":{"type":"object","additionalProperties":{"type":"integer"}}},
	"required":["title","state"],"additionalProperties":{"type":"string"},
	"$defs":{"Label":{"type":"object","title":"A label","properties":{"name":{"type":"string"}},"required":["name"]},
		"Node":{"type":"object","properties":{"next":{"anyOf":[{"$ref":"#/$defs/Node"},{"type":"null"}]}}},
		"Json":{"anyOf":[{"type":"string"},{"type":"array","items":{"$ref":"#/$defs/Json"}},{"type":"object","additionalProperties":{"$ref":"#/$defs/Json"}}]}}}`

const result = `{"type":"object","properties":{"number":{"type":"integer"},"owner":{"type":"object","properties":{"login":{"type":"string"}},"required":["login"]}},"required":["number"]}`

func service(tools ...*generate.Tool) *generate.Service {
	s := &generate.Service{Name: "issue-tracker", URL: "http://127.0.0.1:8080/servers/issue-tracker/", Tools: tools}
	s.Prepare()
	return s
}

// Files are those of testdata, which `-update` writes, and which conformance/generated judges with linters and compilers.
func TestFiles(t *testing.T) {
	s := service(&generate.Tool{Name: "create_issue", Title: "Create an issue", Description: "Creates an issue.", Input: json.RawMessage(issue), Output: json.RawMessage(result)},
		&generate.Tool{Name: "import", Description: "Imports\n`all` of <it>", Input: json.RawMessage(`{}`)}, &generate.Tool{Name: "list", Input: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`), Output: json.RawMessage(`{"type":"array","items":{"type":"string"}}`)})
	for _, f := range Files(s) {
		name := filepath.Join("testdata", f.Path)
		if *update {
			if err := os.WriteFile(name, f.Data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(name)
		if err != nil || string(want) != string(f.Data) {
			t.Errorf("%s differs (%v); got:\n%s", name, err, f.Data)
		}
	}
}

func TestNames(t *testing.T) {
	s := service(&generate.Tool{Name: "a"}, &generate.Tool{Name: "A"}, &generate.Tool{Name: "service"}, &generate.Tool{Name: "../../x"}, &generate.Tool{Name: "class"}, &generate.Tool{Name: ""})
	seen := map[string]bool{}
	for _, f := range Files(s)[:7] {
		if !regexp.MustCompile(`^[a-z][A-Za-z0-9_]*\.ts$`).MatchString(f.Path) || seen[strings.ToLower(f.Path)] {
			t.Errorf("%q", f.Path)
		}
		seen[strings.ToLower(f.Path)] = true
	}
	if !seen["service.ts"] || !seen["service_.ts"] || !seen["x.ts"] || !seen["class_.ts"] {
		t.Errorf("%v", seen)
	}
}

// skeleton returns a module without the contents of its comments and texts. It fails if one does not end.
func skeleton(t testing.TB, source string) string {
	t.Helper()
	var b strings.Builder
	for len(source) > 0 {
		switch {
		case strings.HasPrefix(source, "//"):
			_, source, _ = strings.Cut(source, "\n")
			b.WriteString("//\n")
		case strings.HasPrefix(source, "/*"):
			_, rest, ends := strings.Cut(source, "*/")
			if !ends {
				t.Fatalf("a comment does not end: %q", source)
			}
			b.WriteString("/**/")
			source = rest
		case source[0] == '"':
			i := 1
			for i < len(source) && source[i] != '"' {
				if source[i] == '\\' {
					i++
				}
				if i >= len(source) || source[i] == '\n' {
					break
				}
				i++
			}
			if i >= len(source) || source[i] != '"' {
				t.Fatalf("a text does not end: %q", source)
			}
			b.WriteString(`""`)
			source = source[i+1:]
		default:
			b.WriteByte(source[0])
			source = source[1:]
		}
	}
	return b.String()
}

// No text of a server becomes code, wherever it stands.
func FuzzTexts(f *testing.F) {
	for _, s := range []string{"a", "*/", "**/", "/*", "//", `"`, `\`, `\"`, "\n", "\r", "\u2028", "\x00", "`", "${x}", "@deprecated", "</script>", "*\n/", "\u202e", "😀", "'"} {
		f.Add(s)
	}
	tool := func(text string) *generate.Service {
		key, _ := json.Marshal(text)
		schema := fmt.Sprintf(`{"type":"object","title":%[1]s,"properties":{"a":{"type":"string","description":%[1]s,"default":%[1]s,"pattern":%[1]s},"b":{"type":"object","description":%[1]s,"properties":{"c":{"const":%[1]s,"title":%[1]s}}}}}`, key)
		return service(&generate.Tool{Name: "tool", Title: text, Description: text, Input: json.RawMessage(schema), Output: json.RawMessage(schema)})
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.TrimSpace(text) == "" || len(text) > 300 {
			return // other texts stand for one that is empty; of one that is long the bounds are left out
		}
		files, harmless := Files(tool(text)), Files(tool("harmless"))
		for i := range files[:2] {
			if got, want := skeleton(t, string(files[i].Data)), skeleton(t, string(harmless[i].Data)); got != want {
				t.Errorf("%q changes %s:\n%s", text, files[i].Path, files[i].Data)
			}
		}
		if got := string(files[2].Data); strings.Count(got, "\n") != strings.Count(string(harmless[2].Data), "\n") {
			t.Errorf("%q adds lines:\n%s", text, got)
		}
	})
}

// Whatever the names are, they are texts or identifiers.
func FuzzNames(f *testing.F) {
	for _, s := range [][2]string{{"a", "tool"}, {"x-y", "class"}, {"é", "É"}, {"", ""}, {"标题", "題"}, {`"`, "\n"}, {"*/", "*/"}, {"\u2028", "default"}, {"1a", "1a"}, {"a\u0301", "😀"}} {
		f.Add(s[0], s[1])
	}
	plain := regexp.MustCompile(`^[\p{L}\p{M}0-9_$ \n\t{}()\[\]<>?:;,.|=/*"&-]*$`)
	f.Fuzz(func(t *testing.T, member, tool string) {
		key, _ := json.Marshal(member)
		schema := fmt.Sprintf(`{"type":"object","properties":{%[1]s:{"type":"object","properties":{%[1]s:{"type":"string"}},"required":[%[1]s]}}}`, key)
		for _, file := range Files(service(&generate.Tool{Name: tool, Input: json.RawMessage(schema), Output: json.RawMessage(schema)}))[:2] {
			if got := skeleton(t, string(file.Data)); !plain.MatchString(got) {
				t.Errorf("%q, %q: %s", member, tool, file.Data)
			}
		}
	})
}
