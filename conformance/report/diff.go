package report

import (
	"fmt"
	"io"
	"strings"

	"dragoman/conformance/suite"
)

// Diff holds the differences between two runs, by the keys of findings.
type Diff struct {
	Format  int      `json:"format"`
	Failing []Change `json:"newlyFailing"` // it fails the new run; in the old one it did not, or was not there
	Passing []Change `json:"newlyPassing"` // it passes; in the old run it did not
	Changed []Change `json:"changed"`      // it is neither, and something else than before
	New     []Change `json:"new"`          // it was not in the old run, and does not fail
	Gone    []Change `json:"gone"`         // it is not in the new run
	Same    int      `json:"same"`
}

// Change is a finding whose outcome differs between two runs.
type Change struct {
	Key      string        `json:"key"` // check@face@revision
	Was      suite.Outcome `json:"was,omitempty"`
	Is       suite.Outcome `json:"is,omitempty"`
	Problems []Problem     `json:"problems,omitempty"` // of the new run
	Reason   string        `json:"reason,omitempty"`   // likewise
}

// Compare returns the differences between two runs.
func Compare(before, after *Report) *Diff {
	d := &Diff{Format: Format, Failing: []Change{}, Passing: []Change{}, Changed: []Change{}, New: []Change{}, Gone: []Change{}}
	was, seen := make(map[string]*Finding), make(map[string]bool)
	for i := range before.Findings {
		f := &before.Findings[i]
		was[f.Key()] = f
	}
	for i := range after.Findings {
		f := &after.Findings[i]
		seen[f.Key()] = true
		d.add(was[f.Key()], f)
	}
	for i := range before.Findings {
		if f := &before.Findings[i]; !seen[f.Key()] {
			d.Gone = append(d.Gone, Change{Key: f.Key(), Was: f.Outcome})
		}
	}
	return d
}

// add adds a finding to its list. was is nil if the finding is new.
func (d *Diff) add(was, is *Finding) {
	c := Change{Key: is.Key(), Is: is.Outcome, Problems: is.Problems, Reason: is.Reason}
	switch {
	case was == nil && is.Fails:
		d.Failing = append(d.Failing, c)
	case was == nil:
		d.New = append(d.New, c)
	case is.Fails && !was.bad(is.Outcome):
		c.Was = was.Outcome
		d.Failing = append(d.Failing, c)
	case is.Outcome == was.Outcome:
		d.Same++
	case is.Outcome == suite.Passed && was.Outcome != suite.Skipped:
		c.Was, c.Problems, c.Reason = was.Outcome, nil, ""
		d.Passing = append(d.Passing, c)
	default:
		c.Was = was.Outcome
		d.Changed = append(d.Changed, c)
	}
}

// bad reports whether a finding was no better than one that fails now with an outcome. Whether it failed its own run does not matter: it
// may have been expected then.
func (f *Finding) bad(now suite.Outcome) bool {
	return f.Outcome == suite.Failed || f.Outcome == suite.Broken || f.Outcome == now
}

type chapter struct {
	word, colour string
	changes      []Change
}

func (d *Diff) chapters() []chapter {
	return []chapter{{"newly failing", red, d.Failing}, {"newly passing", green, d.Passing}, {"changed", yellow, d.Changed}, {"new", cyan, d.New}, {"gone", dim, d.Gone}}
}

// Line returns the counts in a line.
func (d *Diff) Line() string {
	var parts []string
	for _, c := range d.chapters() {
		parts = append(parts, itoa(len(c.changes))+" "+c.word)
	}
	return strings.Join(parts, ", ") + ", " + itoa(d.Same) + " as before"
}

// The old and the new outcome as text.
func (c Change) outcomes() string {
	switch {
	case c.Was == "":
		return string(c.Is)
	case c.Is == "":
		return "was " + string(c.Was)
	}
	return "was " + string(c.Was) + ", is " + string(c.Is)
}

// Terminal writes the differences for people. The last line has the counts.
func (d *Diff) Terminal(w io.Writer, colour bool) error {
	t := &terminal{style: Style{Colour: colour}}
	for _, chapter := range d.chapters() {
		for _, c := range chapter.changes {
			t.printf("%s  %s  (%s)\n", t.paint(chapter.colour, chapter.word), t.paint(bold, clean(c.Key)), c.outcomes())
			t.item("reason", c.Reason)
			for _, p := range c.Problems {
				t.item("expected", p.Expected)
				t.got(p)
			}
		}
	}
	t.printf("%s\n", d.Line())
	_, err := io.WriteString(w, t.b.String())
	return err
}

// JSON writes the differences as JSON.
func (d *Diff) JSON(w io.Writer) error { return writeJSON(w, d) }

// Markdown writes the differences for a page, such as a comment on a change.
func (d *Diff) Markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# MCP conformance: what has changed\n\n%s.\n", d.Line())
	for _, chapter := range d.chapters() {
		if len(chapter.changes) > 0 {
			fmt.Fprintf(&b, "\n## %s\n", strings.ToUpper(chapter.word[:1])+chapter.word[1:])
		}
		for _, c := range chapter.changes {
			fmt.Fprintf(&b, "- %s: %s\n", clean(c.Key), c.outcomes())
			if c.Reason != "" {
				fmt.Fprintf(&b, "  - %s\n", inline(c.Reason))
			}
			for _, p := range c.Problems {
				fmt.Fprintf(&b, "  - expected: %s; got: %s\n", inline(p.Expected), codeSpan(short(p.Got, 3, 4*shortWidth)))
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
