package report

import (
	"encoding/xml"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-json"

	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// A report written as JSON can be read again without loss.
func TestJSONAgain(t *testing.T) {
	r := New(example())
	again, err := Read(strings.NewReader(written(t, r.JSON)))
	if err != nil || !reflect.DeepEqual(r, again) {
		t.Errorf("%v:\n%+v\n%+v", err, again, r)
	}
	f := func(text, want string) {
		t.Helper()
		if _, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	f("", "is no report")
	f("{}", "is no report")
	f("[1]", "is no report")
	f(`{"format":2}`, "has the format 2")
}

// node is any element of XML.
type node struct {
	XMLName xml.Name
	Attrs   []xml.Attr `xml:",any,attr"`
	Nodes   []node     `xml:",any"`
	Text    string     `xml:",chardata"`
}

func (n node) attr(name string) string {
	for _, a := range n.Attrs {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return "(none)"
}

func (n node) all(name string) (out []node) {
	for _, c := range n.Nodes {
		if c.XMLName.Local == name {
			out = append(out, c)
		}
	}
	return out
}

// JUnit XML has only what the schemas of Ant and Jenkins both allow.
func TestJUnit(t *testing.T) {
	var doc node
	if err := xml.Unmarshal([]byte(written(t, New(example()).JUnit)), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.XMLName.Local != "testsuites" || len(doc.Attrs) != 0 || len(doc.Nodes) != 4 {
		t.Fatalf("%+v", doc)
	}
	for i, s := range doc.Nodes {
		if s.attr("id") != strconv.Itoa(i) || !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$`).MatchString(s.attr("timestamp")) ||
			!regexp.MustCompile(`^\d{1,3}\.\d{3}$`).MatchString(s.attr("time")) {
			t.Errorf("%+v", s.Attrs)
		}
		for _, name := range []string{"package", "name", "hostname"} {
			if v := s.attr(name); v == "" || v == "(none)" {
				t.Errorf("suite %d has no %s", i, name)
			}
		}
		order := ""
		for _, c := range s.Nodes {
			order += c.XMLName.Local + " "
		}
		if !regexp.MustCompile(`^properties (testcase )*system-out system-err $`).MatchString(order) {
			t.Errorf("suite %d: %s", i, order)
		}
		counts := map[string]int{}
		for _, c := range s.all("testcase") {
			if len(c.Nodes) > 1 || len(c.Attrs) != 3 {
				t.Errorf("%+v", c)
			}
			for _, n := range c.Nodes {
				counts[n.XMLName.Local]++
			}
		}
		for attr, element := range map[string]string{"failures": "failure", "errors": "error", "skipped": "skipped"} {
			if s.attr(attr) != strconv.Itoa(counts[element]) {
				t.Errorf("suite %d: %s is %s of %d", i, attr, s.attr(attr), counts[element])
			}
		}
		if s.attr("tests") != strconv.Itoa(len(s.all("testcase"))) {
			t.Errorf("suite %d: tests is %s", i, s.attr("tests"))
		}
	}
	modern, legacy, run := doc.Nodes[0], doc.Nodes[2], doc.Nodes[3]
	failure := modern.all("testcase")[1].all("failure")
	if modern.attr("name") != "modern-http@2026-07-28" || len(failure) != 1 || failure[0].attr("type") != "MUST" ||
		!strings.Contains(failure[0].Text, "fix: Do it.") || !strings.Contains(failure[0].Text, "--> HTTP, at 1 ms") {
		t.Errorf("%+v", modern)
	}
	if out := legacy.all("system-out")[0].Text; !strings.Contains(out, "WARNED tools.should") || !strings.Contains(out, "NOTED tools.may") {
		t.Errorf("%q", out)
	}
	var skipped []string
	for _, c := range legacy.all("testcase") {
		for _, s := range c.all("skipped") {
			skipped = append(skipped, s.attr("message"))
		}
	}
	if got := strings.Join(skipped, "; "); got != "the server has no tool add; expected failure: stream.known@legacy-http their issue 12" {
		t.Errorf("%q", got)
	}
	if run.attr("name") != "the run" || run.attr("failures") != "3" {
		t.Errorf("%+v", run)
	}
	// With --strict a warning is a failure.
	strict := example()
	strict.Strict, strict.Expected = true, nil
	doc = node{}
	if err := xml.Unmarshal([]byte(written(t, New(strict).JUnit)), &doc); err != nil || doc.Nodes[2].attr("failures") != "3" || len(doc.Nodes) != 3 {
		t.Errorf("%v, %+v", err, doc)
	}
}

// SARIF has the members that the schema requires, and its references resolve.
func TestSARIF(t *testing.T) {
	var doc struct {
		Schema  string `json:"$schema"`
		Version string
		Runs    []struct {
			Tool struct {
				Driver struct {
					Name, Version string
					Rules         []struct {
						ID, HelpURI      string
						ShortDescription struct{ Text string }
						FullDescription  struct{ Text string }
						Help             struct{ Text, Markdown string }
						Default          struct{ Level string } `json:"defaultConfiguration"`
					}
				}
			}
			Invocations []struct {
				ExecutionSuccessful        *bool
				StartTimeUTC               string
				ToolExecutionNotifications []struct {
					Level   string
					Message struct{ Text string }
				}
			}
			Results []struct {
				RuleID, Level       string
				RuleIndex           int
				Message             struct{ Text string }
				PartialFingerprints map[string]string
				Suppressions        []struct{ Kind, Justification string }
				Locations           []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI string }
						Region           struct{ StartLine int }
					}
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(written(t, New(example()).SARIF)), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Version != "2.1.0" || doc.Schema == "" || len(doc.Runs) != 1 {
		t.Fatalf("%+v", doc)
	}
	run := doc.Runs[0]
	for _, rule := range run.Tool.Driver.Rules {
		if rule.ID == "" || rule.ShortDescription.Text == "" || rule.FullDescription.Text == "" || !strings.Contains(rule.Help.Text, "Fix: Do it.") ||
			!strings.Contains(rule.Help.Markdown, "**Fix:** Do it.") || !strings.HasPrefix(rule.HelpURI, "https://") || rule.Default.Level == "" {
			t.Errorf("%+v", rule)
		}
	}
	levels, suppressed := map[string]int{}, 0
	for _, res := range run.Results {
		levels[res.Level]++
		suppressed += len(res.Suppressions)
		if res.Message.Text == "" || run.Tool.Driver.Rules[res.RuleIndex].ID != res.RuleID || len(res.PartialFingerprints) == 0 || len(res.Locations) != 1 ||
			res.Locations[0].PhysicalLocation.ArtifactLocation.URI == "" || res.Locations[0].PhysicalLocation.Region.StartLine != 1 {
			t.Errorf("%+v", res)
		}
	}
	if levels["error"] != 4 || levels["warning"] != 1 || levels["note"] != 1 || suppressed != 1 {
		t.Errorf("%v, %d suppressed", levels, suppressed)
	}
	in := run.Invocations[0]
	if in.ExecutionSuccessful == nil || in.StartTimeUTC == "" || len(in.ToolExecutionNotifications) != 4 {
		t.Errorf("%+v", in)
	}
	if text := written(t, New(Run{}).SARIF); !strings.Contains(text, `"results": []`) {
		t.Errorf("nothing found is not an empty array: %s", text)
	}
}

func TestBadge(t *testing.T) {
	f := func(message, color string, change func(*Run)) {
		t.Helper()
		run := example()
		change(&run)
		r := New(run)
		var b badge
		if err := json.Unmarshal([]byte(written(t, r.Badge)), &b); err != nil || b.SchemaVersion != 1 || b.Label == "" || b.Message != message || b.Color != color {
			t.Errorf("%v, %+v; want %q, %s", err, b, message, color)
		}
		var svg node
		if err := xml.Unmarshal([]byte(written(t, r.BadgeSVG)), &svg); err != nil || svg.XMLName.Local != "svg" || !strings.Contains(svg.attr("aria-label"), message) || colours[color] == "" {
			t.Errorf("%v, %+v", err, svg)
		}
	}
	only := func(outcome suite.Outcome) func(*Run) {
		return func(run *Run) { run.Findings, run.Expected, run.Findings[0].Outcome = run.Findings[:1], nil, outcome }
	}
	f("4 failed, 1 passed", "red", func(*Run) {})
	f("1 passed", "brightgreen", only(suite.Passed))
	f("0 passed, 1 warnings", "yellowgreen", only(suite.Warned))
	f("not finished", "lightgrey", func(run *Run) { only(suite.Passed)(run); run.Ended = "interrupted" })
	f("not finished", "lightgrey", func(run *Run) { run.Findings, run.Expected = nil, nil })
	f("4 stale, 1 passed", "orange", func(run *Run) { run.Findings = run.Findings[:1] })
	f("0 passed, 1 known", "yellow", func(run *Run) { run.Findings = run.Findings[8:]; run.Expected.entries = run.Expected.entries[:1] })
}

func TestExpectations(t *testing.T) {
	bad := func(text, want string) {
		t.Helper()
		if _, err := ReadExpectations("k.txt", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "fix: write check-id") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	bad("a.b@htp", `k.txt:1: "htp" is no face`)
	bad("# x\na.b@", `k.txt:2: "" is no face`)
	bad("a.b@sse@2025-13-01", `k.txt:1: "2025-13-01" is no revision of sse`)
	bad("a.b@sse@", `"" is no revision of sse`)
	bad("a.b@rest@2025-11-25", "is no revision of rest")
	bad("a.b because of this", "is no entry")
	bad("@sse", "is no entry")

	c, other := made("a.b", suite.Must, peer.SSE), made("a.c", suite.Must, peer.SSE)
	f := func(list string, outcome suite.Outcome, selected bool, excused bool, stale string) {
		t.Helper()
		x, err := ReadExpectations("k.txt", strings.NewReader(list))
		if err != nil {
			t.Fatal(err)
		}
		x.Select(func(id string) bool { return id == c.ID || id == other.ID }, func(string, string, string) bool { return selected }, nil)
		r := New(Run{Expected: x, Findings: []*suite.Finding{{Check: c, Face: peer.SSE, Revision: peer.R2411, Outcome: outcome}}})
		why := ""
		for _, s := range r.Stale {
			why += s.Entry + ": " + s.Why + ";"
		}
		if got := r.Findings[0].Expected != nil; got != excused || why != stale || r.OK == (stale != "") && stale != "" {
			t.Errorf("%q, %s: excused %v, stale %q, ok %v; want %v, %q", list, outcome, got, why, r.OK, excused, stale)
		}
	}
	for _, entry := range []string{"a.b", "a.b@sse", "a.b@sse@2024-11-05", "\ufeffa.b # why"} {
		f(entry, suite.Failed, true, true, "")
	}
	f("a.b", suite.Broken, true, true, "")
	f("a.b", suite.Warned, true, true, "")
	f("a.b", suite.Noted, true, true, "")
	f("a.b", suite.Passed, true, false, "a.b: it passes now; fix: take the line out;")
	f("a.b", suite.Skipped, true, false, "a.b: it is skipped, for this server does not offer what it needs; fix: take the line out;")
	f("a.b\na.b@sse", suite.Failed, true, true, "")
	f("a.b@sse@2025-03-26", suite.Failed, true, false, "a.b@sse@2025-03-26: this server has nothing where it could be tried; fix: take the line out;")
	f("a.c", suite.Passed, true, false, "a.c: this server has nothing where it could be tried; fix: take the line out;")
	f("a.d", suite.Passed, true, false, "a.d: there is no such check; fix: take the line out;")
	f("a.c", suite.Passed, false, false, "") // not asked for
	f("", suite.Passed, true, false, "")
}

func TestCompare(t *testing.T) {
	one := func(outcome suite.Outcome, expected bool) *Report {
		f := Finding{Check: "a.b", Face: "sse", Outcome: outcome}
		if expected {
			f.Expected = &Excuse{Entry: "a.b"}
		}
		r := &Report{Findings: []Finding{f}}
		r.count()
		return r
	}
	f := func(was, is *Report, want string) {
		t.Helper()
		if got := Compare(was, is).Line(); got != want {
			t.Errorf("%+v, %+v: %s, want %s", was.Findings, is.Findings, got, want)
		}
	}
	none := &Report{}
	f(one(suite.Passed, false), one(suite.Passed, false), "0 newly failing, 0 newly passing, 0 changed, 0 new, 0 gone, 1 as before")
	f(one(suite.Passed, false), one(suite.Failed, false), "1 newly failing, 0 newly passing, 0 changed, 0 new, 0 gone, 0 as before")
	f(one(suite.Passed, false), one(suite.Broken, false), "1 newly failing, 0 newly passing, 0 changed, 0 new, 0 gone, 0 as before")
	f(one(suite.Skipped, false), one(suite.Failed, false), "1 newly failing, 0 newly passing, 0 changed, 0 new, 0 gone, 0 as before")
	f(one(suite.Passed, false), one(suite.Failed, true), "0 newly failing, 0 newly passing, 1 changed, 0 new, 0 gone, 0 as before")
	f(one(suite.Failed, true), one(suite.Failed, false), "0 newly failing, 0 newly passing, 0 changed, 0 new, 0 gone, 1 as before")
	f(one(suite.Failed, false), one(suite.Broken, false), "0 newly failing, 0 newly passing, 1 changed, 0 new, 0 gone, 0 as before")
	f(one(suite.Failed, false), one(suite.Passed, false), "0 newly failing, 1 newly passing, 0 changed, 0 new, 0 gone, 0 as before")
	f(one(suite.Skipped, false), one(suite.Passed, false), "0 newly failing, 0 newly passing, 1 changed, 0 new, 0 gone, 0 as before")
	f(one(suite.Passed, false), one(suite.Warned, false), "0 newly failing, 0 newly passing, 1 changed, 0 new, 0 gone, 0 as before")
	f(none, one(suite.Passed, false), "0 newly failing, 0 newly passing, 0 changed, 1 new, 0 gone, 0 as before")
	f(none, one(suite.Failed, false), "1 newly failing, 0 newly passing, 0 changed, 0 new, 0 gone, 0 as before")
	f(one(suite.Failed, false), none, "0 newly failing, 0 newly passing, 0 changed, 0 new, 1 gone, 0 as before")
	text := written(t, Compare(none, one(suite.Failed, false)).JSON)
	if !strings.Contains(text, `"newlyPassing": []`) || !strings.Contains(text, `"key": "a.b@sse"`) {
		t.Errorf("%s", text)
	}
}

func TestInline(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		if got := inline(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	f("a <b> *c* | d_e [f]", `a \<b\> \*c\* \| d\_e \[f\]`)
	f("see `a_b` and c_d", "see `a_b` and c\\_d")
	f("a\nb", "a b")
	for text, want := range map[string]string{"a": "`a`", "a`b": "``a`b``", "`a": "`` `a ``", "": "` `"} {
		if got := codeSpan(text); strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(want), " ") {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
