package report

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"dragoman/conformance/suite"
)

// Format is the version of the JSON structure. Members may be added to a version; existing ones keep their names and meanings.
const Format = 1

// Run describes a run.
type Run struct {
	Version  string           // of Dragoman
	Targets  []string         // what was tested, fit to be read by everybody
	Offers   []*suite.Offer   // what was found there; places that findings alone tell of are added
	Tried    []string         // which faces are not there, and why
	Findings []*suite.Finding // in the order in which they are to be told
	Expected *Expectations    // nil: no failure is expected
	Began    time.Time
	Took     time.Duration
	Strict   bool   // a SHOULD that is not kept fails the run
	Ended    string // why the run was ended before its time; empty: it was not
	Hide     Hide
}

// Report is the report of a run, and its JSON.
type Report struct {
	Format   int       `json:"format"`
	Tool     string    `json:"tool"` // "dragoman conformance"
	Version  string    `json:"version"`
	Began    time.Time `json:"began"` // RFC 3339, UTC
	TookMS   int64     `json:"tookMs"`
	OK       bool      `json:"ok"` // the run has not failed
	Strict   bool      `json:"strict,omitempty"`
	Ended    string    `json:"ended,omitempty"`
	Targets  []string  `json:"targets"`
	Totals   Totals    `json:"totals"`
	Places   []Place   `json:"places"`
	Tried    []string  `json:"tried,omitempty"`
	Stale    []Stale   `json:"stale,omitempty"`
	Checks   []Check   `json:"checks"` // those that findings name, by id
	Findings []Finding `json:"findings"`
}

// Totals counts findings by outcome. An expected failure counts only as expected.
type Totals struct {
	Passed   int `json:"passed"`
	Failed   int `json:"failed"`
	Warnings int `json:"warnings"`
	Notes    int `json:"notes"`
	Skipped  int `json:"skipped"`
	Broken   int `json:"broken"`
	Expected int `json:"expected"`
	Stale    int `json:"stale"` // entries of the list of expected failures
}

// Place is a face at a revision.
type Place struct {
	Face     string `json:"face"`
	Revision string `json:"revision,omitempty"` // of MCP; empty for the REST envelope
	Behind   string `json:"behind,omitempty"`   // an intermediary: the kind of server; or the scenario that a client was in
	Server   string `json:"server,omitempty"`   // its name and version there
	Totals   Totals `json:"totals"`
	TookMS   int64  `json:"tookMs"` // all checks together, of which several run at a time
}

// Name is face@revision, and what is behind.
func (p Place) Name() string { return placeName(p.Face, p.Revision, p.Behind) }

func placeName(face, revision, behind string) string {
	if revision != "" {
		face += "@" + revision
	}
	if behind != "" {
		face += " (" + clean(behind) + ")"
	}
	return face
}

// Check is a check in a report.
type Check struct {
	ID        string   `json:"id"`
	Title     string   `json:"title"`
	Level     string   `json:"level"` // MUST, SHOULD or MAY
	Faces     []string `json:"faces"`
	Revisions []string `json:"revisions,omitempty"` // none: all of its faces
	Needs     []string `json:"needs,omitempty"`
	Page      string   `json:"page"`
	URL       string   `json:"url,omitempty"` // of that page
	Statement string   `json:"statement"`
	Why       string   `json:"why,omitempty"`
	Fix       string   `json:"fix,omitempty"`
}

// Area is the first part of the id.
func (c Check) Area() string { area, _, _ := strings.Cut(c.ID, "."); return area }

// Finding is the outcome of a check at a place.
type Finding struct {
	Check    string        `json:"check"`
	Face     string        `json:"face"`
	Revision string        `json:"revision,omitempty"`
	Behind   string        `json:"behind,omitempty"` // as of places
	Outcome  suite.Outcome `json:"outcome"`          // passed, failed, warned, noted, skipped or broken
	Fails    bool          `json:"fails"`            // the run, that is
	Expected *Excuse       `json:"expectedFailure,omitempty"`
	Reason   string        `json:"reason,omitempty"` // why it was skipped, or is broken
	Problems []Problem     `json:"problems,omitempty"`
	Evidence []Line        `json:"evidence,omitempty"`
	TookMS   int64         `json:"tookMs"`
}

// Excuse is the entry of the list of expected failures that excuses a finding.
type Excuse struct {
	Entry  string `json:"entry"`
	Reason string `json:"reason,omitempty"`
}

// Problem is one deviation from a requirement.
type Problem struct {
	Expected string `json:"expected"`
	Got      string `json:"got"`
}

// Line is a piece of evidence.
type Line struct {
	Sent  bool   `json:"sent"` // by the tester
	Where string `json:"where,omitempty"`
	Text  string `json:"text"`
	MS    int64  `json:"ms"` // since the trial began
}

// Place is face@revision, and what is behind.
func (f *Finding) Place() string { return placeName(f.Face, f.Revision, f.Behind) }

// Key is check@face@revision (behind), which no two findings of a run share.
func (f *Finding) Key() string { return f.Check + "@" + f.Place() }

// New judges a run and returns its report.
func New(run Run) *Report {
	hide := run.Hide.replacer()
	r := &Report{Format: Format, Tool: "dragoman conformance", Version: run.Version, Began: run.Began.UTC().Truncate(time.Second), TookMS: run.Took.Milliseconds(),
		Strict: run.Strict, Ended: run.Ended, Targets: hideAll(hide, run.Targets), Tried: hideAll(hide, run.Tried), Places: []Place{}, Checks: []Check{}, Findings: []Finding{}}
	checks := make(map[string]bool)
	for _, f := range run.Findings {
		if !checks[f.Check.ID] {
			checks[f.Check.ID] = true
			r.Checks = append(r.Checks, Tell(f.Check))
		}
		r.Findings = append(r.Findings, tell(f, hide))
	}
	slices.SortFunc(r.Checks, func(a, b Check) int { return cmp.Compare(a.ID, b.ID) })
	r.Stale = run.Expected.judge(r.Findings)
	for _, o := range run.Offers {
		r.Places = append(r.Places, Place{Face: string(o.Face), Revision: o.Revision, Server: hide.Replace(o.Server)})
	}
	r.place()
	r.count()
	return r
}

// place adds the places that only findings name. Places are in the order of their first occurrence.
func (r *Report) place() {
	known := make(map[string]bool)
	for _, p := range r.Places {
		known[p.Name()] = true
	}
	for _, f := range r.Findings {
		if !known[f.Place()] {
			known[f.Place()] = true
			r.Places = append(r.Places, Place{Face: f.Face, Revision: f.Revision, Behind: f.Behind})
		}
	}
}

func tell(f *suite.Finding, hide *strings.Replacer) Finding {
	out := Finding{Check: f.Check.ID, Face: string(f.Face), Revision: f.Revision, Behind: f.Behind, Outcome: f.Outcome, Reason: hide.Replace(f.Reason), TookMS: f.TookMS}
	for _, p := range f.Problems {
		out.Problems = append(out.Problems, Problem{hide.Replace(p.Expected), hide.Replace(p.Got)})
	}
	for _, l := range f.Evidence {
		out.Evidence = append(out.Evidence, Line{l.Out, l.Where, hide.Replace(l.Text), l.MS})
	}
	return out
}

// count marks the findings that fail the run, and counts.
func (r *Report) count() {
	places := make(map[string]*Place)
	for i := range r.Places {
		places[r.Places[i].Name()] = &r.Places[i]
	}
	r.OK = r.Ended == "" && len(r.Stale) == 0 && len(r.Findings) > 0
	for i := range r.Findings {
		f := &r.Findings[i]
		f.Fails = f.Expected == nil && (f.Outcome == suite.Failed || f.Outcome == suite.Broken || f.Outcome == suite.Warned && r.Strict)
		r.OK = r.OK && !f.Fails
		r.Totals.add(f)
		if p := places[f.Place()]; p != nil {
			p.Totals.add(f)
			p.TookMS += f.TookMS
		}
	}
	r.Totals.Stale = len(r.Stale)
}

func (t *Totals) add(f *Finding) {
	switch {
	case f.Expected != nil:
		t.Expected++
	case f.Outcome == suite.Passed:
		t.Passed++
	case f.Outcome == suite.Failed:
		t.Failed++
	case f.Outcome == suite.Warned:
		t.Warnings++
	case f.Outcome == suite.Noted:
		t.Notes++
	case f.Outcome == suite.Skipped:
		t.Skipped++
	default:
		t.Broken++
	}
}

// check returns a check by its id.
func (r *Report) check(id string) Check {
	i, found := slices.BinarySearchFunc(r.Checks, id, func(c Check, id string) int { return cmp.Compare(c.ID, id) })
	if !found {
		return Check{ID: id}
	}
	return r.Checks[i]
}
