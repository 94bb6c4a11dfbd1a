package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dragoman/internal/testkit"
)

// Usage errors say what is wrong and how to fix it.
func TestBenchUsage(t *testing.T) {
	f := func(code int, want string, args ...string) {
		t.Helper()
		_, got, out, errs := runLine(t, nil, nil, append([]string{"bench"}, args...)...)
		if got != code || !strings.Contains(errs, want) {
			t.Errorf("%q: %d %s%s, want %d and %q", args, got, out, errs, code, want)
		}
		if code != ExitOK && !strings.Contains(errs, "fix:") && !strings.Contains(errs, "did you mean") && !strings.Contains(errs, "run `") {
			t.Errorf("%q: the error names no fix: %s", args, errs)
		}
	}
	const url = "http://127.0.0.1:1/mcp"
	f(2, "a URL or a COMMAND is missing")
	f(2, "unexpected argument", url, "http://127.0.0.1:2/mcp")
	f(2, "neither over http nor over https", "ftp://host/mcp")
	f(2, "is not a URL", "host:1")
	f(2, "--connections: 0 is out of bounds; fix: write 1 to 4096", "--connections", "0", url)
	f(2, "--rate: 0 is out of bounds", "--rate", "0", url)
	f(2, "--rate: NaN is out of bounds", "--rate", "NaN", url)
	f(2, "--duration: 25h0m0s is out of bounds", "--duration", "25h", url)
	f(2, "--size: 0 is out of bounds", "--size", "300,0", url)
	f(2, "--stream-share: 1.5 is out of bounds", "--stream-share", "1.5", url)
	f(2, "--sessions: 100000 is out of bounds", "--sessions", "1,100000", url)
	f(2, "--requests: 0 is out of bounds", "--requests", "0", url)
	f(2, "both --requests and --duration", "--requests", "5", "--duration", "5s", url)
	f(2, "both --tool and --method", "--tool", "x", "--method", "ping", url)
	f(2, "--arguments is for --tool", "--arguments", "{}", url)
	f(2, "--queue is for --rate", "--queue", "5", url)
	f(2, "--arguments is no JSON object", "--tool", "x", "--arguments", "[1]", url)
	f(2, "params have _meta", "--method", "x", "--params", `{"_meta":{}}`, url)
	f(2, "is no method", "--method", "a\"b", url)
	f(2, `did you mean modern-http?`, "--face", "modern-htp", url)
	f(2, "stdio is for a COMMAND", "--face", "legacy-stdio", url)
	f(2, "stdio is for a COMMAND", "--face", "sse", "--", "x")
	f(2, `--revision: "2025" is not known`, "--revision", "2025", url)
	f(2, "--header is for a URL", "--header", "A: b", "--", "x")
	f(2, "--sessions is for a URL", "--sessions", "5", "--", "x")
	f(2, "--processes is for a COMMAND", "--processes", "2", url)
	f(2, "--fail \"p98<1ms\": there is no metric \"p98\"", "--fail", "p98<1ms", url)
	f(2, "no < or >", "--fail", "p99", url)
	f(2, "fix: write --json=x.json", "--json", "x.json", url)
	f(2, "both --json and --html write to x", "--json=x", "--html", "x", url)
	f(2, "did you mean --connections?", "--connection", "5", url)
	f(1, "cannot be written", "--html", filepath.Join(t.TempDir(), "no", "x.html"), url)
	f(1, "--compare", "--compare", testkit.WriteFile(t, "c.json", "{}"), url)
	f(1, "no such file", "--mix", filepath.Join(t.TempDir(), "mix.json"), url)
	f(1, "is no list of calls", "--mix", testkit.WriteFile(t, "mix.json", "{}"), url)
	f(1, "call 2: a call has either a tool or a method", "--mix", testkit.WriteFile(t, "mix2.json", `[{"tool":"x"},{"weight":2}]`), url)
	f(1, "call 1: a weight of -1", "--mix", testkit.WriteFile(t, "mix3.json", `[{"tool":"x","weight":-1}]`), url)
	f(1, "no such file", "--tool", "x", "--arguments", "@"+filepath.Join(t.TempDir(), "x"), url)
}

func TestBenchOptions(t *testing.T) {
	mix := testkit.WriteFile(t, "mix.json", `[{"tool":"a","arguments":{"x":"{n}"},"weight":3},{"name":"b","method":"prompts/get","params":{"name":"p"},"varies":true}]`)
	rec, code, _, errs := runLine(t, []string{"T=secret"}, nil, "bench", "--mix", mix, "--rate", "100", "--sessions", "100,1", "--fail", "p99<20ms", "--header", "Authorization: env:T",
		"--requests", "50", "--face", "legacy-http", "https://host/mcp")
	o := rec.Bench
	if code != 0 || o == nil {
		t.Fatal(code, errs)
	}
	if len(o.Calls) != 2 || o.Calls[0].Weight != 3 || string(o.Calls[0].Arguments) != `{"x":"{n}"}` || !o.Calls[1].Varies || o.Rate != 100 || o.Requests != 50 ||
		o.Sessions[0] != 1 || len(o.Thresholds) != 1 || o.Headers[0].Value != "secret" || o.URL != "https://host/mcp" || o.Timeout != 20*time.Second {
		t.Errorf("%+v", o)
	}
	rec, _, _, _ = runLine(t, nil, nil, "bench", "--processes", "3", "--", "node", "--flag", "x.js")
	if o = rec.Bench; o == nil || strings.Join(o.Command, " ") != "node --flag x.js" || o.Processes != 3 || o.Connections != 16 || o.Rounds != 5 {
		t.Errorf("%+v", o)
	}
}

// The examples of the help are valid commands; their files may be missing.
func TestBenchExamples(t *testing.T) {
	for line := range strings.SplitSeq(benchExample, "\n") {
		if words := testkit.ShellWords(line); len(words) > 0 {
			if _, code, _, errs := runLine(t, nil, nil, words[1:]...); code == ExitUsage {
				t.Errorf("%s: %s", line, errs)
			}
		}
	}
}

func TestBenchSearch(t *testing.T) {
	f := func(code int, want string, args ...string) {
		t.Helper()
		_, got, out, errs := runLine(t, nil, nil, append([]string{"bench", "search"}, args...)...)
		if got != code || !strings.Contains(out+errs, want) {
			t.Errorf("%q: %d %s%s, want %d and %q", args, got, out, errs, code, want)
		}
	}
	const data = "bench/search/testdata"
	f(0, "lexical         0.8", "--sizes", "40", data)
	f(0, "not measured", "--sizes", "40", data)
	f(0, `"ndcg_at_10": 0.9`, "--sizes", "40", "--json", data)
	f(2, "no sets of tools and queries are there; fix:", t.TempDir())
	f(2, "no sets of tools and queries are there; fix:", filepath.Join(t.TempDir(), "none"))
	f(2, "one DIR with sets is needed, and there are 0; fix:")
	f(2, "one DIR with sets is needed, and there are 2; fix:", data, data)
	f(2, "--sizes: 0 is out of bounds; fix:", "--sizes", "5,0", data)
	f(2, "fix: write --json=x.json", "--json", "x.json")
	f(1, "cannot be written", "--sizes", "40", "--json="+filepath.Join(t.TempDir(), "no", "x.json"), data)
	broken := t.TempDir()
	if err := os.Mkdir(filepath.Join(broken, "s"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"tools.jsonl", "queries.jsonl"} {
		if err := os.WriteFile(filepath.Join(broken, "s", file), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f(1, "tools.jsonl:1: ", broken)
}
