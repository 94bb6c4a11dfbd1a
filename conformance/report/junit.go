package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"dragoman/conformance/suite"
)

// The elements and attributes are those that the schemas of Ant and of Jenkins have in common, in the order of the former.
type junitSuites struct {
	XMLName xml.Name     `xml:"testsuites"`
	Suites  []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	ID         int             `xml:"id,attr"`
	Package    string          `xml:"package,attr"`
	Name       string          `xml:"name,attr"`
	Timestamp  string          `xml:"timestamp,attr"` // UTC; Ant's schema allows no zone
	Hostname   string          `xml:"hostname,attr"`
	Tests      int             `xml:"tests,attr"`
	Failures   int             `xml:"failures,attr"`
	Errors     int             `xml:"errors,attr"`
	Skipped    int             `xml:"skipped,attr"`
	Time       string          `xml:"time,attr"`
	Properties []junitProperty `xml:"properties>property"`
	Cases      []junitCase     `xml:"testcase"`
	Out        junitText       `xml:"system-out"`
	Err        junitText       `xml:"system-err"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Time    string        `xml:"time,attr"`
	Skipped *junitSkipped `xml:"skipped"`
	Error   *junitFailure `xml:"error"`
	Failure *junitFailure `xml:"failure"`
}

type junitSkipped struct {
	Message string `xml:"message,attr"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Body    string `xml:",cdata"` // as people read it, who open the file
}

type junitText struct {
	Text string `xml:",cdata"`
}

// JUnit writes the report as JUnit XML: a test suite for each place, a test case for each check. Findings that fail the run are failures,
// or errors if the check could not be carried out; expected failures are skipped; warnings and notes are in system-out. Stale entries and
// the early end of a run are a suite of their own, so that the file has a failure whenever the run has.
func (r *Report) JUnit(w io.Writer) error {
	var doc junitSuites
	for _, p := range r.Places {
		s := r.junitSuite(p.Name())
		s.Properties = []junitProperty{{"dragoman", r.Version}, {"target", clean(strings.Join(r.Targets, " "))}, {"server", clean(p.Server)}}
		for i := range r.Findings {
			if f := &r.Findings[i]; f.Place() == p.Name() {
				s.add(r.check(f.Check), f)
			}
		}
		doc.Suites = append(doc.Suites, s)
	}
	run := r.junitSuite("the run")
	for _, stale := range r.Stale {
		run.fail("expected failures, line "+itoa(stale.Line), "STALE: "+stale.Entry+": "+stale.Why, "the entry of a list of expected failures is not needed; take the line out")
	}
	if r.Ended != "" {
		run.fail("whole", "the run was ended before its time", clean(r.Ended))
	}
	if run.Tests > 0 {
		doc.Suites = append(doc.Suites, run)
	}
	for i := range doc.Suites {
		doc.Suites[i].ID = i
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(doc); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func (r *Report) junitSuite(name string) junitSuite {
	return junitSuite{Package: "mcp.conformance", Name: name, Timestamp: r.Began.UTC().Format("2006-01-02T15:04:05"), Hostname: "localhost", Time: "0.000"}
}

func (s *junitSuite) fail(name, message, body string) {
	s.Tests++
	s.Failures++
	s.Cases = append(s.Cases, junitCase{Class: s.Name, Name: name, Time: "0.000", Failure: &junitFailure{message, "run", body}})
}

func (s *junitSuite) add(c Check, f *Finding) {
	s.Tests++
	one := junitCase{Class: s.Name + "." + c.Area(), Name: f.Check, Time: seconds(f.TookMS)}
	switch {
	case f.Expected != nil:
		s.Skipped++
		one.Skipped = &junitSkipped{"expected failure: " + clean(strings.TrimSpace(f.Expected.Entry+" "+f.Expected.Reason))}
	case f.Outcome == suite.Skipped:
		s.Skipped++
		one.Skipped = &junitSkipped{clean(f.Reason)}
	case f.Outcome == suite.Broken:
		s.Errors++
		one.Error = &junitFailure{clean(f.Reason), "broken", f.body(c)}
	case f.Fails:
		s.Failures++
		one.Failure = &junitFailure{f.summary(), c.Level, f.body(c)}
	case f.Outcome != suite.Passed:
		s.Out.Text += strings.ToUpper(string(f.Outcome)) + " " + f.Check + ": " + f.body(c) + "\n"
	}
	s.Cases = append(s.Cases, one)
	s.Time = seconds(f.TookMS + millis(s.Time))
}

func seconds(ms int64) string { return fmt.Sprintf("%d.%03d", ms/1000, ms%1000) }

func millis(seconds string) (ms int64) {
	for _, r := range seconds {
		if r != '.' {
			ms = ms*10 + int64(r-'0')
		}
	}
	return ms
}

// summary returns the problems in one line.
func (f *Finding) summary() string {
	if len(f.Problems) == 0 {
		return clean(f.Reason)
	}
	p := f.Problems[0]
	text := "expected: " + short(p.Expected, 1, shortWidth) + "; got: " + short(p.Got, 1, shortWidth)
	if more := len(f.Problems) - 1; more > 0 {
		text += " (and " + itoa(more) + " more)"
	}
	return text
}

// body returns the full text of a finding.
func (f *Finding) body(c Check) string {
	var b strings.Builder
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%s: %s\n", name, clean(text))
		}
	}
	b.WriteString(c.Title + "\n")
	line("required ("+c.Level+")", c.Statement)
	line("page", pageText(c))
	line("reason", f.Reason)
	for _, p := range f.Problems {
		line("expected", p.Expected)
		line("got", p.Got)
	}
	line("why", c.Why)
	line("fix", c.Fix)
	for _, l := range f.Evidence {
		fmt.Fprintf(&b, "\n%s\n%s\n", l.head(), clean(l.Text))
	}
	return b.String()
}
