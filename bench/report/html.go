package report

import (
	_ "embed"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

//go:embed page.css
var style string

// HTML writes the report as one self-contained page. old is the report to compare with, or nil.
func (r *Report) HTML(w io.Writer, old *Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"+
		"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"><title>dragoman bench: %s</title><style>\n%s</style></head><body>\n", escape(r.Target), style)
	verdict, class := "all answers correct", "good"
	if !r.OK {
		verdict, class = "failed", "wrong"
	}
	fmt.Fprintf(&b, "<header><h1>%s</h1><p><b class=\"%s\">%s</b> %s %s %s</p><p>%s</p><p class=\"dim\">%s · dragoman %s · %s/%s, %d processors, %s</p></header>\n",
		escape(r.Target), class, verdict, escape(r.Face), escape(r.Revision), escape(r.Server), escape(r.Load.line()), r.Began.UTC().Format(time.RFC3339),
		escape(r.Version), escape(r.Machine.OS), escape(r.Machine.Arch), r.Machine.CPUs, escape(r.Machine.Go))
	if r.Ended != "" {
		fmt.Fprintf(&b, "<p class=\"wrong\">The run was ended before its time: %s.</p>\n", escape(r.Ended))
	}
	r.htmlTables(&b)
	r.htmlVerdicts(&b)
	b.WriteString("<div class=\"plots\">\n")
	for _, p := range r.plots() {
		fmt.Fprintf(&b, "<figure><figcaption>%s</figcaption>%s%s", escape(p.title), p.legend(), p.svg())
		if p.note != "" {
			fmt.Fprintf(&b, "<p class=\"dim\">%s</p>", escape(p.note))
		}
		b.WriteString("</figure>\n")
	}
	b.WriteString("</div>\n")
	r.htmlWrong(&b)
	if old != nil {
		htmlCompare(&b, Compare(old, r))
	}
	for i, n := range r.Notes {
		if i == 0 {
			b.WriteString("<h2>Notes</h2><ul>")
		}
		fmt.Fprintf(&b, "<li>%s</li>", escape(n))
	}
	if len(r.Notes) > 0 {
		b.WriteString("</ul>\n")
	}
	b.WriteString("</body></html>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// row writes a row of a table. Its first cell is a head.
func row(b *strings.Builder, cell string, cells ...string) {
	b.WriteString("<tr>")
	for i, c := range cells {
		kind := cell
		if i == 0 {
			kind = "th"
		}
		fmt.Fprintf(b, "<%s>%s</%s>", kind, escape(c), kind)
	}
	b.WriteString("</tr>")
}

// column is a column of the table of runs. It is left out if no run has a value.
type column struct {
	name string
	of   func(*Run) string // "": no value
	over func(Round) float64
	show func(float64) string
}

// columns returns the columns of the tables: answers, then what they cost. Both together are wider than most screens.
func columns() [][]column {
	at := func(name string) func(*Run) string {
		return func(r *Run) string { return text(r.Latency.Percentiles[name]) }
	}
	process := func(of func(*Process) string) func(*Run) string {
		return func(r *Run) string {
			if r.Process == nil {
				return ""
			}
			return of(r.Process)
		}
	}
	allocs := func(of func(*Allocs) string) func(*Run) string {
		return func(r *Run) string {
			if r.Allocs == nil {
				return ""
			}
			return of(r.Allocs)
		}
	}
	some := func(n uint64) string {
		if n == 0 {
			return ""
		}
		return number(float64(n))
	}
	return [][]column{{
		{"answers/s", func(r *Run) string { return number(r.RPS) }, func(x Round) float64 { return x.RPS }, number},
		{"mean", func(r *Run) string { return text(r.Latency.Mean) }, func(x Round) float64 { return x.Mean }, text},
		{"p50", at("p50"), func(x Round) float64 { return x.P50 }, text}, {"p90", at("p90"), nil, nil},
		{"p99", at("p99"), func(x Round) float64 { return x.P99 }, text}, {"p99.9", at("p99.9"), func(x Round) float64 { return x.P999 }, text}, {"p99.99", at("p99.99"), nil, nil},
		{"max", func(r *Run) string { return text(r.Latency.Max) }, nil, nil},
		{"errors", func(r *Run) string { return number(float64(r.Errors)) }, nil, nil},
		{"not sent", func(r *Run) string { return some(r.Unsent) }, nil, nil},
	}, {
		{"CPU/answer", process(func(p *Process) string { return text(p.CPU + p.Children) }), nil, nil},
		{"of children", process(func(p *Process) string {
			if p.Children == 0 {
				return ""
			}
			return text(p.Children)
		}), nil, nil},
		{"memory, most", process(func(p *Process) string { return size(float64(p.RSSPeak)) }), nil, nil},
		{"allocations", allocs(func(a *Allocs) string { return digits(a.Objects) }), nil, nil},
		{"bytes", allocs(func(a *Allocs) string { return size(a.Bytes) }), nil, nil},
	}}
}

func (r *Report) htmlTables(b *strings.Builder) {
	for _, table := range columns() {
		shown := slices.DeleteFunc(table, func(c column) bool {
			return !slices.ContainsFunc(r.Runs, func(one Run) bool { return c.of(&one) != "" })
		})
		if len(shown) > 0 {
			r.htmlTable(b, shown)
		}
	}
}

func (r *Report) htmlTable(b *strings.Builder, shown []column) {
	head := []string{""}
	for _, c := range shown {
		head = append(head, c.name)
	}
	b.WriteString("<div class=\"wide\"><table><thead>")
	row(b, "th", head...)
	b.WriteString("</thead><tbody>")
	for i := range r.Runs {
		one := &r.Runs[i]
		cells, spread := []string{one.Name}, []string{fmt.Sprintf("over %d rounds", len(one.Rounds))}
		for _, c := range shown {
			cells = append(cells, c.of(one))
			cell := ""
			if c.over != nil {
				s := one.Spread(c.over)
				cell = c.show(s.Min) + " – " + c.show(s.Max)
			}
			spread = append(spread, cell)
		}
		row(b, "td", cells...)
		if len(one.Rounds) > 1 && slices.ContainsFunc(shown, func(c column) bool { return c.over != nil }) {
			b.WriteString("</tbody><tbody class=\"dim\">")
			row(b, "td", spread...)
			b.WriteString("</tbody><tbody>")
		}
	}
	b.WriteString("</tbody></table></div>\n")
}

func (r *Report) htmlVerdicts(b *strings.Builder) {
	if len(r.Verdicts) == 0 {
		return
	}
	b.WriteString("<h2>Thresholds</h2><table><tbody>")
	for _, v := range r.Verdicts {
		word := "kept"
		if !v.OK {
			word = "failed"
		}
		row(b, "td", v.Threshold, v.Run, v.Got, word)
	}
	b.WriteString("</tbody></table>\n")
}

func (r *Report) htmlWrong(b *strings.Builder) {
	begun := false
	for _, one := range r.Runs {
		for _, w := range one.Wrong {
			if !begun {
				b.WriteString("<h2>Wrong answers</h2><div class=\"wide\"><table><thead>")
				row(b, "th", "run", "kind", "count", "first example")
				b.WriteString("</thead><tbody>")
				begun = true
			}
			fmt.Fprintf(b, "<tr><th>%s</th><td>%s</td><td>%s</td><td><code>%s</code></td></tr>", escape(one.Name), escape(w.Kind), number(float64(w.Count)), escape(w.Example))
		}
	}
	if begun {
		b.WriteString("</tbody></table></div>\n")
	}
}

func htmlCompare(b *strings.Builder, c *Comparison) {
	b.WriteString("<h2>Against the earlier report</h2><p class=\"dim\">Medians (min–max) of rounds.</p><div class=\"wide\"><table><thead>")
	row(b, "th", "run", "", "before", "now", "change", "")
	b.WriteString("</thead><tbody>")
	for i := range c.Differences {
		d := &c.Differences[i]
		row(b, "td", d.Run, d.Figure, d.shown(d.Old), d.shown(d.New), d.percent(), d.Word())
	}
	b.WriteString("</tbody></table></div>\n")
	for _, n := range c.Notes {
		fmt.Fprintf(b, "<p class=\"dim\">%s</p>\n", escape(n))
	}
}

// plots returns the charts for which there are figures.
func (r *Report) plots() []*plot {
	percent := func(v float64) string { return "p" + digits(v) }
	seconds := func(v float64) string { return digits(v) + " s" }
	latency := &plot{title: "Latency by percentile", x: axis{label: "percentile", scale: nines, show: percent}, y: axis{label: "latency", scale: logarithmic, show: text}}
	rate := &plot{title: "Throughput", x: axis{label: "time", show: seconds}, y: axis{label: "correct answers per second", show: number, zero: true}}
	times := &plot{title: "Latency over time", x: axis{label: "time", show: seconds}, y: axis{label: "latency", scale: logarithmic, show: text}, note: "For each second the mean, and dashed the maximum."}
	memory := &plot{title: "Memory", x: axis{label: "time", show: seconds}, y: axis{label: "resident", show: size, zero: true, bytes: true}, note: "Process under test and its descendants."}
	for i := range r.Runs {
		one := &r.Runs[i]
		latency.lines = append(latency.lines, line{name: one.Name, colour: i, points: curve(one.Latency)})
		if one.Service != nil {
			latency.lines = append(latency.lines, line{name: one.Name + ", from when calls were sent", colour: i, dashed: true, points: curve(*one.Service)})
			latency.note = "Measured from when calls were due, so that a stall delays all calls that fall into it."
		}
		over := one.overTime()
		rate.lines = append(rate.lines, line{name: one.Name, colour: i, points: over.rate})
		if one.Errors > 0 {
			rate.lines = append(rate.lines, line{name: one.Name + ", errors", colour: -1, points: over.errors})
		}
		times.lines = append(times.lines, line{name: one.Name, colour: i, points: over.mean}, line{name: one.Name + ", longest", colour: i, dashed: true, points: over.max})
		if one.Process != nil {
			l := line{name: one.Name, colour: i}
			for _, m := range one.Process.Course {
				l.points = append(l.points, [2]float64{m.AtUs / 1e6, float64(m.RSS + m.Children)})
			}
			memory.lines = append(memory.lines, l)
		}
	}
	all := []*plot{latency, rate, times}
	if len(memory.lines) > 0 {
		all = append(all, memory)
	}
	if len(r.Sessions) > 1 {
		all = append(all, r.sessionPlot())
	}
	return all
}

func (r *Report) sessionPlot() *plot {
	p := &plot{title: "Memory by idle sessions", x: axis{label: "open idle sessions", show: number, zero: true}, y: axis{label: "resident", show: size, zero: true, bytes: true}}
	own, all := line{name: "the process", dots: true}, line{name: "with its descendants", colour: 1, dots: true}
	children := false
	for _, s := range r.Sessions {
		own.points = append(own.points, [2]float64{float64(s.Open), float64(s.RSS)})
		all.points = append(all.points, [2]float64{float64(s.Open), float64(s.RSS + s.Children)})
		children = children || s.Children > 0
	}
	p.lines = []line{own}
	if children {
		p.lines = append(p.lines, all)
	}
	return p
}

// curve is the distribution without its beginning, for which the percentile scale has no room.
func curve(l Latency) (points [][2]float64) {
	for _, at := range l.Curve {
		if at[1] > 0 {
			points = append(points, at)
		}
	}
	return points
}

// course is the seconds of a run as lines.
type course struct{ rate, errors, mean, max [][2]float64 }

// overTime leaves out the last second, which is incomplete, unless it is the only one.
func (r *Run) overTime() (c course) {
	n := int(math.Floor(r.ElapsedUs / 1e6))
	if n == 0 {
		n = 1
	}
	for i := range min(n, len(r.Seconds)) {
		s, at := r.Seconds[i], float64(i)+0.5
		c.rate = append(c.rate, [2]float64{at, float64(s.Right)})
		c.errors = append(c.errors, [2]float64{at, float64(s.Errors)})
		if s.Right > 0 {
			c.mean, c.max = append(c.mean, [2]float64{at, s.Mean}), append(c.max, [2]float64{at, s.Max})
		}
	}
	return c
}
