package report

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// Document is a report made of blocks. It is written as a self-contained HTML page with charts, or as Markdown with the tables only.
type Document struct {
	title  string
	blocks []block
}

// block is a part of a document.
type block interface {
	html(b *strings.Builder)
	markdown(b *strings.Builder)
}

// NewDocument returns an empty document.
func NewDocument(title string) *Document { return &Document{title: title} }

// Heading begins a section.
func (d *Document) Heading(words string) { d.blocks = append(d.blocks, heading(words)) }

// Text adds a paragraph.
func (d *Document) Text(format string, args ...any) {
	d.blocks = append(d.blocks, paragraph(fmt.Sprintf(format, args...)))
}

// Table adds a table. The first cells of its rows are heads; cells that say met or missed are coloured.
func (d *Document) Table(head []string, rows [][]string) {
	d.blocks = append(d.blocks, &sheet{head, rows})
}

// Bar is a figure with its spread.
type Bar struct {
	Name            string
	Value, Min, Max float64
	Colour          int // index into the page's colours
}

// Bars adds a bar chart. unit is written after values, and limit, unless it is 0, is a line across the bars.
func (d *Document) Bars(title, unit string, limit float64, bars []Bar) {
	if len(bars) > 0 {
		d.blocks = append(d.blocks, &barPlot{title: title, unit: unit, limit: limit, bars: bars})
	}
}

// Line is a series of points: seconds and bytes.
type Line struct {
	Name   string
	Points [][2]float64
}

// Memory adds a chart of memory over time.
func (d *Document) Memory(title, note string, lines []Line) {
	p := &plot{title: title, note: note, x: axis{label: "time", show: func(v float64) string { return digits(v) + " s" }, zero: true},
		y: axis{label: "resident", show: size, zero: true, bytes: true}}
	for i, l := range lines {
		p.lines = append(p.lines, line{name: l.Name, colour: i, points: l.Points})
	}
	d.blocks = append(d.blocks, picture{p})
}

// HTML writes the document as a page.
func (d *Document) HTML(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"+
		"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"><title>%s</title><style>\n%s</style></head><body>\n<header><h1>%s</h1></header>\n",
		escape(d.title), style, escape(d.title))
	pictures := false
	for _, one := range d.blocks {
		if is := pictured(one); is != pictures {
			pictures = is
			b.WriteString(map[bool]string{true: "<div class=\"plots\">\n", false: "</div>\n"}[is])
		}
		one.html(&b)
	}
	if pictures {
		b.WriteString("</div>\n")
	}
	b.WriteString("</body></html>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func pictured(b block) bool {
	switch b.(type) {
	case *barPlot, picture:
		return true
	}
	return false
}

// Markdown writes the document as Markdown.
func (d *Document) Markdown(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# " + clean(d.title) + "\n")
	for _, one := range d.blocks {
		one.markdown(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

type heading string

func (h heading) html(b *strings.Builder)     { b.WriteString("<h2>" + escape(string(h)) + "</h2>\n") }
func (h heading) markdown(b *strings.Builder) { b.WriteString("\n## " + clean(string(h)) + "\n") }

type paragraph string

func (p paragraph) html(b *strings.Builder)     { b.WriteString("<p>" + escape(string(p)) + "</p>\n") }
func (p paragraph) markdown(b *strings.Builder) { b.WriteString("\n" + clean(string(p)) + "\n") }

type sheet struct {
	head []string
	rows [][]string
}

func (s *sheet) html(b *strings.Builder) {
	b.WriteString("<div class=\"wide\"><table><thead>")
	row(b, "th", s.head...)
	b.WriteString("</thead><tbody>")
	for _, cells := range s.rows {
		b.WriteString("<tr>")
		for i, c := range cells {
			kind, class := "td", ""
			if i == 0 {
				kind = "th"
			}
			switch {
			case strings.HasPrefix(c, "met"):
				class = ` class="good"`
			case strings.HasPrefix(c, "missed"):
				class = ` class="wrong"`
			}
			fmt.Fprintf(b, "<%s%s>%s</%s>", kind, class, escape(c), kind)
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("</tbody></table></div>\n")
}

func (s *sheet) markdown(b *strings.Builder) {
	line := func(cells []string) {
		for _, c := range cells {
			b.WriteString("| " + strings.ReplaceAll(clean(c), "|", "\\|") + " ")
		}
		b.WriteString("|\n")
	}
	b.WriteString("\n")
	line(s.head)
	for i := range s.head {
		b.WriteString(map[bool]string{true: "|---", false: "|--:"}[i == 0])
	}
	b.WriteString("|\n")
	for _, cells := range s.rows {
		line(cells)
	}
}

type picture struct{ *plot }

func (p picture) html(b *strings.Builder) {
	fmt.Fprintf(b, "<figure><figcaption>%s</figcaption>%s%s", escape(p.title), p.legend(), p.svg())
	if p.note != "" {
		fmt.Fprintf(b, "<p class=\"dim\">%s</p>", escape(p.note))
	}
	b.WriteString("</figure>\n")
}

func (p picture) markdown(*strings.Builder) {}

// barPlot is a bar chart with error bars.
type barPlot struct {
	title, unit string
	limit       float64
	bars        []Bar
}

// Dimensions of bar charts.
const (
	barNames, barValues = 250, 120
	barHeight           = 26
)

func (p *barPlot) markdown(*strings.Builder) {}

func (p *barPlot) html(b *strings.Builder) {
	most := p.limit
	for _, one := range p.bars {
		most = max(most, one.Max, one.Value)
	}
	if most <= 0 || math.IsInf(most, 0) || math.IsNaN(most) {
		most = 1
	}
	x := func(v float64) float64 { return barNames + max(v, 0)/most*(plotWidth-barNames-barValues) }
	height := barHeight*len(p.bars) + 12
	fmt.Fprintf(b, `<figure><figcaption>%s</figcaption><svg viewBox="0 0 %d %d" role="img" aria-label="%s">`, escape(p.title), plotWidth, height, escape(p.title))
	for i, one := range p.bars {
		y := float64(barHeight*i + barHeight/2 + 4)
		fmt.Fprintf(b, `<text class="label" x="%d" y="%.0f" text-anchor="end">%s</text>`, barNames-10, y+4, escape(one.Name))
		fmt.Fprintf(b, `<line class="bar c%d" x1="%d" y1="%.1f" x2="%.1f" y2="%.1f"><title>%s to %s%s</title></line>`, one.Colour%colours, barNames, y, x(one.Value), y,
			digits(one.Min), digits(one.Max), escape(p.unit))
		if one.Max > one.Min {
			fmt.Fprintf(b, `<line class="spread" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, x(one.Min), y, x(one.Max), y)
		}
		fmt.Fprintf(b, `<text x="%.1f" y="%.0f">%s%s</text>`, x(max(one.Value, one.Max))+8, y+4, digits(one.Value), escape(p.unit))
	}
	if p.limit > 0 {
		fmt.Fprintf(b, `<line class="bad dashed" x1="%.1f" y1="2" x2="%.1f" y2="%d"/>`, x(p.limit), x(p.limit), height-2)
	}
	b.WriteString("</svg></figure>\n")
}
