package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// Expectations are the expected failures of a run: the list of --expected-failures. Each line is an entry
//
//	check-id[@face[@revision]]  # why
//
// and a shorter entry stands for all places that it leaves open.
type Expectations struct {
	File    string // as it is to be named
	entries []entry
}

type entry struct {
	line                  int
	text                  string
	check, face, revision string
	reason                string

	selected, known bool // the run was asked for it; there is such a check
	hint            string
}

// Stale is an entry that is not needed.
type Stale struct {
	File  string `json:"file,omitempty"`
	Line  int    `json:"line"`
	Entry string `json:"entry"`
	Why   string `json:"why"`
}

// maxEntries is the maximum number of entries.
const maxEntries = 10_000

// ReadExpectations reads a list. file is its name in errors.
func ReadExpectations(file string, in io.Reader) (*Expectations, error) {
	x := &Expectations{File: file}
	s := bufio.NewScanner(in)
	for n := 1; s.Scan(); n++ {
		text, reason, _ := strings.Cut(s.Text(), "#")
		if n == 1 {
			text = strings.TrimPrefix(text, "\ufeff")
		}
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		if len(x.entries) == maxEntries {
			return nil, fmt.Errorf("%s:%d: more than %d entries", file, n, maxEntries)
		}
		e := entry{line: n, text: text, reason: strings.TrimSpace(reason)}
		e.check, e.face, _ = strings.Cut(text, "@")
		e.face, e.revision, _ = strings.Cut(e.face, "@")
		if err := e.valid(); err != nil {
			return nil, fmt.Errorf("%s:%d: %w; fix: write check-id, check-id@face or check-id@face@revision, and the reason after #", file, n, err)
		}
		x.entries = append(x.entries, e)
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return x, nil
}

func (e entry) valid() error {
	face := peer.Face(e.face)
	switch {
	case e.check == "" || strings.ContainsAny(e.text, " \t"):
		return fmt.Errorf("%q is no entry", e.text)
	case e.face == "" && strings.Contains(e.text, "@"), e.face != "" && !slices.Contains(peer.Faces(), face):
		return fmt.Errorf("%q is no face", e.face)
	case e.revision == "" && strings.Count(e.text, "@") > 1, e.revision != "" && !slices.Contains(face.Revisions(), e.revision):
		return fmt.Errorf("%q is no revision of %s", e.revision, e.face)
	}
	return nil
}

// Select sets the known checks, and the checks, faces and revisions of this run: an entry for others is not stale. nearest returns the
// likely id for a mistyped one, or "".
func (x *Expectations) Select(known func(check string) bool, chosen func(check, face, revision string) bool, nearest func(string) string) {
	for i := range x.entries {
		e := &x.entries[i]
		e.known = known(e.check)
		e.selected = !e.known || chosen(e.check, e.face, e.revision)
		if !e.known && nearest != nil {
			e.hint = nearest(e.check)
		}
	}
}

// judge marks the expected findings and returns the stale entries: those that excused no finding though the run includes their checks.
func (x *Expectations) judge(findings []Finding) (stale []Stale) {
	if x == nil {
		return nil
	}
	for _, e := range x.entries {
		used := false
		var seen []suite.Outcome
		for i := range findings {
			f := &findings[i]
			if f.Check != e.check || e.face != "" && f.Face != e.face || e.revision != "" && f.Revision != e.revision {
				continue
			}
			seen = append(seen, f.Outcome)
			if f.Outcome != suite.Passed && f.Outcome != suite.Skipped {
				used = true
				if f.Expected == nil {
					f.Expected = &Excuse{Entry: e.text, Reason: e.reason}
				}
			}
		}
		if used || !e.selected {
			continue
		}
		stale = append(stale, Stale{File: x.File, Line: e.line, Entry: e.text, Why: e.why(seen)})
	}
	return stale
}

// why returns the reason why an entry is stale.
func (e entry) why(seen []suite.Outcome) string {
	switch {
	case !e.known && e.hint != "":
		return "there is no such check; did you mean " + e.hint + "?"
	case !e.known:
		return "there is no such check; fix: take the line out"
	case len(seen) == 0:
		return "this server has nothing where it could be tried; fix: take the line out"
	case slices.Contains(seen, suite.Passed):
		return "it passes now; fix: take the line out"
	}
	return "it is skipped, for this server does not offer what it needs; fix: take the line out"
}
