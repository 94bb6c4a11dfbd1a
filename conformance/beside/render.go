package main

import (
	"fmt"
	"slices"
	"strings"

	"dragoman/conformance/official"
)

// Texts of servers are cut to these many characters.
const (
	shortText = 160
	longText  = 240
)

// oneLine is a text in one line, cut.
func oneLine(text string, most int) string {
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) > most {
		runes = append(runes[:most], '…')
	}
	return string(runes)
}

// cell makes a text fit for a cell of a table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "\n", " ").Replace(text)
}

func code(text string) string {
	return "`" + strings.NewReplacer("`", "'", "|", `\|`).Replace(text) + "`"
}

// counts are rows by judgement.
type counts struct{ agree, oneLooks, alone, explained, unexpected, faults, both, oneFails int }

func count(runs []*run) (c counts) {
	for _, r := range runs {
		for _, w := range r.rows {
			*[...]*int{&c.agree, &c.oneLooks, &c.alone, &c.explained, &c.unexpected}[w.judged]++
			switch tried := w.official.class != untried && w.ours.class != untried; {
			case tried:
				c.both++
			case w.judged == explained:
				c.explained--
				c.oneFails++
			}
			if w.judged == agree && w.official.class == broken {
				c.faults++
			}
		}
	}
	return c
}

// render makes the document.
func (t *tables) render(runs []*run) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# Beside the official suite\n\nWhat `dragoman conformance` finds, beside what the official suite (`@modelcontextprotocol/conformance` %s) finds, at %d servers.\n"+
		"Made by `make beside`; a change by hand is lost. Counted are checks of the official suite at a server and revision; the shapes of messages\n"+
		"(`wire-schema-valid`), at which each of its scenarios looks, are one. [counterparts.tsv](beside/counterparts.tsv) says which of our checks\n"+
		"look at the same.\n\n", official.Version, len(runs))
	t.summary(&b, runs)
	t.differences(&b, runs)
	levels(&b, runs)
	t.without(&b, runs)
	t.others(&b, runs)
	faults(&b, runs)
	t.everything(&b, runs)
	return []byte(b.String())
}

func (t *tables) summary(b *strings.Builder, runs []*run) {
	b.WriteString("| server | made with | met over | revisions | both tried | agree | on something wrong | differ, with a reason | one finds fault, the other has not tried, with a reason | not explained | one is content, the other has not tried | no counterpart | MUSTs broken |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	line := func(name, made, over, revisions string, c counts, musts int) {
		fmt.Fprintf(b, "| %s | %s | %s | %s | %d | %d | %d | %d | %d | %d | %d | %d | %d |\n", name, cell(made), over, revisions, c.both, c.agree, c.faults, c.explained, c.oneFails, c.unexpected, c.oneLooks, c.alone, musts)
	}
	musts := 0
	for _, r := range runs {
		over := "HTTP"
		if r.server.stdio() {
			over = "stdio; by the official suite through Dragoman"
		}
		line(code(r.server.name), r.server.made+": "+r.server.note, over, strings.Join(revisions(r), " "), count([]*run{r}), len(r.faults))
		musts += len(r.faults)
	}
	line("all", "", "", "", count(runs), musts)
	b.WriteString("\n*MUSTs broken*: by our checks, those among them at which the official suite does not look.\n")
}

func revisions(r *run) (all []string) {
	for _, w := range r.rows {
		if !slices.Contains(all, w.revision) {
			all = append(all, w.revision)
		}
	}
	return all
}

var rights = map[string]string{"ours": "ours is right", "suite": "the official suite is right", "both": "both are right, and look at different things"}

// differences are what differs, reason by reason.
func (t *tables) differences(b *strings.Builder, runs []*run) {
	b.WriteString("\n## Where they differ\n")
	n := 0
	for _, d := range t.differs {
		if len(d.used) == 0 {
			continue
		}
		n++
		page := ""
		if d.page != "-" {
			page = " *" + d.page + "*"
		}
		fmt.Fprintf(b, "\n%d. **%s** (%d): %s.%s\n", n, rights[d.right], len(d.used), d.reason, page)
		var order []string
		at := make(map[string][]string)
		for _, w := range d.used {
			what := code(w.check) + " " + w.official.class.String() + ", " + ours(w) + " " + w.ours.class.String()
			if at[what] == nil {
				order = append(order, what)
			}
			at[what] = append(at[what], w.server.name+"@"+w.revision)
		}
		for _, what := range order {
			fmt.Fprintf(b, "   - %s: %s\n", what, strings.Join(merged(at[what]), ", "))
		}
	}
	for _, r := range runs {
		for _, w := range r.rows {
			if w.judged == unexpected {
				fmt.Fprintf(b, "\n- **not explained**: %s: the official suite %s, ours %s\n", code(w.place()), cell(w.official.tell()), cell(w.ours.tell()))
			}
		}
	}
}

// ours names the check of ours that had the verdict, or all that might have had one.
func ours(w *row) string {
	if w.ours.check != "" {
		return code(w.ours.check)
	}
	return code(strings.Join(w.with.ours, ", "))
}

// merged puts the revisions of a server together: server@a, server@b are server@a,b.
func merged(places []string) (out []string) {
	at := make(map[string]int)
	for _, p := range places {
		name, revision, _ := strings.Cut(p, "@")
		if i, has := at[name]; has {
			out[i] += " and " + revision
			continue
		}
		at[name] = len(out)
		out = append(out, name+"@"+revision)
	}
	return out
}

// levels are where both find the same and think it differently bad.
func levels(b *strings.Builder, runs []*run) {
	at := make(map[string][]string)
	var order []string
	for _, r := range runs {
		for _, w := range r.rows {
			if w.otherLevel() {
				what := fmt.Sprintf("| %s | %s | %s | %s |", code(w.check), w.official.outcome, code(w.ours.check), w.ours.outcome)
				if at[what] == nil {
					order = append(order, what)
				}
				at[what] = append(at[what], w.server.name+"@"+w.revision)
			}
		}
	}
	if len(order) == 0 {
		return
	}
	b.WriteString("\n## The same fault, another level\n\nOurs have the level that the page of the check gives: `failed` is a MUST, `warned` a SHOULD.\n\n| official suite | says | ours | says | where |\n|---|---|---|---|---|\n")
	for _, what := range order {
		fmt.Fprintf(b, "%s %s |\n", what, strings.Join(merged(at[what]), ", "))
	}
}
