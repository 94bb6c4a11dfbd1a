package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"dragoman/conformance/matrix"
	suitereport "dragoman/conformance/report"
	"dragoman/internal/app"
	"dragoman/internal/app/logging"
	"dragoman/internal/config/value"
)

// conformanceTell lists the checks, or explains one.
func (p *program) conformanceTell(c *cobra.Command, f *conformanceFlags, args []string) error {
	if len(args) > 0 {
		return usagef("unexpected argument %q; fix: write `%s --list` or `%s --explain ID`", value.Shorten(args[0]), c.CommandPath(), c.CommandPath())
	}
	all := allChecks()
	if f.explain != "" {
		for _, one := range all {
			if one.ID == f.explain {
				return failed(suitereport.Tell(one).Explain(p.std.Out))
			}
		}
		return unknownWord("explain", f.explain, checkIDs(all))
	}
	picked, err := f.choose(all)
	if err != nil {
		return err
	}
	catalogue := suitereport.NewCatalogue(picked.checks)
	if dir, pages := directory(f.markdown); pages {
		if err := catalogue.WritePages(dir); err != nil {
			return failed(fmt.Errorf("conformance: the pages cannot be written to %s: %v; fix: name a directory that can be written to", dir, value.Reason(err)))
		}
		if f.markdown = ""; f.json == "" {
			return nil
		}
	}
	return p.tell(f, catalogue.List, catalogue.JSON, catalogue.Markdown)
}

// directory reports whether path is a directory: it ends in a slash, or it exists as one. It returns the path without the
// slash.
func directory(path string) (string, bool) {
	if dir, ok := strings.CutSuffix(path, "/"); ok && dir != "" {
		return dir, true
	}
	about, err := os.Stat(path)
	return path, err == nil && about.IsDir()
}

// conformanceDiff compares two reports.
func (p *program) conformanceDiff(f *conformanceFlags, args []string) error {
	if len(args) != 2 {
		return usagef("--diff takes two reports, and %d are given; fix: write `dragoman conformance --diff OLD.json NEW.json`", len(args))
	}
	var both [2]*suitereport.Report
	for i, path := range args {
		in, err := os.Open(path)
		if err != nil {
			return failed(fmt.Errorf("conformance: %s cannot be read: %v; fix: write one with `dragoman conformance --json FILE`", path, value.Reason(err)))
		}
		both[i], err = suitereport.Read(in)
		_ = in.Close()
		if err != nil {
			return failed(fmt.Errorf("conformance: %s %w", path, err))
		}
	}
	d := suitereport.Compare(both[0], both[1])
	text := func(w io.Writer) error { return d.Terminal(w, logging.Colourful(w, p.environ)) }
	if err := p.tell(f, text, d.JSON, d.Markdown); err != nil {
		return err
	}
	if len(d.Failing) > 0 {
		return &exitError{code: ExitFailed}
	}
	return nil
}

// tell writes the requested JSON and Markdown; without either, the text goes to standard output.
func (p *program) tell(f *conformanceFlags, text, asJSON, asMarkdown func(io.Writer) error) error {
	if f.json != "" && f.json == f.markdown {
		return usagef("both --json and --markdown write to %s; fix: name another file", f.json)
	}
	if f.json == "" && f.markdown == "" {
		return failed(text(p.std.Out))
	}
	_, err := writeReports(p.std, reportFile{f.json, asJSON}, reportFile{f.markdown, asMarkdown})
	return err
}

// reportFile is a report to write, to standard output if path is "-". An empty path means that it is not wanted.
type reportFile struct {
	path  string
	write func(io.Writer) error
}

// writeReports writes reports. The text for people goes to the stream that it returns: standard error if a report uses
// standard output.
func writeReports(std app.Streams, files ...reportFile) (people io.Writer, err error) {
	people = std.Out
	for _, f := range files {
		switch f.path {
		case "":
			continue
		case "-":
			people = std.Err
		}
		if err := writeOut(std, f.path, f.write); err != nil {
			return nil, failed(err)
		}
	}
	return people, nil
}

// writeOut writes to a file, or to standard output for "-".
func writeOut(std app.Streams, path string, write func(io.Writer) error) error {
	if path == "-" {
		return write(std.Out)
	}
	out, err := os.Create(path)
	if err == nil {
		err = write(out)
		if closed := out.Close(); err == nil {
			err = closed
		}
	}
	if err != nil {
		return fmt.Errorf("%s cannot be written: %v; fix: name a file in a directory that there is", path, value.Reason(err))
	}
	return nil
}

// Default paths of the results and the document, relative to the repository's root.
const (
	resultsFile = "conformance/results.tsv"
	matrixFile  = "conformance/MATRIX.md"
)

// makeMatrix reads results and writes the document, or with check compares it with the existing one.
func makeMatrix(std app.Streams, results, out string, check bool) error {
	in := std.In
	if results != "-" {
		f, err := os.Open(results)
		if err != nil {
			return fmt.Errorf("conformance: %s cannot be read: %v; fix: run conformance/cells.sh, or name another with --results", results, value.Reason(err))
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	lines, err := matrix.Read(in)
	if err != nil {
		return fmt.Errorf("conformance: %s: %w", results, err)
	}
	document := matrix.Render(lines)
	switch {
	case check:
		return compare(std.Out, out, document, matrix.Count(lines))
	case out == "-":
		_, err = std.Out.Write(document)
		return err
	}
	if err := os.WriteFile(out, document, 0o644); err != nil { //nolint:gosec // a public document
		return fmt.Errorf("conformance: %s cannot be written: %v", out, value.Reason(err))
	}
	_, err = fmt.Fprintf(std.Out, "%s: %s\n", out, matrix.Count(lines))
	return err
}

// errStale reports that the existing document is out of date.
var errStale = errors.New("is not what the results give; fix: run `dragoman conformance --matrix`")

func compare(w io.Writer, path string, want []byte, totals matrix.Totals) error {
	have, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("conformance: %s cannot be read: %v; fix: run `dragoman conformance --matrix`", path, value.Reason(err))
	}
	if bytes.Equal(have, want) {
		_, err = fmt.Fprintf(w, "%s: %s\n", path, totals)
		return err
	}
	h, l := bytes.Split(have, []byte("\n")), bytes.Split(want, []byte("\n"))
	at := 0
	for at < len(h) && at < len(l) && bytes.Equal(h[at], l[at]) {
		at++
	}
	return fmt.Errorf("conformance: %s:%d: the document %w", path, at+1, errStale)
}
