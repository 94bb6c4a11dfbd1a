package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"dragoman/conformance/matrix"
)

const conformanceLong = `Make the document that shows every kind of client at every kind of server, feature
by feature, of what a conformance run wrote down. conformance/cells.sh runs them.

The results are lines of client, server, feature, result and note, parted by tabs,
below a header with these names. A result is ok, fail, n/a or baseline: that which
does not pass without Dragoman either, for the reason in the note. What was not run
is shown as not run. --check changes nothing and fails if the document is not what
would be written.`

const conformanceExample = `  conformance/cells.sh --results conformance/results.tsv && dragoman conformance --matrix
  dragoman conformance --matrix --results results.tsv --out -
  dragoman conformance --matrix --check`

// Where the results and the document are, seen from the root of the repository.
const (
	resultsFile = "conformance/results.tsv"
	matrixFile  = "conformance/MATRIX.md"
)

func newConformance(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:     "conformance --matrix [flags]",
		Short:   "Make the matrix document of a conformance run",
		Long:    conformanceLong,
		Example: conformanceExample,

		DisableFlagsInUseLine: true,
	}
	asked := c.Flags().Bool("matrix", false, "make the document")
	check := c.Flags().Bool("check", false, "fail if the document is not what would be written; write nothing")
	results := c.Flags().String("results", resultsFile, "`FILE` with the results, or - for standard input")
	out := c.Flags().String("out", matrixFile, "`FILE` for the document, or - for standard output")
	c.RunE = func(c *cobra.Command, args []string) error {
		switch {
		case len(args) > 0:
			return usagef("unexpected argument %q; fix: name files with --results and --out", shorten(args[0]))
		case !*asked:
			return usagef("nothing is asked for; fix: write `%s --matrix`", c.CommandPath())
		case *check && *out == "-":
			return usagef("--check compares with a file; fix: name it with --out FILE")
		}
		return failed(makeMatrix(p.std, *results, *out, *check))
	}
	return c
}

// makeMatrix reads results and writes the document, or compares it with the one that is there.
func makeMatrix(std Streams, results, out string, check bool) error {
	in := std.In
	if results != "-" {
		f, err := os.Open(results)
		if err != nil {
			return fmt.Errorf("conformance: %s cannot be read: %v; fix: run conformance/cells.sh, or name another with --results", results, reason(err))
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
	if err := os.WriteFile(out, document, 0o644); err != nil { //nolint:gosec // a document for everybody
		return fmt.Errorf("conformance: %s cannot be written: %v", out, reason(err))
	}
	_, err = fmt.Fprintf(std.Out, "%s: %s\n", out, matrix.Count(lines))
	return err
}

// errStale says that the document is another one.
var errStale = errors.New("is not what the results give; fix: run `dragoman conformance --matrix`")

func compare(w io.Writer, path string, want []byte, totals matrix.Totals) error {
	have, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("conformance: %s cannot be read: %v; fix: run `dragoman conformance --matrix`", path, reason(err))
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
