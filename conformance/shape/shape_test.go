package shape

import (
	"bytes"
	"crypto/sha256"
	stdjson "encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/goccy/go-json"
)

func TestAtMostTwentyProblems(t *testing.T) {
	raw := `{"tools":[` + strings.Repeat(`{"name":1,"inputSchema":[]},`, 50) + `null]}`
	problems := result("2025-11-25", "tools/list", raw)
	if len(problems) != maxProblems {
		t.Errorf("%d problems", len(problems))
	}
	want := Problem{Path: "/tools/0/inputSchema", Expected: "an object", Got: "an empty array", Rule: "2025-11-25 server/tools §Tool"}
	if problems[0] != want {
		t.Errorf("%+v", problems[0])
	}
	if got := problems[0].String(); got != "/tools/0/inputSchema: an object; got an empty array (2025-11-25 server/tools §Tool)" {
		t.Error(got)
	}
}

func TestRulesAreThoseOfTheMember(t *testing.T) {
	problems := result("2026-07-28", "tools/list", `{"resultType":"complete","tools":[]}`)
	if len(problems) != 2 || problems[0].Rule != "2026-07-28 server/utilities/caching §Cache Scope Field" || problems[1].Rule != "2026-07-28 server/utilities/caching §Time-to-Live (TTL) Field" {
		t.Errorf("%v", problems)
	}
	problems = Message("2026-07-28", Client, []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{}}}`), "")
	if len(problems) != 2 || problems[0].Rule != "2026-07-28 basic §_meta" || problems[0].Path != "/params/_meta" {
		t.Errorf("%v", problems)
	}
}

func TestDepthIsBounded(t *testing.T) {
	deep := func(n int) string {
		return `{"structuredContent":` + strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) + `,"content":[]}`
	}
	if problems := result("2025-11-25", "tools/call", deep(maxDepth-2)); problems != nil {
		t.Errorf("%v", problems)
	}
	problems := result("2025-11-25", "tools/call", deep(maxDepth))
	if len(problems) != 1 || !strings.Contains(problems[0].Expected, "at most 128 objects and arrays") {
		t.Errorf("%v", problems)
	}
	result("2025-11-25", "tools/call", strings.Repeat("[", 1<<20))
}

func TestUnknownRevisions(t *testing.T) {
	problems := Message("2023-01-01", Client, []byte(`{}`), "")
	if len(problems) != 1 || !strings.Contains(problems[0].Got, `no revision "2023-01-01"`) {
		t.Errorf("%v", problems)
	}
	if got := Revisions(); len(got) != 5 || got[0] != "2024-11-05" {
		t.Errorf("%v", got)
	}
}

func TestParamsMayBeMissing(t *testing.T) {
	if problems := params(t, "2025-11-25", Client, "tools/list", ""); problems != nil {
		t.Errorf("%v", problems)
	}
	if problems := params(t, "2026-07-28", Client, "tools/list", ""); len(problems) != 1 || problems[0].Path != "" {
		t.Errorf("%v", problems)
	}
}

func TestIntegersAreJudgedByTheLiteral(t *testing.T) {
	for n, want := range map[json.Number]bool{
		"1": true, "-0": true, "0.0": true, "1.0": true, "1.5": false, "15e-1": false, "10e-1": true, "1.5e1": true, "1.55e1": false,
		"1e999999999": true, "1e99999999999": true, "1e-99999999999": false, "0e-99999999999": true, "100E-2": true, "100e-3": false,
		"9007199254740993": true, "1e+2": true,
	} {
		if whole(n) != want {
			t.Errorf("%s: %v", n, !want)
		}
	}
}

func TestFormats(t *testing.T) {
	for format, all := range map[string]map[string]bool{
		"uri":          {"a:b": true, "file:///x": true, "http://日本/": true, "": false, "x": false, "//x/y": false, "1a:b": false, "a:b c": false, "a:\n": false},
		"file-uri":     {"file:///x": true, "FILE://x": true, "https://x": false, "file:x": false},
		"uri-template": {"a": true, "{x}": true, "a{x}b{y}": true, "{": false, "}": false, "{}": false, "{a{b}}": false, "{a}}": false, "a b": false},
		"byte":         {"": true, "AAAA": true, "AA==": true, "AA": false, "A A=": false, "AAAA\n": false, "-_-_": false},
		"timestamp":    {"2025-11-25T10:30:00Z": true, "2025-11-25T10:30:00.123+02:00": true, "2025-11-25T10:30:00": true, "2025-11-25": false, "": false},
		"traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01": true, "00-x": false, "": false,
			"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01": false, "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01": false},
	} {
		for s, want := range all {
			if formats[format].holds(s) != want {
				t.Errorf("%s %q: %v", format, s, !want)
			}
		}
	}
	for name, want := range map[string]bool{"a": true, "": true, "a/b": true, "a.b/": true, "a-b.c1/x_y.z": true, "-a": false, "a/b/c": false, "1/b": false, "a./b": false, "/b": false} {
		if (metaNamesHold(object{name: 1}) == nil) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}

// TestSchemasAreTheOfficialOnes compares with the sums of the official files.
func TestSchemasAreTheOfficialOnes(t *testing.T) {
	sums, err := files.ReadFile("schemas/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	for _, revision := range revisions {
		raw, err := unzip("schemas/" + revision + ".schema.json.gz")
		if line := fmt.Sprintf("%x  %s.schema.json\n", sha256.Sum256(raw), revision); err != nil || !strings.Contains(string(sums), line) {
			t.Errorf("%s is not the official schema (%v)", revision, err)
		}
	}
}

// TestEveryAmendmentIsNeeded leaves out one after another: some case must be judged otherwise then.
func TestEveryAmendmentIsNeeded(t *testing.T) {
	all, err := amendments()
	if err != nil {
		t.Fatal(err)
	}
	whole := maps.Clone(schemas)
	defer func() { schemas = whole }()
	for i, one := range all {
		for revision := range schemas {
			schemas[revision] = sync.OnceValues(func() (*schema, error) {
				return read(revision, func() ([]amendment, error) {
					all, err := amendments()
					return slices.Delete(all, i, i+1), err
				})
			})
		}
		if len(wrongCases(t)) == 0 {
			t.Errorf("testdata/cases.txt does not need the amendment of %s: %s", one.In, one.Why)
		}
	}
}

// TestTablesNameWhatThereIs looks for methods, definitions and members that no revision has, and for requests without a result.
func TestTablesNameWhatThereIs(t *testing.T) {
	there := map[string]bool{}
	for _, revision := range revisions {
		s, err := open(revision)
		if err != nil {
			t.Fatal(err)
		}
		for name, def := range s.defs {
			there[name] = true
			noteMembers(def, there)
		}
		for _, side := range []Side{Server, Client} {
			for method := range s.requests[side] {
				there[method] = true
				if s.results[method] == "" {
					t.Errorf("%s: %s has no result", revision, method)
				}
				if sections[method] == "" {
					t.Errorf("%s has no section", method)
				}
			}
			for method := range s.notices[side] {
				there[method] = true
				if sections[method] == "" {
					t.Errorf("%s has no section", method)
				}
			}
		}
		for _, definition := range slices.Concat(slices.Collect(maps.Values(s.results)), slices.Collect(maps.Values(s.requests[Client]))) {
			if _, err := s.validate(object{}, definition); err != nil {
				t.Errorf("%s: %v", revision, err)
			}
		}
	}
	for name := range sections {
		if !there[name] {
			t.Errorf("sections: nothing is called %s", name)
		}
	}
}

// noteMembers enters the names of all members of a schema, with a dot.
func noteMembers(v any, into map[string]bool) {
	switch v := v.(type) {
	case object:
		properties, _ := v["properties"].(object)
		for name := range properties {
			into["."+name] = true
		}
		for _, one := range v {
			noteMembers(one, into)
		}
	case []any:
		for _, one := range v {
			noteMembers(one, into)
		}
	}
}

func TestHugeNumbersCostNothing(t *testing.T) {
	for raw, sound := range map[string]bool{
		`{"progressToken":1,"progress":1e999999999}`: true, `{"progressToken":1e999999999,"progress":1}`: true,
		`{"progressToken":1e-999999999,"progress":-1e-999999999}`: false,
	} {
		if problems := params(t, "2025-11-25", Server, "notifications/progress", raw); (len(problems) == 0) != sound {
			t.Errorf("%s: %v", raw, problems)
		}
	}
}

// FuzzMessage looks for messages that the validator cannot take, or that it takes though they are no JSON.
func FuzzMessage(f *testing.F) {
	for i, raw := range []string{`{"content":[{"type":"text","text":"x"}],"_meta":{"a/b":1}}`, `{"contents":[{"uri":"a:b","blob":"AAAA"}]}`, `{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}}}`} {
		for n := range revisions {
			f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":`+raw+`}`), uint8(n), []string{"tools/call", "resources/read", "prompts/get"}[i])
		}
	}
	for _, raw := range []string{"", `[]`, `[{"id":1}]`, `{"a":1,"a":2}`, `{"\ud800":1}`, "{\"a\":\"\xff\"}", `{"method":1,"id":{}}`, `1e999`, ` {} `, `{"error":{"code":-32021}}`} {
		f.Add([]byte(raw), uint8(4), "tools/call")
	}
	f.Fuzz(func(t *testing.T, raw []byte, n uint8, method string) {
		revision, side := revisions[int(n)%len(revisions)], Side(n>>7)
		problems := Message(revision, side, raw, method)
		if len(problems) > maxProblems {
			t.Fatalf("%d problems", len(problems))
		}
		for _, p := range problems {
			if p.Expected == "" || p.Got == "" || len(p.Got) > 120 || !utf8.ValidString(p.Got) || !strings.HasPrefix(p.Rule, revision) {
				t.Fatalf("%+v", p)
			}
		}
		if !stdjson.Valid(raw) && len(problems) == 0 {
			t.Fatal("no JSON, no problem")
		}
		same(t, raw, problems)
	})
}

// same compares what was decoded with what the standard library makes of it.
func same(t *testing.T, raw []byte, problems []Problem) {
	t.Helper()
	c := &checker{schema: &schema{}}
	v, ok := decode(raw, c)
	if !ok || len(c.problems) > 0 {
		if len(problems) == 0 {
			t.Fatal("a fault of the text is no problem")
		}
		return
	}
	d := stdjson.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var want any
	if err := d.Decode(&want); err != nil || !reflect.DeepEqual(v, want) {
		t.Fatalf("%s instead of %s (%v)", fmt.Sprint(v), fmt.Sprint(want), err)
	}
}
