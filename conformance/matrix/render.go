package main

import (
	"fmt"
	"strings"
)

// Render returns the document: a table of clients and servers for all features together and for each group of them, one of the servers
// that were part of a merge, a legend, the totals, and a line for each failure and each baseline. Kinds and groups are in the order of their first
// occurrence. Equal results give equal bytes.
func Render(results []Result) []byte {
	var b strings.Builder
	b.WriteString("# Every client at every server\n\nMade by `make matrix` of what a run wrote down; a change by hand is lost.\n")
	if len(results) == 0 {
		b.WriteString("\nNothing was run.\n")
		return []byte(b.String())
	}
	fmt.Fprintf(&b, "\n%s\n", Count(results))
	legend(&b)
	var alone, merged []Result
	for _, r := range results {
		if r.merged() {
			merged = append(merged, r)
		} else {
			alone = append(alone, r)
		}
	}
	groups := kinds(alone, (*Result).group)
	if len(groups) > 1 {
		table(&b, "All features", alone, alone)
	}
	if merged != nil {
		table(&b, "All features, as one of three servers that are served as one", merged, merged)
	}
	members := map[string][]Result{}
	for _, r := range alone {
		members[r.group()] = append(members[r.group()], r)
	}
	for _, group := range groups {
		table(&b, group, alone, members[group])
	}
	list(&b, "Failed", results, Fail)
	list(&b, "Not even without Dragoman", results, Baseline)
	return []byte(b.String())
}

func legend(b *strings.Builder) {
	b.WriteString("\nRows are clients, columns the servers behind Dragoman.\n\n" +
		"| sign | meaning |\n|---|---|\n" +
		"| ✓ 12 | 12 features passed |\n" +
		"| **✗ 2** of 12 | 2 features failed |\n" +
		"| b 1 | 1 feature does not pass without Dragoman either: the baseline, see below |\n" +
		"| – | the feature does not exist between these two |\n" +
		"| · | not run; · 3: of the group's features, 3 were not run here |\n")
}

// Totals counts results by outcome.
type Totals struct{ OK, Fail, None, Baseline int }

// Count counts results.
func Count(results []Result) Totals {
	var t Totals
	for _, r := range results {
		switch r.Outcome {
		case OK:
			t.OK++
		case Fail:
			t.Fail++
		case None:
			t.None++
		case Baseline:
			t.Baseline++
		}
	}
	return t
}

// String is the line of totals.
func (t Totals) String() string {
	text := fmt.Sprintf("%d ok, %d fail, %d not applicable", t.OK, t.Fail, t.None)
	if t.Baseline > 0 {
		text += fmt.Sprintf(", %d in the baseline", t.Baseline)
	}
	return text
}

// kinds returns the distinct values of a column, in the order of their first occurrence.
func kinds(results []Result, column func(*Result) string) []string {
	var out []string
	seen := map[string]bool{}
	for i := range results {
		if v := column(&results[i]); !seen[v] {
			seen[v] = true
			out = append(out, v)
		}
	}
	return out
}

// table writes one table: the clients and servers of all results, the cells of those given.
func table(b *strings.Builder, title string, all, of []Result) {
	clients := kinds(all, func(r *Result) string { return r.Client })
	servers := kinds(all, func(r *Result) string { return r.Server })
	features := len(kinds(of, func(r *Result) string { return r.Feature }))
	cells := map[[2]string][]Result{}
	for _, r := range of {
		key := [2]string{r.Client, r.Server}
		cells[key] = append(cells[key], r)
	}
	fmt.Fprintf(b, "\n## %s\n\n| client \\ server |", text(title))
	for _, s := range servers {
		fmt.Fprintf(b, " %s |", text(s))
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(servers)) + "\n")
	for _, c := range clients {
		fmt.Fprintf(b, "| **%s** |", text(c))
		for _, s := range servers {
			fmt.Fprintf(b, " %s |", cell(cells[[2]string{c, s}], features))
		}
		b.WriteByte('\n')
	}
}

// cell returns the outcome of the features between two.
func cell(of []Result, features int) string {
	if len(of) == 0 {
		return "·"
	}
	t := Count(of)
	var parts []string
	switch run := t.OK + t.Fail + t.Baseline; {
	case t.Fail > 0:
		parts = append(parts, fmt.Sprintf("**✗ %d** of %d", t.Fail, run))
	case t.OK > 0:
		parts = append(parts, fmt.Sprintf("✓ %d", t.OK))
	case run == 0:
		parts = append(parts, "–")
	}
	if t.Baseline > 0 {
		parts = append(parts, fmt.Sprintf("b %d", t.Baseline))
	}
	if missing := features - len(of); missing > 0 {
		parts = append(parts, fmt.Sprintf("· %d", missing))
	}
	return strings.Join(parts, ", ")
}

// list writes the lines of one outcome with their notes.
func list(b *strings.Builder, title string, results []Result, outcome Outcome) {
	first := true
	for _, r := range results {
		if r.Outcome != outcome {
			continue
		}
		if first {
			fmt.Fprintf(b, "\n## %s\n\n| client | server | feature | note |\n|---|---|---|---|\n", title)
			first = false
		}
		note := r.Note
		if note == "" {
			note = "(no note)"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", text(r.Client), text(r.Server), text(r.Feature), text(note))
	}
	if first && outcome == Fail {
		fmt.Fprintf(b, "\n## %s\n\nNothing.\n", title)
	}
}

// meant escapes the characters with a meaning in a cell of a Markdown table.
var meant = strings.NewReplacer(`\`, `\\`, "|", `\|`, "*", `\*`, "_", `\_`, "`", "\\`", "<", "&lt;", "&", "&amp;", "[", `\[`)

// text returns a name or note as text of a Markdown table.
func text(s string) string { return meant.Replace(strings.TrimSpace(s)) }
