package shape

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestCases judges the messages of testdata/cases.txt, in each revision that a line names.
func TestCases(t *testing.T) {
	for _, wrong := range wrongCases(t) {
		t.Error(wrong)
	}
}

// wrongCases lists the cases that are judged otherwise than they should be.
func wrongCases(t *testing.T) (wrong []string) {
	t.Helper()
	raw, err := os.ReadFile("testdata/cases.txt")
	if err != nil {
		t.Fatal(err)
	}
	judged := 0
	for n, line := range strings.Split(string(raw), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		words := strings.Fields(line)
		at := strings.IndexAny(line, `{["`)
		what := strings.Fields(line[:at])[2:]
		message, want, _ := strings.Cut(line[at:], " => ")
		for _, revision := range span(t, words[1][1:]) {
			judged++
			problems := ask(t, revision, what, expand(message, revision))
			if words[0] == "good" && len(problems) > 0 {
				wrong = append(wrong, fmt.Sprintf("line %d, %s: %v is wrong about\n%s", n+1, revision, problems, message))
			}
			if words[0] == "bad" {
				which, second := strings.CutPrefix(want, "1 ")
				path, expected, _ := strings.Cut(which, ": ")
				if second && len(problems) > 0 {
					problems = problems[1:]
				}
				if len(problems) == 0 || problems[0].Path != path || !strings.HasPrefix(problems[0].Expected, expected) {
					wrong = append(wrong, fmt.Sprintf("line %d, %s: %v instead of %q about\n%s", n+1, revision, problems, want, message))
				}
			}
		}
	}
	t.Logf("%d judgements", judged)
	return wrong
}

// span lists the revisions of a range such as "2025-06-18..", "..2025-11-25", "..", "2025-03-26".
func span(t *testing.T, text string) []string {
	t.Helper()
	from, to, isRange := strings.Cut(text, "..")
	if !isRange {
		to = from
	}
	first, last := 0, len(revisions)-1
	if from != "" {
		first = slices.Index(revisions, from)
	}
	if to != "" {
		last = slices.Index(revisions, to)
	}
	if first < 0 || last < first {
		t.Fatalf("%q is not a range of revisions", text)
	}
	return revisions[first : last+1]
}

// expand writes the members out that all results, requests, and listen notifications of 2026-07-28 have.
func expand(message, revision string) string {
	message = strings.ReplaceAll(message, "100x", strings.Repeat(`"a",`, 100)+`"a"`)
	for short, long := range map[string]string{
		"{+": `{"resultType":"complete","ttlMs":0,"cacheScope":"private",`,
		"{*": `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},`,
		"{~": `{"_meta":{"io.modelcontextprotocol/subscriptionId":1},`,
	} {
		if revision != "2026-07-28" {
			long = "{"
		}
		message = strings.ReplaceAll(message, short+"}", strings.TrimSuffix(long, ",")+"}")
		message = strings.ReplaceAll(message, short, long)
	}
	return message
}

func ask(t *testing.T, revision string, what []string, message string) []Problem {
	t.Helper()
	side := Server
	if len(what) > 1 && what[1] == "client" {
		side = Client
	}
	switch {
	case what[0] == "result":
		return result(revision, what[1], message)
	case what[0] == "params":
		return params(t, revision, side, what[2], message)
	case len(what) > 2:
		return Message(revision, side, []byte(message), what[2])
	}
	return Message(revision, side, []byte(message), "")
}

// result judges the result of a method; paths begin at the result.
func result(revision, method, raw string) []Problem {
	from := Server
	if s, err := open(revision); err == nil && s.requests[Client][method] == "" && s.requests[Server][method] != "" {
		from = Client
	}
	return within(Message(revision, from, []byte(`{"jsonrpc":"2.0","id":1,"result":`+raw+`}`), method), "/result")
}

// params judges the params of a message; paths begin at the params, or at the message if the method is wrong.
func params(t *testing.T, revision string, from Side, method, raw string) []Problem {
	t.Helper()
	s, err := open(revision)
	if err != nil {
		t.Fatal(err)
	}
	message := `{"jsonrpc":"2.0","id":1,"method":"` + method + `"`
	if strings.HasPrefix(method, "notifications/") && s.requests[from][method] == "" {
		message = strings.Replace(message, `"id":1,`, "", 1)
	}
	if raw != "" {
		message += `,"params":` + raw
	}
	return within(within(Message(revision, from, []byte(message+"}"), ""), "/params"), "/method")
}

func within(problems []Problem, path string) []Problem {
	for i := range problems {
		problems[i].Path = strings.TrimPrefix(problems[i].Path, path)
	}
	return problems
}
