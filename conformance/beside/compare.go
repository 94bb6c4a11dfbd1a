package main

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"dragoman/conformance/official"
	"dragoman/conformance/report"
	"dragoman/conformance/suite"
)

// class is the class of a verdict.
type class int

// The classes. A check that was skipped or could not run has tested nothing.
const (
	untried class = iota
	kept
	broken
)

func (c class) String() string { return [...]string{"–", "✓", "✗"}[c] }

var classes = map[suite.Outcome]class{suite.Passed: kept, suite.Noted: kept, suite.Failed: broken, suite.Warned: broken}

// verdict is the worst outcome of a suite's checks.
type verdict struct {
	class   class
	outcome suite.Outcome // the worst outcome
	check   string        // the check that had it
	text    string        // what was received, or why it was not tested
}

// judgement is the relation of two verdicts.
type judgement int

// The judgements.
const (
	agree      judgement = iota
	oneLooks             // one of the two tested nothing, and the other found nothing wrong
	alone                // there is no counterpart
	explained            // they differ, and differs.tsv explains it
	unexpected           // they differ
)

// row is a check of the official suite at a server and revision.
type row struct {
	server   *server
	revision string
	check    string // of the official suite: scenario:check
	official verdict
	ours     verdict
	with     *counterpart // nil: not in counterparts.tsv
	judged   judgement
	why      *differ
}

// run is the comparison of one server.
type run struct {
	server *server
	report *report.Report
	rows   []*row
	faults []*found
}

// found is a MUST that a server breaks, by our checks.
type found struct {
	check     report.Check
	revisions []string
	got       string
	expected  string
	whose     *fault
}

// everyWire is the check that each scenario of the official suite has: the shapes of the messages in it. They count as one.
const everyWire = "*:wire-schema-valid"

// rank orders outcomes, the worst last.
var rank = []suite.Outcome{suite.Broken, suite.Skipped, suite.Passed, suite.Noted, suite.Warned, suite.Failed}

// compare makes the rows of a report.
func (t *tables) compare(s *server, r *report.Report) *run {
	out := &run{server: s, report: r}
	at := make(map[string]*row)
	for i := range r.Findings {
		f := &r.Findings[i]
		check, theirs := strings.CutPrefix(f.Check, official.Prefix)
		if !theirs {
			continue
		}
		if strings.HasSuffix(check, ":wire-schema-valid") {
			check = everyWire
		}
		key := f.Revision + " " + check
		if at[key] == nil {
			at[key] = &row{server: s, revision: f.Revision, check: check, with: t.with(check)}
			out.rows = append(out.rows, at[key])
		}
		at[key].official.add(f)
	}
	slices.SortStableFunc(out.rows, func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.revision, b.revision), cmp.Compare(a.check, b.check))
	})
	for _, w := range out.rows {
		t.judge(w, r)
	}
	out.faults = t.musts(s, r)
	return out
}

// add adds a finding to a verdict.
func (v *verdict) add(f *report.Finding) {
	if v.outcome != "" && slices.Index(rank, f.Outcome) <= slices.Index(rank, v.outcome) {
		return
	}
	*v = verdict{class: classes[f.Outcome], outcome: f.Outcome, check: f.Check, text: f.Reason}
	if len(f.Problems) > 0 {
		v.text = cmp.Or(f.Problems[0].Got, f.Problems[0].Expected)
	}
}

// with finds the line of a check. A line without * takes precedence.
func (t *tables) with(check string) (c *counterpart) {
	for _, x := range t.counterparts {
		if x.official == check || c == nil && matches(x.official, check) {
			c = x
		}
	}
	if c != nil {
		c.used = true
	}
	return c
}

// judge finds the verdict of our checks and compares.
func (t *tables) judge(w *row, r *report.Report) {
	if w.with == nil {
		w.judged = unexpected
		return
	}
	for i := range r.Findings {
		if f := &r.Findings[i]; f.Revision == w.revision && slices.Contains(w.with.ours, f.Check) {
			w.ours.add(f)
		}
	}
	switch o, m := w.official.class, w.ours.class; {
	case w.ours.outcome == "": // we have no check for this revision and transport
		w.judged = alone
	case o == m && o != untried:
		w.judged = agree
	case o != broken && m != broken || o == untried:
		w.judged = oneLooks
	default:
		w.judged = unexpected
		for _, d := range t.differs {
			if matches(d.official, w.check) && matches(d.revisions, w.revision) && matches(d.servers, w.server.name) {
				d.used, w.why, w.judged = append(d.used, w), d, explained
				break
			}
		}
	}
}

// otherLevel reports whether both find the same fault at different levels.
func (w *row) otherLevel() bool {
	return w.judged == agree && w.official.class == broken && w.official.outcome != w.ours.outcome
}

// musts returns the MUSTs that our checks found broken, by check.
func (t *tables) musts(s *server, r *report.Report) (out []*found) {
	at := make(map[string]*found)
	for i := range r.Findings {
		f := &r.Findings[i]
		if strings.HasPrefix(f.Check, official.Prefix) || f.Outcome != suite.Failed || len(f.Problems) == 0 {
			continue
		}
		if at[f.Check] == nil {
			j := slices.IndexFunc(r.Checks, func(c report.Check) bool { return c.ID == f.Check })
			at[f.Check] = &found{check: r.Checks[j], expected: f.Problems[0].Expected, got: f.Problems[0].Got}
			out = append(out, at[f.Check])
		}
		if x := at[f.Check]; !slices.Contains(x.revisions, f.Revision) {
			x.revisions = append(x.revisions, f.Revision)
		}
	}
	for _, x := range out {
		slices.Sort(x.revisions)
		for _, l := range t.faults {
			if matches(l.servers, s.name) && matches(l.checks, x.check.ID) {
				x.whose, l.used = l, true
				break
			}
		}
	}
	return out
}

// wrong returns the reasons why a run fails: differences that are not explained, and explanations that are not needed.
func (t *tables) wrong(runs []*run) (lines []string) {
	for _, r := range runs {
		for _, w := range r.rows {
			switch {
			case w.with == nil:
				lines = append(lines, w.place()+" is not in counterparts.tsv")
			case w.judged == unexpected:
				lines = append(lines, w.place()+": the official suite "+w.official.tell()+", ours "+w.ours.tell())
			}
		}
		for _, f := range r.faults {
			if f.whose == nil {
				lines = append(lines, r.server.name+" breaks "+f.check.ID+" at "+strings.Join(f.revisions, ", ")+", and faults.tsv does not name its cause: "+oneLine(f.got, shortText))
			}
		}
	}
	// With only some of the servers it is not known whether a line is needed.
	was := func(patterns string) bool {
		return !slices.ContainsFunc(t.servers, func(s *server) bool {
			return matches(patterns, s.name) && !slices.ContainsFunc(runs, func(r *run) bool { return r.server == s })
		})
	}
	for _, d := range t.differs {
		if len(d.used) == 0 && !d.sometimes && was(d.servers) {
			lines = append(lines, "STALE "+"differs.tsv:"+strconv.Itoa(d.line)+": "+d.official+" at "+d.servers)
		}
	}
	for _, f := range t.faults {
		if !f.used && !f.sometimes && was(f.servers) {
			lines = append(lines, "STALE "+"faults.tsv:"+strconv.Itoa(f.line)+": "+f.checks+" at "+f.servers)
		}
	}
	for _, c := range t.counterparts {
		if !c.used && was("*") {
			lines = append(lines, "STALE "+"counterparts.tsv:"+strconv.Itoa(c.line)+": "+c.official)
		}
	}
	return lines
}

func (w *row) place() string { return w.server.name + "@" + w.revision + " " + w.check }

func (v verdict) tell() string {
	if v.outcome == "" {
		return "does not check it there"
	}
	name := strings.TrimPrefix(v.check, official.Prefix)
	text := "says " + string(v.outcome) + " (" + name + ")"
	if v.text != "" {
		text += ": " + oneLine(v.text, shortText)
	}
	return text
}
