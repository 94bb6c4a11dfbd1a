package report

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"dragoman/conformance/suite"
	"dragoman/proxy/wire"
)

func itoa(n int) string { return strconv.Itoa(n) }

// Line returns the counts in a line, the last of the report on the terminal. Its words do not depend on the numbers, so that scripts can
// parse it.
func (t Totals) Line() string {
	line := fmt.Sprintf("%d passed, %d failed, %d warnings, %d notes, %d skipped, %d broken", t.Passed, t.Failed, t.Warnings, t.Notes, t.Skipped, t.Broken)
	if t.Expected > 0 {
		line += fmt.Sprintf(", %d expected", t.Expected)
	}
	if t.Stale > 0 {
		line += fmt.Sprintf(", %d stale", t.Stale)
	}
	return line
}

// group is a set of findings that differ only in their place.
type group struct {
	Check
	*Finding // the first
	places   []string
}

// groups returns the wanted findings in their order, grouped.
func (r *Report) groups(wanted func(f *Finding) bool) (out []*group) {
	at := make(map[string]*group)
	for i := range r.Findings {
		f := &r.Findings[i]
		if !wanted(f) {
			continue
		}
		key := fmt.Sprintf("%s %s %q %q", f.Check, f.Outcome, f.Reason, f.Problems)
		g := at[key]
		if g == nil {
			g = &group{Check: r.check(f.Check), Finding: f}
			at[key], out = g, append(out, g)
		}
		g.places = append(g.places, f.Place())
	}
	return out
}

// kind is a chapter of a report: findings of one kind.
type kind struct {
	word, title string
	colour      string
	wanted      func(f *Finding) bool
}

// kinds are the chapters, the worst first.
func kinds() []kind {
	is := func(o suite.Outcome) func(*Finding) bool {
		return func(f *Finding) bool { return f.Outcome == o && f.Expected == nil }
	}
	return []kind{
		{"FAIL", "Failed", red, is(suite.Failed)},
		{"BROKEN", "Could not be carried out", red, is(suite.Broken)},
		{"WARN", "Warnings", yellow, is(suite.Warned)},
		{"NOTE", "Notes", cyan, is(suite.Noted)},
		{"EXPECTED", "Expected failures", dim, func(f *Finding) bool { return f.Expected != nil }},
	}
}

// clean makes an untrusted text safe for a terminal or a document.
func clean(text string) string { return wire.Visible(text) }

// short returns the beginning of a text: a number of lines, each with a number of characters.
func short(text string, lines, width int) string {
	all := strings.Split(clean(text), "\n")
	cut := len(all) > lines
	all = all[:min(lines, len(all))]
	for i, line := range all {
		if runes := []rune(line); len(runes) > width {
			all[i] = string(runes[:width]) + "…"
		}
	}
	if cut {
		all = append(all, "…")
	}
	return strings.Join(all, "\n")
}

// exchange returns the last sent line and all lines after it.
func (f *Finding) exchange() (sent, came string) {
	var after []string
	for _, l := range f.Evidence {
		if l.Sent {
			sent, after = l.Text, nil
			continue
		}
		after = append(after, l.Text)
	}
	return sent, strings.Join(after, "\n")
}

// wrap breaks a text into lines of at most width characters, at blanks.
func wrap(text string, width int) (lines []string) {
	for paragraph := range strings.SplitSeq(clean(text), "\n") {
		line := ""
		for word := range strings.FieldsSeq(paragraph) {
			if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
				lines, line = append(lines, line), ""
			}
			if line != "" {
				line += " "
			}
			line += word
		}
		lines = append(lines, line)
	}
	return lines
}
