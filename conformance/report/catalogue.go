package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"dragoman/conformance/suite"
)

// Catalogue is checks as they are told of, without a run.
type Catalogue struct {
	Format int     `json:"format"`
	Checks []Check `json:"checks"`
}

// NewCatalogue makes one of checks, in their order.
func NewCatalogue(checks []*suite.Check) *Catalogue {
	c := &Catalogue{Format: Format, Checks: []Check{}}
	for _, one := range checks {
		c.Checks = append(c.Checks, Tell(one))
	}
	return c
}

// List writes a line for each check.
func (c *Catalogue) List(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "CHECK\tLEVEL\tFACES\tTITLE") // errors come from Flush
	for _, one := range c.Checks {
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", one.ID, one.Level, strings.Join(one.Faces, ","), one.Title)
	}
	return t.Flush()
}

// JSON writes the checks as JSON.
func (c *Catalogue) JSON(w io.Writer) error { return writeJSON(w, c) }

// Explain writes all there is to know of a check.
func (c Check) Explain(w io.Writer) error {
	t := &terminal{}
	t.printf("%s\n", c.ID)
	for _, part := range c.parts() {
		t.item(part[0], part[1])
	}
	_, err := io.WriteString(w, t.b.String())
	return err
}

func (c Check) parts() [][2]string {
	return [][2]string{{"title", c.Title}, {"level", c.Level}, {"faces", strings.Join(c.Faces, ", ")}, {"revisions", revisionsText(c.Revisions)},
		{"needs", strings.Join(c.Needs, ", ")}, {"page", pageText(c)}, {"required", c.Statement}, {"why", c.Why}, {"fix", c.Fix}}
}

const catalogueHead = `# The checks of the conformance suite
<!-- Made by ^dragoman conformance --list --markdown^; ^make docs^ writes it anew. -->

What [^dragoman conformance^](conformance.md) looks at, %d checks: %d MUST, %d SHOULD, %d MAY. ^dragoman conformance --explain ID^
shows one on the terminal. A check is tried at each of its faces, in each of its revisions that the server speaks there, and is skipped where
the server does not offer what it needs.

`

// Markdown writes the documentation of the checks, by area.
func (c *Catalogue) Markdown(w io.Writer) error {
	var b strings.Builder
	levels := make(map[string]int)
	var areas []string
	by := make(map[string][]Check)
	for _, one := range c.Checks {
		levels[one.Level]++
		if !slices.Contains(areas, one.Area()) {
			areas = append(areas, one.Area())
		}
		by[one.Area()] = append(by[one.Area()], one)
	}
	fmt.Fprintf(&b, strings.ReplaceAll(catalogueHead, "^", "`"), len(c.Checks), levels["MUST"], levels["SHOULD"], levels["MAY"])
	b.WriteString("| area | checks |\n|---|---|\n")
	for _, area := range areas {
		fmt.Fprintf(&b, "| [%s](#area-%[1]s) | %d |\n", area, len(by[area]))
	}
	for _, area := range areas {
		fmt.Fprintf(&b, "\n## Area %s\n", area)
		for _, one := range by[area] {
			one.document(&b)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (c Check) document(b *strings.Builder) {
	fmt.Fprintf(b, "\n### %s\n**%s.** %s\n\n| | |\n|---|---|\n", c.ID, inline(c.Title), inline(c.Statement))
	where := cell(c.Page)
	if c.URL != "" {
		where = "[" + where + "](" + c.URL + ")"
	}
	rows := [][2]string{{"level", c.Level}, {"faces", strings.Join(c.Faces, ", ")}, {"revisions", revisionsText(c.Revisions)},
		{"needs", cell(strings.Join(c.Needs, ", "))}, {"specification", where}, {"otherwise", inline(c.Why)}, {"fix", inline(c.Fix)}}
	for _, row := range rows {
		if row[1] != "" {
			fmt.Fprintf(b, "| %s | %s |\n", row[0], row[1])
		}
	}
}
