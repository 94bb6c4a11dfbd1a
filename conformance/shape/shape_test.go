package shape

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/goccy/go-json"
)

func TestDefinitionsAreSound(t *testing.T) {
	l, err := load()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d types, %d messages, %d errors", len(l.said.types), len(l.said.messages), len(l.said.faults))
	for name, f := range l.said.types {
		if f.rule == "" {
			t.Errorf("%s does not say where it stands", name)
		}
	}
	for _, b := range l.books {
		for _, name := range []string{"Request", "Notification", "Response", "ErrorResponse", "RequestParams", "NotificationParams", "AnyResult"} {
			if b.types[name] == nil {
				t.Errorf("%s lacks %s, which message.go asks for", b.revision, name)
			}
		}
		for _, side := range []Side{Client, Server} {
			for _, entries := range []map[string]*entry{b.requests[side], b.notices[side]} {
				for method, e := range entries {
					if e.form.kind != object && e.form.kind != union {
						t.Errorf("%s: the params of %s are no object", b.revision, method)
					}
				}
			}
		}
	}
}

// TestEveryTypeIsUsed looks for definitions that nothing refers to.
func TestEveryTypeIsUsed(t *testing.T) {
	entries, _ := files.ReadDir("definitions")
	all := ""
	for _, e := range entries {
		raw, _ := files.ReadFile("definitions/" + e.Name())
		all += string(raw)
	}
	l, _ := load()
	for name := range l.said.types {
		if n := len(regexp.MustCompile(`(?m)(^|[^A-Za-z])`+name+`($|[^A-Za-z])`).FindAllString(all, 3)); n < 2 && !strings.Contains("Request Response Notification ErrorResponse AnyResult", name) {
			t.Errorf("%s is not used", name)
		}
	}
}

func TestNotationFaultsAreTold(t *testing.T) {
	for source, want := range map[string]string{
		`A = { x: B }`:                              "B is not defined",
		`A = { x: "`:                                "a quotation mark is missing",
		`A = { x: string @2025-01-01 }`:             `"2025-01-01" is no revision`,
		`A = { x: string @2025-11-25..2024-11-05 }`: "goes upwards",
		"A = string\nA = string":                    "A is defined already",
		`any = string`:                              "any is defined already",
		`A = { x: "a" | "b" @2025-06-18.. }`:        "put the values in ( )",
		`A = { x: string x: string }`:               "the member x is defined twice",
		`A = { ...B } B = string`:                   "no object that is complete",
		`A = { ...A }`:                              "no object that is complete",
		`A = B B = A`:                               "belongs to no revision, or is defined by itself",
		`A = string[1]`:                             "limits such as",
		`A = { x }`:                                 `":" is expected`,
		`hello`:                                     "begins no definition",
		`request x from nobody { }`:                 "comes from client or server",
		`request x from client { params: any }`:     "lacks its params",
		`request x from client { params: any result: any y: any }`: "made of params and result",
		`error x y`:                 "invalid syntax",
		`error -1 y { other: any }`: "followed by its data",
	} {
		said := &notation{types: map[string]*form{}}
		err := parse("test", source, said)
		if err == nil {
			_, err = assemble(said)
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v instead of %q", source, err, want)
		}
	}
}

func TestAtMostTwentyProblems(t *testing.T) {
	raw := `{"tools":[` + strings.Repeat(`{"name":1,"inputSchema":[]},`, 50) + `null]}`
	problems := Result("2025-11-25", "tools/list", []byte(raw))
	if len(problems) != maxProblems {
		t.Errorf("%d problems", len(problems))
	}
	want := Problem{Path: "/tools/0/name", Expected: "a string", Got: "a number: 1", Rule: "2025-11-25 server/tools §Tool"}
	if problems[0] != want {
		t.Errorf("%+v", problems[0])
	}
	if got := problems[0].String(); got != "/tools/0/name: a string; got a number: 1 (2025-11-25 server/tools §Tool)" {
		t.Error(got)
	}
}

func TestRulesAreThoseOfTheMember(t *testing.T) {
	problems := Result("2026-07-28", "tools/list", []byte(`{"resultType":"complete","tools":[]}`))
	if len(problems) != 2 || problems[0].Rule != "2026-07-28 server/utilities/caching §Time-to-Live (TTL) Field" {
		t.Errorf("%v", problems)
	}
	problems = Message("2026-07-28", Client, []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{}}}`), "")
	if len(problems) != 2 || problems[0].Rule != "2026-07-28 basic §_meta" || problems[0].Path != "/params/_meta" {
		t.Errorf("%v", problems)
	}
}

func TestDepthIsBounded(t *testing.T) {
	deep := func(n int) []byte {
		return []byte(`{"structuredContent":` + strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) + `,"content":[]}`)
	}
	if problems := Result("2025-11-25", "tools/call", deep(maxDepth-1)); problems != nil {
		t.Errorf("%v", problems)
	}
	problems := Result("2025-11-25", "tools/call", deep(maxDepth+1))
	if len(problems) != 1 || !strings.Contains(problems[0].Expected, "at most 128 objects and arrays") {
		t.Errorf("%v", problems)
	}
	Result("2025-11-25", "tools/call", bytes.Repeat([]byte("["), 1<<20))
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
	if problems := Params("2025-11-25", Client, "tools/list", nil); problems != nil {
		t.Errorf("%v", problems)
	}
	if problems := Params("2026-07-28", Client, "tools/list", nil); len(problems) != 1 || problems[0].Path != "" {
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
		"base64":       {"": true, "AAAA": true, "AA==": true, "AA": false, "A A=": false, "AAAA\n": false, "-_-_": false},
		"timestamp":    {"2025-11-25T10:30:00Z": true, "2025-11-25T10:30:00.123+02:00": true, "2025-11-25T10:30:00": true, "2025-11-25": false, "": false},
		"traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01": true, "00-x": false, "": false,
			"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01": false, "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01": false},
		"meta-key": {"a": true, "": true, "a/b": true, "a.b/": true, "a-b.c1/x_y.z": true, "-a": false, "a/b/c": false, "1/b": false, "a./b": false, "/b": false},
	} {
		for s, want := range all {
			if formats[format].holds(s) != want {
				t.Errorf("%s %q: %v", format, s, !want)
			}
		}
	}
}

// FuzzMessage looks for messages that the validator cannot take, or that it takes though they are no JSON.
func FuzzMessage(f *testing.F) {
	for i, revision := range revisions {
		book, err := open(revision)
		if err != nil {
			f.Fatal(err)
		}
		m := maker{rand.New(rand.NewPCG(1, 2))}
		for _, method := range sorted(book.results) {
			raw, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "result": m.make(book.results[method].form, 0)})
			f.Add(raw, uint8(i), method)
		}
	}
	for _, raw := range []string{`[]`, `[{"id":1}]`, `{"a":1,"a":2}`, `{"\ud800":1}`, "{\"a\":\"\xff\"}", `{"method":1,"id":{}}`, `1e999`, ` {} `, `{"error":{"code":-32021}}`} {
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
		same(t, raw, Params(revision, side, method, raw))
		_ = Result(revision, method, raw)
	})
}

// same compares what was decoded with what the standard library makes of it.
func same(t *testing.T, raw []byte, problems []Problem) {
	t.Helper()
	c := &checker{book: &book{}, most: 1}
	v, ok := decode(raw, c)
	if !ok || len(c.problems) > 0 {
		if len(problems) == 0 && len(raw) > 0 {
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
