package shape

import (
	"os"
	"strings"
	"testing"
)

// TestCases judges the messages of testdata/cases.txt, in each revision that a line names.
func TestCases(t *testing.T) {
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
		p := parser{tokens: []token{{sort: since, text: words[1][1:]}, {sort: end}}}
		in, err := p.span()
		if err != nil {
			t.Fatalf("line %d: %v", n+1, err)
		}
		at := strings.IndexAny(line, `{["`)
		what := strings.Fields(line[:at])[2:]
		message, want, _ := strings.Cut(line[at:], " => ")
		for i := in.first; i <= in.last; i++ {
			judged++
			problems := ask(t, revisions[i], what, expand(message, i))
			if words[0] == "good" && len(problems) > 0 {
				t.Errorf("line %d, %s: %v is wrong about\n%s", n+1, revisions[i], problems, message)
			}
			if words[0] == "bad" {
				which, second := strings.CutPrefix(want, "1 ")
				path, expected, _ := strings.Cut(which, ": ")
				if second && len(problems) > 0 {
					problems = problems[1:]
				}
				if len(problems) == 0 || problems[0].Path != path || !strings.HasPrefix(problems[0].Expected, expected) {
					t.Errorf("line %d, %s: %v instead of %q about\n%s", n+1, revisions[i], problems, want, message)
				}
			}
		}
	}
	t.Logf("%d judgements", judged)
}

// expand writes the members out that all results, requests, and listen notifications of 2026-07-28 have.
func expand(message string, revision int) string {
	message = strings.ReplaceAll(message, "100x", strings.Repeat(`"a",`, 100)+`"a"`)
	for short, long := range map[string]string{
		"{+": `{"resultType":"complete","ttlMs":0,"cacheScope":"private",`,
		"{*": `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},`,
		"{~": `{"_meta":{"io.modelcontextprotocol/subscriptionId":1},`,
	} {
		if revisions[revision] != "2026-07-28" {
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
		return Result(revision, what[1], []byte(message))
	case what[0] == "params":
		return Params(revision, side, what[2], []byte(message))
	case len(what) > 2:
		return Message(revision, side, []byte(message), what[2])
	}
	return Message(revision, side, []byte(message), "")
}
