package report

import (
	"fmt"
	"math"
	"strings"
)

// plot is a chart of lines over two axes, as SVG. Its colours are CSS variables of the page, which has a light and a dark theme.
type plot struct {
	title, note string
	x, y        axis
	lines       []line
}

// axis is one of the two axes.
type axis struct {
	label string
	scale scale
	show  func(float64) string
	zero  bool // begins at 0
	bytes bool // ticks at powers of two
}

// scale maps values to an axis.
type scale int

// The scales. On the scale of nines each further nine of a percentile takes the same room.
const (
	linear scale = iota
	logarithmic
	nines
)

// line is one line of a plot.
type line struct {
	name   string
	colour int // index into the page's colours; -1: the colour of errors
	dashed bool
	dots   bool
	points [][2]float64
}

// Dimensions of a chart.
const (
	plotWidth, plotHeight = 760, 340
	left, right           = 84, 20
	top, bottom           = 20, 52
	maxPoints             = 600 // points per line
	colours               = 8
	ticksWanted           = 6
)

func (s scale) place(v float64) float64 {
	switch s {
	case logarithmic:
		return math.Log10(max(v, 1e-9))
	case nines:
		return -math.Log10(max(1-v/100, 1e-7))
	}
	return v
}

// span is the range of an axis, in positions of its scale.
type span struct{ from, to float64 }

func (p *plot) spanOf(a axis, which int) span {
	s := span{math.Inf(1), math.Inf(-1)}
	for _, l := range p.lines {
		for _, at := range l.points {
			v := a.scale.place(at[which])
			s.from, s.to = min(s.from, v), max(s.to, v)
		}
	}
	if math.IsInf(s.from, 0) {
		return span{0, 1}
	}
	switch {
	case a.scale == logarithmic:
		s.from, s.to = math.Floor(s.from+1e-9), math.Ceil(s.to-1e-9)
	case a.zero:
		s.from, s.to = 0, s.to*1.05
	}
	if s.to-s.from < 1e-9 {
		s.to = s.from + 1
	}
	return s
}

// ticks returns the positions and labels of the marks of an axis.
func (a axis) ticks(s span) (at []float64, text []string) {
	switch a.scale {
	case nines:
		for i := 0; float64(i) <= s.to+1e-9; i++ {
			at, text = append(at, float64(i)), append(text, percentile(i))
		}
		return at, text
	case logarithmic:
		for d := s.from; d <= s.to+1e-9; d++ {
			at, text = append(at, d), append(text, a.show(math.Pow(10, d)))
		}
		return at, text
	}
	unit := 1.0
	for a.bytes && (s.to-s.from)/ticksWanted > 512*unit {
		unit *= 1 << 10
	}
	step := unit * niceStep((s.to-s.from)/ticksWanted/unit)
	for v := math.Ceil(s.from/step) * step; v <= s.to+1e-9; v += step {
		at, text = append(at, v), append(text, a.show(v))
	}
	return at, text
}

// percentile writes the percentile with n nines.
func percentile(n int) string {
	switch n {
	case 0:
		return "0"
	case 1:
		return "90"
	case 2:
		return "99"
	}
	return "99." + strings.Repeat("9", n-2)
}

// niceStep is the smallest 1, 2 or 5 times a power of ten that is not less than v.
func niceStep(v float64) float64 {
	if v <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, n := range []float64{1, 2, 5, 10} {
		if n*unit >= v-1e-12 {
			return n * unit
		}
	}
	return 10 * unit
}

// svg draws the chart.
func (p *plot) svg() string {
	var b strings.Builder
	xs, ys := p.spanOf(p.x, 0), p.spanOf(p.y, 1)
	x := func(v float64) float64 { return left + (v-xs.from)/(xs.to-xs.from)*(plotWidth-left-right) }
	y := func(v float64) float64 {
		return plotHeight - bottom - (v-ys.from)/(ys.to-ys.from)*(plotHeight-top-bottom)
	}
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" role="img" aria-label="%s">`, plotWidth, plotHeight, escape(p.title))
	at, words := p.y.ticks(ys)
	for i, v := range at {
		fmt.Fprintf(&b, `<line class="grid" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`, left, y(v), plotWidth-right, y(v), left-8, y(v)+4, escape(words[i]))
	}
	at, words = p.x.ticks(xs)
	for i, v := range at {
		fmt.Fprintf(&b, `<line class="grid" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/><text x="%.1f" y="%d" text-anchor="middle">%s</text>`, x(v), top, x(v), plotHeight-bottom, x(v), plotHeight-bottom+18, escape(words[i]))
	}
	fmt.Fprintf(&b, `<text class="label" x="%d" y="%d" text-anchor="middle">%s</text>`, (left+plotWidth-right)/2, plotHeight-8, escape(p.x.label))
	fmt.Fprintf(&b, `<text class="label" x="16" y="%d" text-anchor="middle" transform="rotate(-90 16 %d)">%s</text>`, (top+plotHeight-bottom)/2, (top+plotHeight-bottom)/2, escape(p.y.label))
	for _, l := range p.lines {
		p.draw(&b, l, x, y)
	}
	b.WriteString(`</svg>`)
	return b.String()
}

// class is the CSS class of a line.
func (l *line) class() string {
	class := fmt.Sprintf("c%d", l.colour%colours)
	if l.colour < 0 {
		class = "bad"
	}
	if l.dashed {
		class += " dashed"
	}
	return class
}

func (p *plot) draw(b *strings.Builder, l line, x, y func(float64) float64) {
	points := thin(l.points)
	fmt.Fprintf(b, `<polyline class="%s" points="`, l.class())
	for _, at := range points {
		fmt.Fprintf(b, "%.1f,%.1f ", x(p.x.scale.place(at[0])), y(p.y.scale.place(at[1])))
	}
	b.WriteString(`"/>`)
	if !l.dots && len(points) > 1 {
		return
	}
	for _, at := range points {
		fmt.Fprintf(b, `<circle class="%s" cx="%.1f" cy="%.1f" r="3.5"><title>%s: %s</title></circle>`, l.class(), x(p.x.scale.place(at[0])), y(p.y.scale.place(at[1])),
			escape(p.x.show(at[0])), escape(p.y.show(at[1])))
	}
}

// thin reduces many points to the means of groups: a chart cannot show every second of a day.
func thin(points [][2]float64) [][2]float64 {
	if len(points) <= maxPoints {
		return points
	}
	each := (len(points) + maxPoints - 1) / maxPoints
	var out [][2]float64
	for from := 0; from < len(points); from += each {
		part := points[from:min(from+each, len(points))]
		var sum [2]float64
		for _, at := range part {
			sum[0], sum[1] = sum[0]+at[0], sum[1]+at[1]
		}
		out = append(out, [2]float64{sum[0] / float64(len(part)), sum[1] / float64(len(part))})
	}
	return out
}

// legend names the lines, if there are several.
func (p *plot) legend() string {
	if len(p.lines) < 2 {
		return ""
	}
	var b strings.Builder
	b.WriteString(`<p class="legend">`)
	for _, l := range p.lines {
		fmt.Fprintf(&b, `<span><svg viewBox="0 0 26 10" width="26" height="10"><polyline class="%s" points="1,5 25,5"/></svg>%s</span>`, l.class(), escape(l.name))
	}
	b.WriteString(`</p>`)
	return b.String()
}

var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;")

// escape escapes a text for elements and attributes of the page.
func escape(s string) string { return escaper.Replace(clean(s)) }
