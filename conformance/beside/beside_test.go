package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"dragoman/conformance/checks"
	"dragoman/conformance/official"
	"dragoman/conformance/peer"
	"dragoman/conformance/report"
	"dragoman/conformance/suite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The tables name existing checks and servers, and programs that the repository installs.
func TestTables(t *testing.T) {
	tables, err := readTables(".")
	if err != nil {
		t.Fatal(err)
	}
	names, short := make(map[string]bool), 0
	for _, s := range tables.servers {
		if names[s.name] {
			t.Errorf("%s twice", s.name)
		}
		names[s.name] = true
		if s.short {
			short++
		}
		if s.stdio() == strings.Contains(s.command, "{port}") {
			t.Errorf("%s: a server over HTTP needs {port}, one over stdio none: %s", s.name, s.command)
		}
	}
	if len(tables.servers) < 8 || short == 0 {
		t.Errorf("%d servers, %d of them short", len(tables.servers), short)
	}
	var ids []string
	for _, c := range checks.All() {
		ids = append(ids, c.ID)
	}
	known := func(patterns string, all []string) bool {
		return !slices.ContainsFunc(strings.Split(patterns, ","), func(p string) bool {
			return !slices.ContainsFunc(all, func(x string) bool { return matches(p, x) })
		})
	}
	servers := func(patterns string) bool {
		var all []string
		for n := range names {
			all = append(all, n)
		}
		return known(patterns, all)
	}
	for _, c := range tables.counterparts {
		for _, id := range c.ours {
			if !slices.Contains(ids, id) {
				t.Errorf("counterparts.tsv:%d: there is no check %s", c.line, id)
			}
		}
	}
	for _, d := range tables.differs {
		if !servers(d.servers) {
			t.Errorf("differs.tsv:%d: no such server: %s", d.line, d.servers)
		}
	}
	for _, f := range tables.faults {
		if !servers(f.servers) || !known(f.checks, ids) {
			t.Errorf("faults.tsv:%d: no such server or check: %s, %s", f.line, f.servers, f.checks)
		}
	}
}

// tabled writes tables and reads them.
func tabled(t *testing.T, counterparts, differs, faults string) *tables {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"servers.tsv": "# a remark\none\tan SDK\t/mcp\tshort\tserve {port}\ta server\n", "counterparts.tsv": counterparts, "differs.tsv": differs, "faults.tsv": faults} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tables, err := readTables(dir)
	if err != nil {
		t.Fatal(err)
	}
	return tables
}

// reported is a report with findings: check, outcome and what was received.
func reported(findings ...[3]string) *report.Report {
	run := report.Run{}
	for _, f := range findings {
		run.Findings = append(run.Findings, &suite.Finding{Check: &suite.Check{ID: f[0], Level: suite.Must, Page: "basic"}, Face: peer.LegacyHTTP, Revision: peer.R2511,
			Outcome: suite.Outcome(f[1]), Problems: []suite.Problem{{Expected: "what is right", Got: f[2]}}})
	}
	return report.New(run)
}

func TestCompare(t *testing.T) {
	findings := [][3]string{
		{official.Prefix + "x:same", "passed", ""}, {"a.same", "passed", ""}, {"a.more", "skipped", ""},
		{official.Prefix + "x:both", "failed", ""}, {"a.both", "warned", "a fault"},
		{official.Prefix + "x:ours", "passed", ""}, {"a.ours", "failed", "a | fault\nof ours"},
		{official.Prefix + "x:theirs", "failed", "theirs"}, {"a.theirs", "skipped", ""},
		{official.Prefix + "x:nothing", "passed", ""}, {"a.nothing", "broken", ""},
		{official.Prefix + "x:alone", "failed", ""}, {official.Prefix + "x:absent", "passed", ""},
		{official.Prefix + "x:wire-schema-valid", "passed", ""}, {official.Prefix + "y:wire-schema-valid", "warned", ""}, {"messages.shape", "failed", "a shape"},
	}
	counterparts := "x:*\ta.never\t\nx:same\ta.same,a.more\t\nx:both\ta.both\t\nx:ours\ta.ours\t\nx:theirs\ta.theirs\t\nx:nothing\ta.nothing\t\nx:alone\t-\tno reason\n*:wire-schema-valid\tmessages.shape\t\n"
	tables := tabled(t, counterparts, "x:ours\t*\tone\tours\tbasic\tit looks further\nx:*\t2025-11-25\to*\tboth\t-\tanother tool\n", "one\ta.*,messages.shape\tSDK\tso it is\n")
	r := tables.compare(tables.servers[0], reported(findings...))
	want := map[string]judgement{"x:same": agree, "x:both": agree, "x:ours": explained, "x:theirs": explained, "x:nothing": oneLooks, "x:alone": alone, "x:absent": alone, everyWire: agree}
	for _, w := range r.rows {
		if j, ok := want[w.check]; !ok || j != w.judged {
			t.Errorf("%s: %d, want %d", w.check, w.judged, j)
		}
		if level := w.check == "x:both" || w.check == everyWire; w.otherLevel() != level {
			t.Errorf("%s: another level %v", w.check, !level)
		}
		delete(want, w.check)
	}
	if len(want) != 0 {
		t.Errorf("missing: %v", want)
	}
	if len(r.faults) != 2 || r.faults[0].check.ID != "a.ours" || r.faults[0].whose == nil {
		t.Errorf("%+v", r.faults)
	}
	if wrong := tables.wrong([]*run{r}); len(wrong) != 0 {
		t.Errorf("%q", wrong)
	}
	text := string(tables.render([]*run{r}))
	for _, part := range []string{"| 4 | 3 | 2 | 1 | 1 | 0 | 1 | 2 | 2 |", "1. **ours is right** (1): it looks further. *basic*", "`x:ours` ✓, `a.ours` ✗: one@2025-11-25", "| `a.ours` | 2025-11-25 | SDK — so it is | what is right | `a \\| fault of ours` |",
		"| `x:theirs` | – | ✗– ≠ |", "| `x:alone` | HTTP@2025-11-25 | no reason |", "| `x:both` | failed | `a.both` | warned | one@2025-11-25 |"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in:\n%s", part, text)
		}
	}
}

func TestWrong(t *testing.T) {
	differing := reported([3]string{official.Prefix + "x:a", "failed", "theirs"}, [3]string{"a.a", "passed", ""}, [3]string{"a.b", "failed", "ours"}, [3]string{official.Prefix + "z:z", "passed", ""})
	tables := tabled(t, "x:a\ta.a\t\nx:old\t-\tgone\n", "x:a\t2026-07-28\tone\tours\t-\tof another revision\nx:b\t*\tone\tboth, sometimes\t-\tnot each time\n", "one\ta.old\tserver\t\none\ta.flaky\tfixture, sometimes\t\n")
	r := tables.compare(tables.servers[0], differing)
	want := []string{"one@2025-11-25 x:a: the official suite says failed (x:a): theirs, ours says passed (a.a): what is right", "one@2025-11-25 z:z is not in counterparts.tsv",
		"one breaks a.b at 2025-11-25, and faults.tsv does not name its cause: ours", "STALE differs.tsv:1: x:a at one", "STALE faults.tsv:1: a.old at one", "STALE counterparts.tsv:2: x:old"}
	if got := tables.wrong([]*run{r}); !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	var out bytes.Buffer
	if err := tell(&out, []*run{r}, tables.wrong([]*run{r})); err == nil || !strings.HasSuffix(out.String(), "\n0 passed, 1 failed\n") {
		t.Errorf("%v %s", err, out.String())
	}
	// Without the server it is not known which lines are stale.
	if got := tables.wrong(nil); len(got) != 0 {
		t.Errorf("%q", got)
	}
	// Errors of the tables alone fail as well.
	if err := tell(&out, nil, []string{"STALE"}); err == nil {
		t.Error("a stale line passed")
	}
}

func TestBadTables(t *testing.T) {
	for want, f := range map[string]func(*tables) error{
		"no counterpart and no reason":   func(t *tables) error { return t.counterpart(1, []string{"x", "-", ""}) },
		"must be ours, suite or both":    func(t *tables) error { return t.differ(1, []string{"x", "*", "*", "they", "-", "so"}) },
		"must be SDK, server or fixture": func(t *tables) error { return t.fault(1, []string{"x", "*", "nobody", ""}) },
		"1 columns, want 3": func(*tables) error {
			name := filepath.Join(t.TempDir(), "x.tsv")
			if err := os.WriteFile(name, []byte("one\n"), 0o600); err != nil {
				return err
			}
			return readTable(name, 3, nil)
		},
	} {
		if err := f(&tables{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
