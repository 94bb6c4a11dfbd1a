package report

import (
	"fmt"
	"io"
	"strings"
)

// Markdown writes the report for a page, such as the summary of a job: the totals, a table of the places, and the findings with their
// evidence folded.
func (r *Report) Markdown(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# MCP conformance\n\n")
	verdict := "Kept"
	if !r.OK {
		verdict = "**Not kept**"
	}
	fmt.Fprintf(&b, "%s: %s.\n", verdict, r.Totals.Line())
	for _, target := range r.Targets {
		fmt.Fprintf(&b, "- %s\n", codeSpan(target))
	}
	if r.Ended != "" {
		fmt.Fprintf(&b, "\nThe run was ended before its time: %s.\n", clean(r.Ended))
	}
	fmt.Fprintf(&b, "\n| face | revision | passed | failed | warnings | notes | skipped | broken | expected | %s | time |\n|---|---|--:|--:|--:|--:|--:|--:|--:|---|--:|\n", r.lastColumn())
	for _, p := range r.Places {
		c := p.Totals
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d | %d | %d | %d | %d | %s | %s |\n", p.Face, orDash(p.Revision), c.Passed, c.Failed, c.Warnings, c.Notes, c.Skipped,
			c.Broken, c.Expected, cell(p.last()), took(p.TookMS))
	}
	for i, s := range r.Stale {
		if i == 0 {
			b.WriteString("\n## Stale\nEntries of the list of expected failures that are not needed:\n\n")
		}
		fmt.Fprintf(&b, "- line %d, %s: %s\n", s.Line, codeSpan(s.Entry), inline(s.Why))
	}
	for _, k := range kinds() {
		for i, g := range r.groups(k.wanted) {
			if i == 0 {
				fmt.Fprintf(&b, "\n## %s\n", k.title)
			}
			g.markdown(&b)
		}
	}
	for i, s := range r.skips() {
		if i == 0 {
			b.WriteString("\n## Skipped\n")
		}
		fmt.Fprintf(&b, "- %s: %s\n", inline(s.reason), strings.Join(s.checks, ", "))
	}
	for i, why := range r.Tried {
		if i == 0 {
			b.WriteString("\n## Not found there\n")
		}
		fmt.Fprintf(&b, "- %s\n", inline(short(why, 1, shortWidth)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (g *group) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "\n### %s (%s)\n%s. At %s.\n\n%s\n\n", g.ID, g.Level, inline(g.Title), strings.Join(g.places, ", "), inline(g.Statement))
	if g.Expected != nil {
		fmt.Fprintf(b, "- listed as %s %s\n", codeSpan(g.Expected.Entry), inline(g.Expected.Reason))
	}
	if g.Reason != "" {
		fmt.Fprintf(b, "- reason: %s\n", inline(g.Reason))
	}
	for _, p := range g.Problems {
		fmt.Fprintf(b, "- expected: %s; got: %s\n", inline(p.Expected), codeSpan(short(p.Got, 3, 4*shortWidth)))
	}
	for _, part := range [][2]string{{"why", g.Why}, {"fix", g.Fix}} {
		if part[1] != "" {
			fmt.Fprintf(b, "- %s: %s\n", part[0], inline(part[1]))
		}
	}
	switch {
	case g.URL != "":
		fmt.Fprintf(b, "- specification: [%s](%s)\n", inline(g.Page), g.URL)
	case g.Page != "":
		fmt.Fprintf(b, "- page: %s\n", inline(g.Page))
	}
	if len(g.Evidence) == 0 {
		return
	}
	var text strings.Builder
	for _, l := range g.Evidence {
		fmt.Fprintf(&text, "%s\n%s\n", l.head(), clean(l.Text))
	}
	fence := fenceFor(text.String())
	fmt.Fprintf(b, "\n<details><summary>what went over the wire</summary>\n\n%s\n%s%s\n</details>\n", fence, text.String(), fence)
}

// fenceFor returns a fence that the text does not close.
func fenceFor(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence
}

// codeSpan returns an untrusted text as code in a line.
func codeSpan(text string) string {
	text = strings.Join(strings.Fields(clean(text)), " ")
	ticks := "`"
	for strings.Contains(text, ticks) {
		ticks += "`"
	}
	if text == "" || strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") {
		text = " " + text + " "
	}
	return ticks + text + ticks
}

// inline returns a text in a line, without markup except for code between backticks.
func inline(text string) string {
	text = strings.Join(strings.Fields(clean(text)), " ")
	var b strings.Builder
	code := false
	for i, r := range text {
		if r == '`' && (code || strings.Contains(text[i+1:], "`")) {
			code = !code
		}
		if !code && strings.ContainsRune(`\*_[]<>|`, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// cell is inline for a table.
func cell(text string) string { return strings.ReplaceAll(inline(text), "`", "") }
