package report

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

// summaryHead is the beginning of the file of the last results.
const summaryHead = "# The last results\n\nWritten by `bench/run.sh --summarise REPORT.json` and `bench/lab/peers/run.sh --summarise REPORT.json`, " +
	"each its own section; [README.md](README.md) explains how to read them. Full reports are not kept in git.\n"

// Summarise writes the document to the Markdown file of the last results, in place of the section with its title. Other sections stay. The
// file is created if necessary.
func (d *Document) Summarise(file string) error {
	raw, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_, rest, _ := strings.Cut("\n"+string(raw), "\n## ")
	var text strings.Builder
	if err := d.Markdown(&text); err != nil {
		return err
	}
	own, placed := "#"+text.String(), false
	out := summaryHead
	for section := range strings.SplitSeq(rest, "\n## ") {
		if section == "" {
			continue
		}
		title, _, _ := strings.Cut(section, "\n")
		if title == d.title {
			section, placed = own, true
		} else {
			section = "## " + strings.TrimSuffix(section, "\n") + "\n"
		}
		out += "\n" + section
	}
	if !placed {
		out += "\n" + own
	}
	return os.WriteFile(file, []byte(out), 0o644)
}
