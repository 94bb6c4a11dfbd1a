package report

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// pageMark marks generated pages, so that WritePages removes no others.
const pageMark = "<!-- Made by `dragoman conformance --list --markdown DIRECTORY/`; `make docs` writes it anew. -->"

// Page is a page of the documentation of checks.
type Page struct{ Name, Text string }

// Pages returns the documentation of the checks: README.md, which lists them, and ID.md for each.
func (c *Catalogue) Pages() []Page {
	pages := []Page{{"README.md", c.index()}}
	for _, one := range c.Checks {
		var b strings.Builder
		fmt.Fprintf(&b, "# %s\n%s\n\n", one.ID, pageMark)
		one.describe(&b)
		b.WriteString("\n[All checks](README.md)\n")
		pages = append(pages, Page{one.ID + ".md", b.String()})
	}
	return pages
}

// index lists the checks by area.
func (c *Catalogue) index() string {
	var b strings.Builder
	levels, areas, by := c.sorted()
	fmt.Fprintf(&b, "# The checks of the conformance suite\n%s\n\n%s", pageMark, intro(len(c.Checks), levels, "../conformance.md"))
	for _, area := range areas {
		fmt.Fprintf(&b, "\n## %s\n| check | level | faces | |\n|---|---|---|---|\n", area)
		for _, one := range by[area] {
			fmt.Fprintf(&b, "| [%s](%[1]s.md) | %s | %s | %s |\n", one.ID, one.Level, strings.Join(one.Faces, ", "), inline(one.Title))
		}
	}
	return b.String()
}

// WritePages writes the pages into a directory, which it creates if needed, and removes the pages of checks that no longer exist.
func (c *Catalogue) WritePages(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	pages := c.Pages()
	for _, p := range pages {
		if err := os.WriteFile(filepath.Join(dir, p.Name), []byte(p.Text), 0o644); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if filepath.Ext(path) != ".md" || slices.ContainsFunc(pages, func(p Page) bool { return p.Name == e.Name() }) {
			continue
		}
		text, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(text), pageMark) {
			err = os.Remove(path)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
