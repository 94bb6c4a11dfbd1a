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

// overs names the transport.
var overs = map[bool]string{false: "HTTP", true: "stdio"}

// without are the checks of the official suite at which none of ours looks.
func (t *tables) without(b *strings.Builder, runs []*run) {
	b.WriteString("\n## What only the official suite looks at\n\n| official suite | over, at | why not ours |\n|---|---|---|\n")
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
			fmt.Fprintf(b, "| %s | %s | %s |\n", code(c.official), strings.Join(merged(at), ", "), cell(cmp.Or(c.note, "ours are not for this transport")))
		}
	}
}

// others are our checks at which the official suite does not look.
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
	fmt.Fprintf(b, "\n## What only ours look at\n\nOf our %d checks of MCP servers %d have a counterpart in the official suite, and %d have none; *not tried*: at none of these servers.\n\n| area | checks |\n|---|---|\n", total, total-only, only)
	for _, area := range areas {
		fmt.Fprintf(b, "| `%s` | %s |\n", area, strings.Join(at[area], ", "))
	}
}

// faults are the MUSTs that are broken, server by server.
func faults(b *strings.Builder, runs []*run) {
	b.WriteString("\n## MUSTs that are broken\n\nBy our checks. Whose it is: of the *SDK*, whatever is built on it; of the *server*'s own code; of the *fixture*, which was made to be tested, and hurts nobody.\n" +
		"`dragoman conformance --explain CHECK` has the statement, the page, and what to do.\n")
	of := make(map[string]int)
	for _, r := range runs {
		for _, f := range r.faults {
			if f.whose != nil {
				of[f.whose.whose]++
			}
		}
	}
	fmt.Fprintf(b, "Of the SDKs are %d, of servers' own code %d, of fixtures %d, each counted by check and server.\n", of["SDK"], of["server"], of["fixture"])
	for _, r := range runs {
		fmt.Fprintf(b, "\n### %s (%s)\n\n", r.server.name, r.server.made)
		if len(r.faults) == 0 {
			b.WriteString("None.\n")
			continue
		}
		b.WriteString("| check | at | whose | expected | came |\n|---|---|---|---|---|\n")
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

// everything is a table for each revision: checks of the official suite down, servers across.
func (t *tables) everything(b *strings.Builder, runs []*run) {
	b.WriteString("\n## Every check\n\nIn a cell the official suite's verdict and ours: ✓ kept, ✗ broken (a MUST or a SHOULD), – not tried; ≠ they differ, and the reason stands above.\nOne sign alone is the official suite's, where there is no counterpart.\n")
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

// oursAt are the counterparts of a check at a revision.
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
