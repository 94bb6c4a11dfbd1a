package python

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-json"

	"dragoman/internal/generate"
)

var update = flag.Bool("update", false, "write the files of testdata")

// issue is a tool with everything that a schema may have.
const issue = `{"type":"object","description":"unused","properties":{
	"title":{"type":"string","description":"The title.\nIn two lines \\ \"\"\" quoted\""},
	"labels":{"type":"array","items":{"$ref":"#/$defs/Label"},"description":"Labels"},
	"state":{"enum":["open","closed",null,1,1.5,true],"default":"open"},
	"from":{"type":"string","format":"date-time"}, "day":{"type":["string","null"],"format":"date"}, "id":{"type":"string","format":"uuid"},
	"X-Key":{"type":"number","minimum":0}, "x key":{"type":"boolean"},
	"parent":{"$ref":"#/$defs/Node"}, "value":{"$ref":"#/$defs/Json"}, "any":{}, "meta":{"type":"object","additionalProperties":{"type":"integer"}}},
	"required":["title","state"],"additionalProperties":{"type":"string"},
	"$defs":{"Label":{"type":"object","title":"A label","properties":{"name":{"type":"string"},"model_config":{"type":"integer","description":"reserved"},"list":{"type":"array","items":{"type":["integer","string"]}}},"required":["name"]},
		"Node":{"type":"object","properties":{"next":{"anyOf":[{"$ref":"#/$defs/Node"},{"type":"null"}]}}},
		"Json":{"anyOf":[{"type":"string"},{"type":"array","items":{"$ref":"#/$defs/Json"}}]}}}`

const result = `{"type":"object","properties":{"number":{"type":"integer"},"owner":{"type":"object","properties":{"login":{"type":"string"}},"required":["login"]}},"required":["number"]}`

func service(tools ...*generate.Tool) *generate.Service {
	s := &generate.Service{Name: "issue-tracker", URL: "http://127.0.0.1:8080/servers/issue-tracker/", Tools: tools}
	s.Prepare()
	return s
}

// Files are those of testdata, which `-update` writes, and which conformance/generated judges with linters and type checkers.
func TestFiles(t *testing.T) {
	s := service(tools()...)
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
	s := service(&generate.Tool{Name: "a"}, &generate.Tool{Name: "A"}, &generate.Tool{Name: "__init__"}, &generate.Tool{Name: "../../x"}, &generate.Tool{Name: "class"}, &generate.Tool{Name: ""})
	seen := map[string]bool{}
	for _, f := range Files(s) {
		if !regexp.MustCompile(`^[a-z_][a-z0-9_]*\.py$`).MatchString(f.Path) || seen[f.Path] {
			t.Errorf("%q", f.Path)
		}
		seen[f.Path] = true
	}
	if !seen["__init__.py"] || !seen["init.py"] || !seen["class_.py"] || !seen["x.py"] || !seen["a.py"] || len(seen) != 7 {
		t.Errorf("%v", seen)
	}
	if got := Modules([]string{"json", "a-b", "a_b", "list"}); got[0] != "json" || got[1] == got[2] || got[3] != "list_" {
		t.Errorf("%q", got)
	}
}

// skeleton returns the tokens of a module without the contents of its texts.
const skeleton = `
import io, sys, tokenize
source = sys.stdin.buffer.read()
compile(source, "module", "exec")
for token in tokenize.tokenize(io.BytesIO(source).readline):
    if token.type not in (tokenize.NL, tokenize.COMMENT):
        print(tokenize.tok_name[token.type], "" if token.type == tokenize.STRING else ascii(token.string))
`

func tokens(t testing.TB, source []byte) string {
	t.Helper()
	c := exec.Command("python3", "-c", skeleton)
	c.Stdin = strings.NewReader(string(source))
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s\n%s", out, source)
	}
	return string(out)
}

// No text of a server becomes code, wherever it stands.
func FuzzTexts(f *testing.F) {
	for _, s := range []string{"a", `"""`, `""""`, `"`, `\`, `\"""`, "\n", "\r\n", "\x00", "'''", "#", "\u2028", "{", "\f", "\u202e", "é", "x\n    exit(7)\n", strings.Repeat("long ", 10000)} {
		f.Add(s)
	}
	tool := func(text string) *generate.Service {
		key, _ := json.Marshal(text)
		schema := fmt.Sprintf(`{"type":"object","title":%[1]s,"properties":{"a":{"type":"string","description":%[1]s,"default":%[1]s,"pattern":%[1]s},"b":{"type":"object","description":%[1]s,"properties":{"c":{"const":%[1]s,"title":%[1]s}}}}}`, key)
		return service(&generate.Tool{Name: "tool", Title: text, Description: text, Input: json.RawMessage(schema), Output: json.RawMessage(schema)})
	}
	var harmless []string
	for _, file := range Files(tool("harmless")) {
		harmless = append(harmless, tokens(f, file.Data))
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.TrimSpace(text) == "" || len(text) > 300 {
			return // other texts stand for one that is empty; of one that is long the bounds are left out
		}
		s := tool(text)
		s.Title = text
		files := Files(s)
		for i := range files {
			if got, want := tokens(t, files[i].Data), harmless[i]; got != want {
				t.Errorf("%q changes %s:\n%s", text, files[i].Path, files[i].Data)
			}
		}
	})
}

// Whatever the names are, a module compiles, and the names that are sent are those of the server.
func FuzzNames(f *testing.F) {
	for _, s := range [][3]string{{"a", "A", "tool"}, {"self", "client", "class"}, {"x-y", "x y", "x.y"}, {"é", "e\u0301", "É"}, {"", "\x00", "_"}, {"标题", "題", "list"}, {`"`, `\`, "\n"}, {"__class__", "__class__ ", "None"}} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(func(t *testing.T, a, b, tool string) {
		keyA, _ := json.Marshal(a)
		keyB, _ := json.Marshal(b)
		if string(keyA) == string(keyB) {
			return
		}
		schema := fmt.Sprintf(`{"type":"object","properties":{%[1]s:{"type":"string"},%[2]s:{"type":"object","properties":{%[1]s:{},%[2]s:{"type":"integer"}},"required":[%[1]s]}},"required":[%[2]s]}`, keyA, keyB)
		for _, file := range Files(service(&generate.Tool{Name: tool, Input: json.RawMessage(schema), Output: json.RawMessage(schema)})) {
			tokens(t, file.Data)
			if file.Path != "__init__.py" && !strings.Contains(string(file.Data), "{"+quoteJSON(keyA)+": ") {
				t.Errorf("%q is not sent:\n%s", a, file.Data)
			}
		}
	})
}
