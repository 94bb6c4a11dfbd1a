package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"
)

// Colours of a terminal.
const (
	red    = "\x1b[1;31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	bold   = "\x1b[1m"
	dim    = "\x1b[2m"
	plain  = "\x1b[0m"
)

type terminal struct {
	b      strings.Builder
	colour bool
}

func (t *terminal) printf(format string, args ...any) { fmt.Fprintf(&t.b, format, args...) }

func (t *terminal) paint(colour, text string) string {
	if !t.colour {
		return text
	}
	return colour + text + plain
}

// Terminal writes the report for a terminal. old is the report to compare with, or nil.
func (r *Report) Terminal(w io.Writer, colour bool, old *Report) error {
	t := &terminal{colour: colour}
	t.printf("%s  %s\n", t.paint(bold, clean(r.Target)), clean(strings.TrimSpace(r.Face+" "+r.Revision+"  "+r.Server)))
	t.printf("%s\n\n", clean(r.Load.line()))
	t.table(r)
	for i := range r.Runs {
		t.run(r, &r.Runs[i])
	}
	t.sessions(r)
	if old != nil {
		t.compare(Compare(old, r))
	}
	for _, v := range r.Verdicts {
		mark := t.paint(green, "kept  ")
		if !v.OK {
			mark = t.paint(red, "FAILED")
		}
		t.printf("%s  %s: %s (%s)\n", mark, v.Threshold, v.Got, v.Run)
	}
	for _, n := range r.Notes {
		t.printf("%s %s\n", t.paint(yellow, "note:"), clean(n))
	}
	if r.Ended != "" {
		t.printf("The run ended early: %s.\n", r.Ended)
	}
	t.printf("%s\n", t.last(r))
	_, err := io.WriteString(w, t.b.String())
	return err
}

// line describes the load in one line.
func (l *Load) line() string {
	b := strings.Join(l.Calls, ", ")
	if l.Why != "" {
		b += " (" + l.Why + ")"
	}
	b += fmt.Sprintf("; %d connections", l.Connections)
	if l.Processes > 1 {
		b += fmt.Sprintf(" to %d processes", l.Processes)
	}
	if l.Rate > 0 {
		b += fmt.Sprintf(", %s calls due per second (open loop)", number(l.Rate))
	} else {
		b += ", one call after the other (closed loop)"
	}
	if l.Requests > 0 {
		b += fmt.Sprintf(", %s calls", number(float64(l.Requests)))
	} else {
		b += ", " + text(l.DurationUs)
	}
	if l.WarmupUs > 0 {
		b += " after " + text(l.WarmupUs) + " of warm-up"
	}
	if l.Sessions > 0 {
		b += fmt.Sprintf(", beside %s idle sessions", number(float64(l.Sessions)))
	}
	return b
}

// table prints a line for each run.
func (t *terminal) table(r *Report) {
	tw := tabwriter.NewWriter(&t.b, 0, 0, 2, ' ', tabwriter.AlignRight)
	head := []string{"", "ANSWERS/S", "P50", "P90", "P99", "P99.9", "P99.99", "MAX", "ERRORS"}
	process := false
	for _, one := range r.Runs {
		process = process || one.Process != nil
	}
	if process {
		head = append(head, "CPU/ANSWER", "RSS")
	}
	_, _ = fmt.Fprintln(tw, strings.Join(head, "\t")+"\t") // writes to memory
	for i := range r.Runs {
		one := &r.Runs[i]
		p := one.Latency.Percentiles
		row := []string{clean(one.Name), number(one.RPS), text(p["p50"]), text(p["p90"]), text(p["p99"]), text(p["p99.9"]), text(p["p99.99"]), text(one.Latency.Max), number(float64(one.Errors))}
		if one.Process != nil {
			row = append(row, text(one.Process.CPU+one.Process.Children), size(float64(one.Process.RSSPeak)))
		} else if process {
			row = append(row, "-", "-")
		}
		_, _ = fmt.Fprintln(tw, strings.Join(row, "\t")+"\t")
	}
	_ = tw.Flush()
	t.printf("\n")
}

// run prints the details of one run.
func (t *terminal) run(r *Report, one *Run) {
	name := ""
	if len(r.Runs) > 1 {
		name = clean(one.Name) + ": "
	}
	t.printf("%s%s correct answers in %s", name, number(float64(one.Right)), text(one.ElapsedUs))
	if s := one.Spread(func(x Round) float64 { return x.RPS }); s.Rounds > 1 {
		t.printf("; %s to %s per second over %d rounds", number(s.Min), number(s.Max), s.Rounds)
		p := one.Spread(func(x Round) float64 { return x.P99 })
		t.printf(", p99 %s to %s", text(p.Min), text(p.Max))
	}
	t.printf("\n")
	if one.Unsent > 0 {
		t.printf("  %s\n", t.paint(red, fmt.Sprintf("%s calls that were due were not sent: all connections were busy and the queue was full. The percentiles "+
			"include the time that they had waited.", number(float64(one.Unsent)))))
	}
	if s := one.Service; s != nil {
		t.printf("  measured from when calls were sent, not from when they were due: p50 %s, p99 %s, p99.9 %s, max %s\n", text(s.Percentiles["p50"]), text(s.Percentiles["p99"]),
			text(s.Percentiles["p99.9"]), text(s.Max))
	}
	if p := one.Process; p != nil {
		t.printf("  CPU %s per answer (children %s), %s cores; memory %s before, %s after, %s peak; at most %d files, %d threads\n", text(p.CPU+p.Children), text(p.Children), digits(p.Cores),
			size(float64(p.RSSBefore)), size(float64(p.RSSAfter)), size(float64(p.RSSPeak)), p.FilesPeak, p.ThreadPeak)
	}
	if one.Generator > 0 {
		t.printf("  the load generator took %s of CPU per answer\n", text(one.Generator))
	}
	if a := one.Allocs; a != nil {
		t.printf("  %s allocations, %s per answer\n", digits(a.Objects), size(a.Bytes))
	}
	if one.Anew > 0 {
		t.printf("  %s connections were reopened because the server had closed them between two calls\n", number(float64(one.Anew)))
	}
	if one.Strays > 0 {
		t.printf("  %s\n", t.paint(yellow, number(float64(one.Strays))+" messages answered no call of their connection"))
	}
	for _, w := range one.Wrong {
		t.printf("  %s  %s\n", t.paint(red, fmt.Sprintf("%s times %s", number(float64(w.Count)), clean(w.Kind))), clean(w.Example))
	}
	if one.Warmup > 0 {
		t.printf("  %d of them in the warm-up\n", one.Warmup)
	}
	if one.Broken != "" {
		t.printf("  %s\n", t.paint(red, clean(one.Broken)))
	}
}

func (t *terminal) sessions(r *Report) {
	if len(r.Sessions) == 0 {
		return
	}
	t.printf("\nMemory by idle sessions:\n")
	tw := tabwriter.NewWriter(&t.b, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(tw, "SESSIONS\tRSS\tCHILDREN\tA SESSION\t") // writes to memory
	first := r.Sessions[0]
	for _, s := range r.Sessions {
		each := "-"
		if s.Open > first.Open {
			each = size(float64(s.RSS+s.Children-first.RSS-first.Children) / float64(s.Open-first.Open))
		}
		_, _ = fmt.Fprintf(tw, "%d\t%s\t%s\t%s\t\n", s.Open, size(float64(s.RSS)), size(float64(s.Children)), each)
	}
	_ = tw.Flush()
	t.printf("\n")
}

// last is the last line.
func (t *terminal) last(r *Report) string {
	var right, errors, unsent uint64
	for _, one := range r.Runs {
		right, errors, unsent = right+one.Right, errors+one.Errors, unsent+one.Unsent
	}
	line := fmt.Sprintf("%d correct, %d wrong or missing, %d not sent", right, errors, unsent)
	for _, v := range r.Verdicts {
		if !v.OK {
			line += "; a threshold was missed"
			break
		}
	}
	if r.OK {
		return t.paint(green, line)
	}
	return t.paint(red, line)
}

// clean removes control characters from untrusted text.
func clean(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, control) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if control(r) {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// control reports whether a character must not reach a terminal. Bidirectional controls change the order in which a line is read.
func control(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }

// Progress shows one line that is overwritten, or, if not on a terminal, a line every ten seconds.
type Progress struct {
	w    io.Writer
	live bool
	last time.Time
}

// linesEvery is the interval of lines that cannot be overwritten.
const linesEvery = 10 * time.Second

// NewProgress returns a progress display. live means that w is a terminal.
func NewProgress(w io.Writer, live bool) *Progress { return &Progress{w: w, live: live} }

// Say shows a line of another kind.
func (p *Progress) Say(line string) {
	if p.live {
		_, _ = fmt.Fprintf(p.w, "\r\x1b[K%s", short(line)) // progress only
	}
}

// Tell shows the progress of a run.
func (p *Progress) Tell(run, phase string, elapsed, of time.Duration, right, wrong uint64, rate float64) {
	line := run + "  " + phase
	if of > 0 {
		done := min(1, float64(elapsed)/float64(of))
		const width = 20
		full := int(done * width)
		line += "  " + strings.Repeat("█", full) + strings.Repeat("░", width-full) + fmt.Sprintf("  %.1f of %.1f s", min(elapsed, of).Seconds(), of.Seconds())
	}
	if right+wrong > 0 {
		line += fmt.Sprintf("  %s/s", number(rate))
	}
	if wrong > 0 {
		line += fmt.Sprintf("  %d wrong", wrong)
	}
	if p.live {
		p.Say(line)
		return
	}
	if now := time.Now(); now.Sub(p.last) >= linesEvery {
		if !p.last.IsZero() {
			_, _ = fmt.Fprintln(p.w, clean(line))
		}
		p.last = now
	}
}

// End removes the line.
func (p *Progress) End() {
	if p.live {
		_, _ = io.WriteString(p.w, "\r\x1b[K")
	}
}

func short(s string) string {
	const width = 100
	if runes := []rune(clean(s)); len(runes) > width {
		return string(runes[:width]) + "…"
	}
	return clean(s)
}
