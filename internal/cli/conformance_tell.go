package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
			return failed(fmt.Errorf("conformance: %s cannot be read: %v; fix: write one with `dragoman conformance --json=FILE`", path, value.Reason(err)))
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

// jsonReport adds --json[=FILE]. Without a FILE it means what it means for every command: JSON on standard output.
func jsonReport(flags *pflag.FlagSet, path *string) {
	flags.VarPF(optionalFile{path}, "json", "", "the report as JSON: on standard output, or `[=FILE]`").NoOptDefVal = "true"
}

// misplacedFile returns an error if the file of --json stands apart from it, where it would be taken for a URL.
func misplacedFile(path string, args []string) error {
	if len(args) > 0 && path == "-" && strings.HasSuffix(args[0], ".json") {
		return usagef("%s is no URL, and --json takes its file behind a =; fix: write --json=%s", mistaken(args[0]), value.Shorten(args[0]))
	}
	return nil
}

// optionalFile is a flag whose value may be left out. pflag's help shows no default for a bool.
type optionalFile struct{ path *string }

func (f optionalFile) String() string { return "" }
func (f optionalFile) Type() string   { return "bool" }

func (f optionalFile) Set(text string) error {
	*f.path = text
	if text == "true" {
		*f.path = "-"
	}
	return nil
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
