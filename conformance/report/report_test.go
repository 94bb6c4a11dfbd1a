package report

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

var update = flag.Bool("update", false, "rewrite testdata/*.txt, *.md, *.svg")

const (
	theToken    = "Bearer s3cr3t-t0ken/with+signs"
	thePassword = "hunter2hunter2"
	theURL      = "https://somebody:" + thePassword + "@example.com/mcp?api_key=ABCDEF123456"
)

func made(id string, level suite.Level, faces ...peer.Face) *suite.Check {
	return &suite.Check{ID: id, Title: "Does what " + id + " says", Level: level, Faces: faces, Page: "basic/transports/streamable-http §Session Management",
		Statement: "A server must do <this> and | that.", Why: "Clients lose `things` otherwise.", Fix: "Do it.", Run: func(*suite.Trial) {}}
}

// example returns a run with one finding of each kind, and with texts that are markup for terminals, XML and Markdown.
func example() Run {
	keeps, hears := made("request.keeps", suite.Must, peer.ModernHTTP), made("request.hears", suite.Must, peer.ModernHTTP, peer.LegacyHTTP)
	should, may, needy := made("tools.should", suite.Should, peer.LegacyHTTP), made("tools.may", suite.May, peer.LegacyHTTP), made("tools.needy", suite.Must, peer.LegacyHTTP)
	needy.Needs, needy.Page = []suite.Need{suite.NeedsTool("add")}, "RFC 9110 §15.5.6"
	broke, known := made("stream.broke", suite.Must, peer.LegacyHTTP), made("stream.known", suite.Must, peer.LegacyHTTP)
	legacy, modern := suite.Finding{Face: peer.LegacyHTTP, Revision: peer.R2511}, suite.Finding{Face: peer.ModernHTTP, Revision: peer.R2607}
	older := suite.Finding{Face: peer.LegacyHTTP, Revision: peer.R2506}
	with := func(f suite.Finding, c *suite.Check, o suite.Outcome, ms int64) *suite.Finding {
		f.Check, f.Outcome, f.TookMS = c, o, ms
		return &f
	}
	wrong := func(f suite.Finding) *suite.Finding {
		x := with(f, hears, suite.Failed, 1234)
		x.Problems = []suite.Problem{{Expected: "400 with the error -32020", Got: "status 200 \x1b[31m and ``ticks``"}, {Expected: "no body", Got: "one"}}
		x.Evidence = []suite.Line{{Out: true, Where: "HTTP", Text: "POST\nX-Other: 1\n\n{\"a\":1}", MS: 1},
			{Where: "HTTP", Text: "200 OK\nContent-Type: text/html", MS: 2},
			{Where: "HTTP", Text: "you sent " + theToken + " ]]> ```\n\x00\uffff\x1b[2J of " + theURL, MS: 3}}
		return x
	}
	skipped, noted, warned := with(legacy, needy, suite.Skipped, 0), with(legacy, may, suite.Noted, 5), with(legacy, should, suite.Warned, 6)
	skipped.Reason = "the server has no tool add"
	noted.Problems = []suite.Problem{{Expected: "a title", Got: "none"}}
	warned.Problems = []suite.Problem{{Expected: "an Allow field", Got: "none"}}
	broken, expected := with(legacy, broke, suite.Broken, 7), with(legacy, known, suite.Failed, 8)
	broken.Reason = "no response: connection refused"
	expected.Problems = []suite.Problem{{Expected: "an id", Got: "null"}}
	list := "# what we know\n\nstream.known@legacy-http  # their issue 12\nrequest.keeps # was so once\nstream.knwon\ntools.needy\nother.check@sse\n"
	x, err := ReadExpectations("known.txt", strings.NewReader(list))
	if err != nil {
		panic(err)
	}
	other := made("other.check", suite.Must, peer.SSE)
	all := []*suite.Check{keeps, hears, should, may, needy, broke, known, other}
	x.Select(func(id string) bool {
		return slices.ContainsFunc(all, func(c *suite.Check) bool { return c.ID == id })
	}, func(check, _, _ string) bool { return check != "other.check" },
		func(string) string { return "stream.known" })
	return Run{Version: "v1.2.3", Targets: []string{"https://somebody:xxxxx@example.com/mcp?(hidden)"}, Expected: x,
		Offers: []*suite.Offer{{Face: peer.ModernHTTP, Revision: peer.R2607, Server: "one | 1.0"}, {Face: peer.LegacyHTTP, Revision: peer.R2506, Server: "one | 1.0"}, {Face: peer.LegacyHTTP, Revision: peer.R2511, Server: "one | 1.0"}},
		Tried:  []string{"sse: GET was answered with 405"},
		Findings: []*suite.Finding{with(modern, keeps, suite.Passed, 3), wrong(modern), wrong(older), wrong(legacy), warned, noted,
			skipped, broken, expected},
		Began: time.Date(2026, 11, 22, 13, 0, 0, 0, time.UTC), Took: 2500 * time.Millisecond,
		Hide: Hide{Values: []string{theToken, "1", "true"}, URLs: []string{theURL}}}
}

func TestTotals(t *testing.T) {
	r := New(example())
	if got, want := r.Totals.Line(), "1 passed, 3 failed, 1 warnings, 1 notes, 1 skipped, 1 broken, 1 expected, 3 stale"; got != want || r.OK {
		t.Errorf("%s, ok %v; want %s", got, r.OK, want)
	}
	if got := r.Places[1].Totals; got.Failed != 1 || got.Passed != 0 {
		t.Errorf("%+v", got)
	}
	f := func(want bool, change func(*Run)) {
		t.Helper()
		run := example()
		run.Expected = nil
		run.Findings = run.Findings[:1]
		change(&run)
		if r := New(run); r.OK != want {
			t.Errorf("ok %v: %+v", r.OK, r.Totals)
		}
	}
	keep := func(outcome suite.Outcome) func(*Run) {
		return func(run *Run) { run.Findings[0].Outcome = outcome }
	}
	f(true, func(*Run) {})
	f(true, keep(suite.Warned))
	f(true, keep(suite.Noted))
	f(true, keep(suite.Skipped))
	f(false, keep(suite.Broken))
	f(false, keep(suite.Failed))
	f(false, func(run *Run) { run.Findings[0].Outcome, run.Strict = suite.Warned, true })
	f(false, func(run *Run) { run.Ended = "interrupted" })
	f(false, func(run *Run) { run.Findings = nil })
}

// writers are the formats of a report.
func writers(r *Report) map[string]func(io.Writer) error {
	return map[string]func(io.Writer) error{
		"json": r.JSON, "junit": r.JUnit, "sarif": r.SARIF, "markdown.md": r.Markdown, "page.html": r.HTML, "badge": r.Badge, "badge.svg": r.BadgeSVG,
		"terminal.txt": func(w io.Writer) error { return r.Terminal(w, Style{}) },
		"verbose.txt":  func(w io.Writer) error { return r.Terminal(w, Style{Verbose: true}) },
		"colour.txt":   func(w io.Writer) error { return r.Terminal(w, Style{Colour: true}) },
	}
}

func written(t *testing.T, write func(io.Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// No report has a secret or a control character of the server.
func TestSecretsAndControls(t *testing.T) {
	for name, write := range writers(New(example())) {
		text := written(t, write)
		for _, secret := range []string{theToken, "s3cr3t", thePassword, "ABCDEF123456"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s has %q:\n%s", name, secret, text)
			}
		}
		if strings.ContainsAny(text, "\x00") || name != "colour.txt" && strings.Contains(text, "\x1b") || strings.Contains(text, "\x1b[2J") {
			t.Errorf("%s has controls: %q", name, text)
		}
		if (name == "json" || name == "verbose.txt") && !strings.Contains(text, "you sent (hidden) ]]>") {
			t.Errorf("%s: what was hidden is not to be seen:\n%s", name, text)
		}
	}
}

// JSON has the texts of a server unchanged, with the escapes of JSON.
func TestJSONKeepsText(t *testing.T) {
	text := written(t, New(example()).JSON)
	if !strings.Contains(text, `status 200 \u001b[31m and`) {
		t.Errorf("%s", text)
	}
}

func TestHide(t *testing.T) {
	f := func(h Hide, text, want string) {
		t.Helper()
		if got := h.replacer().Replace(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	h := Hide{Values: []string{`Basic a"b\c+d/e=`, "shorty"}, URLs: []string{"http://u:p%40ssword@h/x?token=tok%2Fenough&n=1"}}
	f(h, `{"k":"a\"b\\c+d/e="}`, `{"k":"(hidden)"}`)
	f(h, "a%22b%5Cc%2Bd%2Fe%3D", "(hidden)")
	f(h, "shorty and short", "(hidden) and short")
	f(h, "u:p%40ssword and p@ssword", "(hidden) and (hidden)")
	f(h, "dTpwQHNzd29yZA==", "(hidden)")
	f(h, "token=tok%2Fenough&n=1, tok/enough, n=1", "(hidden), (hidden), n=1")
	f(Hide{Values: []string{"1", "true"}}, `{"a":1,"b":true}`, `{"a":1,"b":true}`)
	f(Hide{}, "nothing", "nothing")
}

func TestArguments(t *testing.T) {
	f := func(want string, argv ...string) {
		t.Helper()
		if got := Arguments(argv); got != want {
			t.Errorf("%q: %q, want %q", argv, got, want)
		}
	}
	f("npx -y server", "npx", "-y", "server")
	f("a --api-key (hidden) x", "a", "--api-key", "sk-1", "x")
	f("a --token=(hidden) --keyless --port 1", "a", "--token=t", "--keyless", "--port", "1")
	f("env GITHUB_TOKEN=(hidden) a", "env", "GITHUB_TOKEN=x", "a")
}

// The reports for people and the badge equal the golden files.
func TestGolden(t *testing.T) {
	r := New(example())
	c := NewCatalogue([]*suite.Check{made("request.keeps", suite.Must, peer.ModernHTTP), made("tools.should", suite.Should, peer.LegacyHTTP, peer.SSE)})
	c.Checks[1].Needs, c.Checks[1].Revisions = []string{"the tool add"}, suite.From(peer.R2506)
	all := writers(r)
	all["checks.md"], all["checks.txt"], all["explain.txt"] = c.Markdown, c.List, c.Checks[1].Explain
	old := New(example())
	old.Findings[1].Outcome, old.Findings[4].Outcome, old.Findings[7].Outcome = suite.Passed, suite.Passed, suite.Failed
	old.Findings = old.Findings[:8]
	r.Findings[0].Outcome, old.Findings[0].Outcome = suite.Passed, suite.Failed
	old.Findings = append(old.Findings, Finding{Check: "gone.check", Face: "sse", Revision: peer.R2411, Outcome: suite.Passed})
	d := Compare(old, New(example()))
	all["diff.txt"], all["diff.md"] = func(w io.Writer) error { return d.Terminal(w, false) }, d.Markdown
	for name, write := range all {
		if filepath.Ext(name) == "" || name == "colour.txt" {
			continue
		}
		file := filepath.Join("testdata", name)
		got := written(t, write)
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil || string(want) != got {
			t.Errorf("%s: %v; got\n%s\nwant (go test -update rewrites it)\n%s", file, err, got, want)
		}
	}
}

// The server behind an intermediary and the scenario of a client are parts of a place.
func TestBehind(t *testing.T) {
	run := example()
	for i, behind := range []string{"legacy-stdio", "modern-http"} {
		run.Findings[i].Behind, run.Findings[i].Check = behind, run.Findings[0].Check
	}
	run.Findings, run.Offers, run.Expected = run.Findings[:2], nil, nil
	r := New(run)
	if len(r.Places) != 2 || r.Findings[0].Key() == r.Findings[1].Key() || r.Places[1].Name() != "modern-http@2026-07-28 (modern-http)" || r.Places[1].Totals.Failed != 1 {
		t.Errorf("%+v", r.Places)
	}
	if text := written(t, writers(r)["terminal.txt"]); !strings.Contains(text, "WITH ") || !strings.Contains(text, "  legacy-stdio  ") {
		t.Errorf("%s", text)
	}
	if text := written(t, r.JUnit); !strings.Contains(text, `name="modern-http@2026-07-28 (legacy-stdio)"`) {
		t.Errorf("%s", text)
	}
}

// The output on a terminal differs only in colour.
func TestColour(t *testing.T) {
	r := New(example())
	all := writers(r)
	text := written(t, all["colour.txt"])
	if !strings.Contains(text, red+"FAIL"+plain) {
		t.Error("there is no colour")
	}
	for _, c := range []string{red, green, yellow, cyan, dim, bold, plain} {
		text = strings.ReplaceAll(text, c, "")
	}
	if want := written(t, all["terminal.txt"]); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}

func TestProgress(t *testing.T) {
	var b bytes.Buffer
	p := NewProgress(&b)
	p.Say("looking")
	failed := &suite.Finding{Check: made("a.b", suite.Must), Face: peer.SSE, Revision: peer.R2411, Outcome: suite.Failed}
	runs := &suite.Finding{Check: made("a.c", suite.Must), Face: peer.SSE, Revision: peer.R2411}
	p.Done(suite.Step{Done: 1, Total: 4, Ended: failed, Running: runs})
	p.began = time.Now().Add(-10 * time.Second)
	p.Done(suite.Step{Done: 2, Total: 4, Ended: runs, Running: failed})
	p.Done(suite.Step{Done: 4, Total: 4, Ended: runs})
	p.End()
	if got, want := b.String(), "\r\x1b[Klooking\r\x1b[K1 of 4, 1 failed  sse@2024-11-05  a.c\r\x1b[K2 of 4, 1 failed, about 20s left  sse@2024-11-05  a.b\r\x1b[K4 of 4, 1 failed\r\x1b[K"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	silent := NewProgress(nil)
	silent.Say("x")
	silent.End()
}

func TestPageURL(t *testing.T) {
	f := func(page, want string, revisions []string, faces ...peer.Face) {
		t.Helper()
		if got := pageURL(&suite.Check{Page: page, Revisions: revisions, Faces: faces}); got != want {
			t.Errorf("%q: %q, want %q", page, got, want)
		}
	}
	f("server/tools", specification+"2026-07-28/server/tools", nil, peer.ModernHTTP, peer.SSE)
	f("basic/lifecycle §Version Negotiation", specification+"2025-11-25/basic/lifecycle#version-negotiation", nil, peer.LegacyHTTP)
	f("basic §Responses (RFC 8259 §6 on large numbers)", specification+"2025-11-25/basic#responses", nil, peer.SSE)
	f("basic/index §Error Codes, §Responses", specification+"2026-07-28/basic#error-codes", nil, peer.ModernStdio)
	f("server/tools", specification+"2025-03-26/server/tools", []string{peer.R2411, peer.R2503}, peer.SSE)
	f("RFC 9110 §15.5.6", "", nil, peer.ModernHTTP)
	f("", "", nil, peer.ModernHTTP)
	f("MCP-Tools https://example.com/spec#tools, SEP-1 https://example.com/seps/1", "https://example.com/spec#tools", nil, peer.ModernHTTP)
	f("server/tools", "", nil, peer.REST)
	f("schema CallToolRequest", specification+"2026-07-28/schema#calltoolrequest", nil, peer.ModernHTTP)
	f("basic/lifecycle §Operation; server/* §Capabilities", specification+"2025-11-25/basic/lifecycle#operation", nil, peer.SSE)
	f("basic/transports (messages are UTF-8)", specification+"2025-11-25/basic/transports", nil, peer.SSE)
	f("basic §Requests (ids are unique within a session); basic/transports", specification+"2025-11-25/basic#requests", nil, peer.SSE)
	f("basic §_meta", specification+"2025-11-25/basic#_meta", nil, peer.SSE)
	f("REST envelope §ToolSchema", "", nil, peer.ModernHTTP)
	f("2024-11-05 basic/transports §HTTP with SSE; §Security Warning", specification+"2024-11-05/basic/transports#http-with-sse", nil, peer.SSE)
	f("seed 003", "", nil, peer.ModernHTTP)
}

func TestRevisionsText(t *testing.T) {
	f := func(want string, revisions ...string) {
		t.Helper()
		if got := revisionsText(revisions); got != want {
			t.Errorf("%q: %q", revisions, got)
		}
	}
	f("all")
	f("2025-06-18 and later", suite.From(peer.R2506)...)
	f("2026-07-28", peer.R2607)
	f("2024-11-05, 2025-11-25", peer.R2411, peer.R2511)
}

func TestWrap(t *testing.T) {
	if got := wrap("one two  three\nfour", 8); !slices.Equal(got, []string{"one two", "three", "four"}) {
		t.Errorf("%q", got)
	}
	if got := short("a\nbcdef\nc", 2, 3); got != "a\nbcd…\n…" {
		t.Errorf("%q", got)
	}
}

// Whatever a server says, no report has a character that cannot be seen, or that changes how others are seen.
func TestReportsAreVisible(t *testing.T) {
	hostile := "x"
	for _, span := range [][2]rune{{0, 8}, {0xb, 0x1f}, {0x7f, 0x9f}, {0xad, 0xad}, {0x61c, 0x61c}, {0x180e, 0x180e}, {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0001, 0xe007f}} {
		for r := span[0]; r <= span[1]; r++ {
			hostile += string(r)
		}
	}
	hostile += "\xff\xc0\uffff y"
	run := example()
	for i := range run.Offers {
		run.Offers[i].Server = hostile
	}
	run.Tried, run.Targets, run.Ended = []string{hostile}, []string{hostile}, hostile
	for _, f := range run.Findings {
		f.Reason, f.Behind = hostile, hostile
		for i := range f.Problems {
			f.Problems[i] = suite.Problem{Expected: hostile, Got: hostile}
		}
		for i := range f.Evidence {
			f.Evidence[i].Text, f.Evidence[i].Where = hostile, hostile
		}
	}
	other := example()
	other.Findings = other.Findings[:1]
	d := Compare(New(other), New(run))
	all := writers(New(run))
	all["diff.txt"], all["diff.json"], all["diff.md"] = func(w io.Writer) error { return d.Terminal(w, false) }, d.JSON, d.Markdown
	for name, write := range all {
		text := strings.NewReplacer(red, "", green, "", yellow, "", cyan, "", dim, "", bold, "", plain, "").Replace(written(t, write))
		for i, r := range text {
			if r == '\n' || r == '\t' || unicode.IsPrint(r) {
				continue
			}
			t.Errorf("%s has %U: …%q…", name, r, text[max(0, i-80):min(len(text), i+40)])
			break
		}
	}
}
