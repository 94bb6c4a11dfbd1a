package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
	"time"

	"dragoman/conformance/suite"
)

//go:embed page.css
var pageStyle string

// HTML writes the report as one self-contained page without scripts: the counts and the time of each place, the findings with their
// evidence folded, and all checks with their times.
func (r *Report) HTML(w io.Writer) error {
	p := &htmlPage{}
	p.raw("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">" +
		"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"><title>MCP conformance</title><style>\n" + pageStyle + "</style></head><body>\n")
	verdict, class := "Conforms", "good"
	if !r.OK {
		verdict, class = "Does not conform", "bad"
	}
	p.print("<header><h1>MCP conformance</h1><p><b class=\"%s\">%s</b> %s</p>", class, verdict, r.Totals.Line())
	for _, target := range r.Targets {
		p.print("<p><code>%s</code></p>", target)
	}
	p.print("<p class=\"dim\">%s, %s, dragoman %s</p></header>\n", r.Began.UTC().Format(time.RFC3339), took(r.TookMS), r.Version)
	if r.Ended != "" {
		p.print("<p class=\"bad\">The run was ended before its time: %s.</p>\n", r.Ended)
	}
	p.places(r)
	for i, s := range r.Stale {
		if i == 0 {
			p.raw("<h2>Stale</h2><p>Entries of the list of expected failures that are not needed:</p>\n")
		}
		p.print("<p>line %s: <code>%s</code> %s</p>\n", itoa(s.Line), s.Entry, s.Why)
	}
	for _, k := range kinds() {
		for i, g := range r.groups(k.wanted) {
			if i == 0 {
				p.print("<h2>%s</h2>\n", k.title)
			}
			p.group(g)
		}
	}
	for i, s := range r.skips() {
		if i == 0 {
			p.raw("<h2>Skipped</h2>\n")
		}
		p.print("<p>%s: %s</p>\n", s.reason, strings.Join(s.checks, ", "))
	}
	for i, why := range r.Tried {
		if i == 0 {
			p.raw("<h2>Not found there</h2>\n")
		}
		p.print("<p>%s</p>\n", short(why, 1, shortWidth))
	}
	p.times(r)
	p.raw("</body></html>\n")
	_, err := io.WriteString(w, p.b.String())
	return err
}

// htmlPage is an HTML page in the making.
type htmlPage struct{ b strings.Builder }

func (p *htmlPage) raw(markup string) { p.b.WriteString(markup) }

// print writes markup with untrusted texts in place of its verbs.
func (p *htmlPage) print(markup string, texts ...string) {
	escaped := make([]any, len(texts))
	for i, text := range texts {
		escaped[i] = html.EscapeString(clean(text))
	}
	fmt.Fprintf(&p.b, markup, escaped...)
}

func (p *htmlPage) places(r *Report) {
	p.print("<div class=\"wide\"><table><thead><tr><th>face<th>revision<th>passed<th>failed<th>warnings<th>notes<th>skipped<th>broken<th>expected<th>%s<th>time</tr></thead><tbody>\n", r.lastColumn())
	for _, one := range r.Places {
		c := one.Totals
		p.print("<tr><th>%s<td>%s", one.Face, orDash(one.Revision))
		for i, n := range []int{c.Passed, c.Failed, c.Warnings, c.Notes, c.Skipped, c.Broken, c.Expected} {
			class := ""
			if n > 0 {
				class = [...]string{"good", "bad", "warn", "", "", "bad", ""}[i]
			}
			p.print("<td class=\"n %s\">%s", class, itoa(n))
		}
		p.print("<td>%s<td class=\"n\">%s</tr>\n", one.last(), took(one.TookMS))
	}
	p.raw("</tbody></table></div>\n")
}

// group writes a finding with those that are like it. Failures are unfolded, except for their evidence.
func (p *htmlPage) group(g *group) {
	open := ""
	if g.Fails {
		open = " open"
	}
	p.print("<details"+open+"><summary><b>%s</b> %s <span class=\"dim\">%s</span></summary><dl>", g.ID, g.Level, strings.Join(g.places, ", "))
	item := func(name, text string) {
		if text != "" {
			p.print("<dt>%s<dd>%s", name, text)
		}
	}
	item("required", g.Statement)
	switch {
	case strings.HasPrefix(g.URL, "https://"):
		p.print("<dt>page<dd><a href=\"%s\" rel=\"noreferrer\">%s</a>", g.URL, g.Page)
	default:
		item("page", g.Page)
	}
	if g.Expected != nil {
		item("listed", strings.TrimSpace(g.Expected.Entry+"  "+g.Expected.Reason))
	}
	item("reason", g.Reason)
	for _, one := range g.Problems {
		item("expected", one.Expected)
		p.print("<dt>got<dd><code>%s</code>", one.Got)
	}
	item("why", g.Why)
	item("fix", g.Fix)
	p.raw("</dl>")
	if len(g.Evidence) > 0 {
		p.raw("<details><summary>what went over the wire</summary><pre>")
		for _, l := range g.Evidence {
			p.print("<b>%s</b>\n%s\n", l.head(), l.Text)
		}
		p.raw("</pre></details>")
	}
	p.raw("</details>\n")
}

// times lists what ran, the longest first.
func (p *htmlPage) times(r *Report) {
	ran := slices.DeleteFunc(slices.Clone(r.Findings), func(f Finding) bool { return f.Outcome == suite.Skipped })
	slices.SortStableFunc(ran, func(a, b Finding) int { return cmp.Compare(b.TookMS, a.TookMS) })
	p.print("<h2>All checks</h2><details><summary>%s with their times, the longest first</summary><div class=\"wide\"><table><tbody>\n", itoa(len(ran)))
	for _, f := range ran {
		p.print("<tr><th>%s<td>%s<td>%s<td class=\"n\">%s</tr>\n", f.Check, f.Place(), string(f.Outcome), took(f.TookMS))
	}
	p.raw("</tbody></table></div></details>\n")
}

// took returns a time in milliseconds as text.
func took(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	if d >= 10*time.Second {
		d = d.Round(time.Second / 10)
	}
	return d.String()
}
