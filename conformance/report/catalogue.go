package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"dragoman/conformance/suite"
)

// Catalogue lists checks without a run.
type Catalogue struct {
	Format int     `json:"format"`
	Checks []Check `json:"checks"`
}

// NewCatalogue returns the catalogue of checks, in their order.
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

// Explain writes the full description of a check.
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
<!-- Made by ^dragoman conformance --list --markdown^. -->

`

// intro returns the introduction to a list of checks.
func intro(checks int, levels map[string]int, guide string) string {
	const text = `What [^dragoman conformance^](%s) looks at, %d checks: %d MUST, %d SHOULD, %d MAY. ^dragoman conformance --explain ID^
shows one on the terminal. A check is tried at each of its faces, in each of its revisions that the server speaks there, and is skipped where
the server does not offer what it needs.
`
	return fmt.Sprintf(strings.ReplaceAll(text, "^", "`"), guide, checks, levels["MUST"], levels["SHOULD"], levels["MAY"])
}

// sorted counts the checks by level and groups them by area; areas are in the order of their first check.
func (c *Catalogue) sorted() (levels map[string]int, areas []string, by map[string][]Check) {
	levels, by = make(map[string]int), make(map[string][]Check)
	for _, one := range c.Checks {
		levels[one.Level]++
		if !slices.Contains(areas, one.Area()) {
			areas = append(areas, one.Area())
		}
		by[one.Area()] = append(by[one.Area()], one)
	}
	return levels, areas, by
}

// Markdown writes the documentation of the checks, by area.
func (c *Catalogue) Markdown(w io.Writer) error {
	var b strings.Builder
	levels, areas, by := c.sorted()
	b.WriteString(strings.ReplaceAll(catalogueHead, "^", "`") + intro(len(c.Checks), levels, "conformance.md") + "\n")
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
	fmt.Fprintf(b, "\n### %s\n", c.ID)
	c.describe(b)
}

// describe writes the full description of a check, below a heading.
func (c Check) describe(b *strings.Builder) {
	fmt.Fprintf(b, "**%s.** %s\n\n| | |\n|---|---|\n", inline(c.Title), inline(c.Statement))
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
