package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"dragoman/conformance/checks"
	"dragoman/conformance/official"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// overs names the transports.
var overs = map[bool]string{false: "HTTP", true: "stdio"}

// without lists the checks of the official suite that have no counterpart of ours.
func (t *tables) without(b *strings.Builder, runs []*run) {
	b.WriteString("\n## Checked only by the official suite\n\n| official suite | transport, revisions | why we have none |\n|---|---|---|\n")
	for _, c := range t.counterparts {
		var at []string
		for _, r := range runs {
			for _, w := range r.rows {
				if over := overs[r.server.stdio()] + "@" + w.revision; w.with == c && w.judged == alone && !slices.Contains(at, over) {
					at = append(at, over)
				}
			}
		}
		if len(at) > 0 {
			slices.Sort(at)
			fmt.Fprintf(b, "| %s | %s | %s |\n", code(c.official), strings.Join(merged(at), ", "), cell(cmp.Or(c.note, "ours do not cover this transport")))
		}
	}
}

// others lists our checks that have no counterpart in the official suite.
func (t *tables) others(b *strings.Builder, runs []*run) {
	known := make(map[string]bool)
	for _, c := range t.counterparts {
		for _, id := range c.ours {
			known[id] = true
		}
	}
	tried := make(map[string]bool)
	for _, r := range runs {
		for _, f := range r.report.Findings {
			if !strings.HasPrefix(f.Check, official.Prefix) && classes[f.Outcome] != untried {
				tried[f.Check] = true
			}
		}
	}
	var areas []string
	at := make(map[string][]string)
	total, only := 0, 0
	for _, c := range checks.All() {
		if slices.Equal(c.Faces, []peer.Face{peer.REST}) {
			continue
		}
		total++
		if known[c.ID] {
			continue
		}
		only++
		if at[c.Area()] == nil {
			areas = append(areas, c.Area())
		}
		id := strings.TrimPrefix(c.ID, c.Area()+".")
		if !tried[c.ID] {
			id += " (not tried)"
		}
		at[c.Area()] = append(at[c.Area()], id)
	}
	fmt.Fprintf(b, "\n## Checked only by ours\n\nOf our %d checks of MCP servers %d have a counterpart in the official suite, and %d have none; *not tried* means at none of these servers.\n\n| area | checks |\n|---|---|\n", total, total-only, only)
	for _, area := range areas {
		fmt.Fprintf(b, "| `%s` | %s |\n", area, strings.Join(at[area], ", "))
	}
}

// faults lists the broken MUSTs by server.
func faults(b *strings.Builder, runs []*run) {
	b.WriteString("\n## MUSTs that are broken\n\nBy our checks. The cause is in the *SDK*, and so in everything built on it; in the *server*'s own code; or in the *fixture*, which was made for tests.\n" +
		"`dragoman conformance --explain CHECK` shows the statement, the page, and the fix.\n")
	of := make(map[string]int)
	for _, r := range runs {
		for _, f := range r.faults {
			if f.whose != nil {
				of[f.whose.whose]++
			}
		}
	}
	fmt.Fprintf(b, "%d are in SDKs, %d in servers' own code, %d in fixtures, counted by check and server.\n", of["SDK"], of["server"], of["fixture"])
	for _, r := range runs {
		fmt.Fprintf(b, "\n### %s (%s)\n\n", r.server.name, r.server.made)
		if len(r.faults) == 0 {
			b.WriteString("None.\n")
			continue
		}
		b.WriteString("| check | at | cause | expected | got |\n|---|---|---|---|---|\n")
		for _, f := range r.faults {
			whose, note := "**?**", ""
			if f.whose != nil {
				whose = f.whose.whose
				if f.whose.note != "" {
					note = " — " + f.whose.note
				}
			}
			fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", code(f.check.ID), strings.Join(f.revisions, " "), cell(whose+note), cell(oneLine(f.expected, shortText)), code(oneLine(f.got, longText)))
		}
	}
}

// everything writes a table for each revision: checks of the official suite as rows, servers as columns.
func (t *tables) everything(b *strings.Builder, runs []*run) {
	b.WriteString("\n## Every check\n\nA cell has the official suite's verdict and ours: ✓ passed, ✗ failed (a MUST or a SHOULD), – not tried; ≠ marks a difference, explained above.\nA single sign is the official suite's verdict where there is no counterpart.\n")
	for _, revision := range []string{peer.R2503, peer.R2506, peer.R2511, peer.R2607} {
		var here []*run
		rows := make(map[string]map[*run]*row)
		var order []string
		for _, r := range runs {
			for _, w := range r.rows {
				if w.revision != revision {
					continue
				}
				if !slices.Contains(here, r) {
					here = append(here, r)
				}
				if rows[w.check] == nil {
					rows[w.check] = make(map[*run]*row)
					order = append(order, w.check)
				}
				rows[w.check][r] = w
			}
		}
		slices.Sort(order)
		fmt.Fprintf(b, "\n### %s\n\n| official suite | ours |", revision)
		for _, r := range here {
			fmt.Fprintf(b, " %s |", r.server.name)
		}
		b.WriteString("\n|---|---|" + strings.Repeat("---|", len(here)) + "\n")
		for _, check := range order {
			fmt.Fprintf(b, "| %s | %s |", code(check), t.oursAt(check, revision))
			for _, r := range here {
				fmt.Fprintf(b, " %s |", sign(rows[check][r]))
			}
			b.WriteString("\n")
		}
	}
}

// oursAt returns the counterparts of a check at a revision.
func (t *tables) oursAt(check, revision string) string {
	c := t.with(check)
	if c == nil {
		return "?"
	}
	ids := slices.DeleteFunc(slices.Clone(c.ours), func(id string) bool {
		return !slices.ContainsFunc(checks.All(), func(x *suite.Check) bool {
			return x.ID == id && slices.ContainsFunc(x.Faces, func(f peer.Face) bool { return x.At(f, revision) && slices.Contains(f.Revisions(), revision) })
		})
	})
	if len(ids) == 0 {
		return "–"
	}
	return code(strings.Join(ids, ", "))
}

func sign(w *row) string {
	switch {
	case w == nil:
		return ""
	case w.judged == alone:
		return w.official.class.String()
	case w.judged == explained || w.judged == unexpected:
		return w.official.class.String() + w.ours.class.String() + " ≠"
	}
	return w.official.class.String() + w.ours.class.String()
}
