package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"dragoman/conformance/suite"
)

// Colours of a terminal.
const (
	red    = "\x1b[1;31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	cyan   = "\x1b[36m"
	dim    = "\x1b[2m"
	bold   = "\x1b[1m"
	plain  = "\x1b[0m"
)

// Style is the style of the report for the terminal.
type Style struct {
	Colour  bool
	Verbose bool // all evidence of what has failed, and what was skipped
}

const (
	textWidth  = 108 // characters of a line, as far as words allow
	shortLines = 8   // of what was sent, and of what came
	shortWidth = 160
)

// Terminal writes the report for people: counts for each place, then the findings, the worst first. The last line has the totals.
func (r *Report) Terminal(w io.Writer, style Style) error {
	t := &terminal{style: style}
	t.head(r)
	for _, k := range kinds() {
		for _, g := range r.groups(k.wanted) {
			t.group(k, g)
		}
	}
	for _, s := range r.Stale {
		t.printf("%s  %s:%d: %s: %s\n\n", t.paint(red, "STALE"), s.File, s.Line, s.Entry, s.Why)
	}
	if style.Verbose {
		t.skipped(r)
	}
	if r.Ended != "" {
		t.printf("The run was ended before its time: %s.\n", clean(r.Ended))
	}
	t.slow(r)
	colour := green
	if !r.OK {
		colour = red
	}
	t.printf("%s\n", t.paint(colour, r.Totals.Line()))
	_, err := io.WriteString(w, t.b.String())
	return err
}

// slowCheck is how long a check takes that the report names as slow, and mostSlow how many it names.
const (
	slowCheck = 2 * time.Second
	mostSlow  = 3
)

// slow names the checks that took longest, so that a long run can be made shorter by --skip, or a server quicker.
func (t *terminal) slow(r *Report) {
	slow := slices.DeleteFunc(slices.Clone(r.Findings), func(f Finding) bool { return f.TookMS < slowCheck.Milliseconds() })
	slices.SortStableFunc(slow, func(a, b Finding) int { return cmp.Compare(b.TookMS, a.TookMS) })
	for i, f := range slow[:min(mostSlow, len(slow))] {
		if i == 0 {
			t.printf("Took %s; longest:\n", took(r.TookMS))
		}
		t.printf("  %s  %s  %s\n", f.Check, f.Place(), took(f.TookMS))
	}
}

type terminal struct {
	b     strings.Builder
	style Style
}

func (t *terminal) printf(format string, args ...any) { fmt.Fprintf(&t.b, format, args...) }

func (t *terminal) paint(colour, text string) string {
	if !t.style.Colour {
		return text
	}
	return colour + text + plain
}

func (t *terminal) head(r *Report) {
	for _, target := range r.Targets {
		t.printf("%s\n", t.paint(bold, clean(target)))
	}
	tw := tabwriter.NewWriter(&t.b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(tw, "\nFACE\tREVISION\tPASSED\tFAILED\tWARNINGS\tNOTES\tSKIPPED\tBROKEN\t%s\tTIME\n", strings.ToUpper(r.lastColumn())) // into memory
	for _, p := range r.Places {
		c := p.Totals
		_, _ = fmt.Fprintf(tw, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\n", p.Face, orDash(p.Revision), c.Passed, c.Failed, c.Warnings, c.Notes, c.Skipped, c.Broken, p.last(), took(p.TookMS))
	}
	_ = tw.Flush()
	for i, why := range r.Tried {
		if i == 0 {
			t.printf("\nNot found there:\n")
		}
		t.printf("  %s\n", short(why, 1, shortWidth))
	}
	t.printf("\n")
}

// lastColumn returns the last column of a place: the name of a server, else what is behind it.
func (r *Report) lastColumn() string {
	if slices.ContainsFunc(r.Places, func(p Place) bool { return p.Behind != "" }) {
		return "with"
	}
	return "server"
}

func (p Place) last() string {
	if p.Behind != "" {
		return clean(p.Behind)
	}
	return short(p.Server, 1, 60)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// group writes a finding with those that are like it.
func (t *terminal) group(k kind, g *group) {
	t.printf("%s  %s  %s  %s\n", t.paint(k.colour, k.word), t.paint(bold, g.ID), g.Level, strings.Join(g.places, ", "))
	t.item("required", g.Statement)
	t.item("page", pageText(g.Check))
	if g.Expected != nil {
		t.item("listed", strings.TrimSpace(g.Expected.Entry+"  "+g.Expected.Reason))
	}
	t.item("reason", g.Reason)
	for _, p := range g.Problems {
		t.item("expected", p.Expected)
		t.got(p)
	}
	if k.word == "EXPECTED" && !t.style.Verbose {
		t.printf("\n")
		return
	}
	if t.style.Verbose {
		t.evidence(g.Finding)
	} else {
		sent, came := g.exchange()
		t.block("sent", short(sent, shortLines, shortWidth))
		t.block("came", short(came, shortLines, shortWidth))
	}
	t.item("why", g.Why)
	t.item("fix", g.Fix)
	t.printf("\n")
}

func pageText(c Check) string {
	if c.URL == "" {
		return c.Page
	}
	return c.Page + "  " + c.URL
}

const margin = 12

// item writes a name and a text beside it, wrapped.
func (t *terminal) item(name, text string) {
	if text != "" {
		t.block(name, strings.Join(wrap(text, textWidth-margin), "\n"))
	}
}

// block writes a name and lines beside it.
func (t *terminal) block(name, text string) {
	if text == "" {
		return
	}
	name = fmt.Sprintf("  %-*s", margin-2, name)
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			name = strings.Repeat(" ", margin)
		} else {
			name = t.paint(dim, name)
		}
		t.printf("%s\n", strings.TrimRight(name+line, " "))
	}
}

// got writes the received text or message, whose blanks are kept.
func (t *terminal) got(p Problem) {
	switch {
	case t.style.Verbose:
		t.block("got", clean(p.Got))
	case utf8.RuneCountInString(p.Got) <= 2*shortWidth:
		t.item("got", p.Got)
	default:
		t.block("got", short(p.Got, shortLines, 2*shortWidth))
	}
}

func (t *terminal) evidence(f *Finding) {
	for i, l := range f.Evidence {
		name := ""
		if i == 0 {
			name = "evidence"
		}
		t.block(name, l.head()+"\n"+clean(l.Text))
	}
}

// head returns the head of a line of evidence.
func (l Line) head() string {
	arrow := "<--"
	if l.Sent {
		arrow = "-->"
	}
	return fmt.Sprintf("%s %s, at %d ms", arrow, clean(l.Where), l.MS)
}

// skipped lists the skipped checks by reason.
func (t *terminal) skipped(r *Report) {
	for _, s := range r.skips() {
		t.printf("%s  %s\n", t.paint(dim, "SKIPPED"), clean(s.reason))
		t.block("", strings.Join(wrap(strings.Join(s.checks, ", "), textWidth-margin), "\n"))
		t.printf("\n")
	}
}

type skip struct {
	reason string
	checks []string
}

// skips returns the skipped checks by reason.
func (r *Report) skips() (out []*skip) {
	for i := range r.Findings {
		f := &r.Findings[i]
		if f.Outcome != suite.Skipped {
			continue
		}
		at := slices.IndexFunc(out, func(s *skip) bool { return s.reason == f.Reason })
		if at < 0 {
			at, out = len(out), append(out, &skip{reason: f.Reason})
		}
		if !slices.Contains(out[at].checks, f.Check) {
			out[at].checks = append(out[at].checks, f.Check)
		}
	}
	return out
}

// Progress shows the progress of a run in one line of a terminal, which it overwrites. Its methods are for one goroutine.
type Progress struct {
	w     io.Writer
	wrong int
	began time.Time // when the first trial of a run had ended
}

// NewProgress returns a progress display. If w is nil, nothing is shown.
func NewProgress(w io.Writer) *Progress { return &Progress{w: w} }

// Say shows a line.
func (p *Progress) Say(text string) {
	if p.w != nil {
		_, _ = fmt.Fprintf(p.w, "\r\x1b[K%s", short(text, 1, 78)) // for who looks on
	}
}

// leastLeft is the time that a run must still take to be shown.
const leastLeft = 2 * time.Second

// Done shows the state after a trial: how many are done and have failed, about how long the others will take, and the one that
// has been running longest. It is suite.Options.Progress.
func (p *Progress) Done(s suite.Step) {
	if s.Ended.Outcome == suite.Failed || s.Ended.Outcome == suite.Broken {
		p.wrong++
	}
	line := fmt.Sprintf("%d of %d", s.Done, s.Total)
	if p.wrong > 0 {
		line += fmt.Sprintf(", %d failed", p.wrong)
	}
	if s.Done == 1 {
		p.began = time.Now()
	} else if left := time.Since(p.began) * time.Duration(s.Total-s.Done) / time.Duration(s.Done-1); left >= leastLeft {
		line += fmt.Sprintf(", about %s left", left.Round(time.Second))
	}
	if f := s.Running; f != nil {
		line += "  " + placeName(string(f.Face), f.Revision, f.Behind) + "  " + f.Check.ID
	}
	p.Say(line)
}

// End removes the line.
func (p *Progress) End() {
	if p.w != nil {
		_, _ = io.WriteString(p.w, "\r\x1b[K")
	}
}
