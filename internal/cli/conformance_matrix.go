package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"dragoman/conformance/matrix"
	"dragoman/internal/app"
	"dragoman/internal/config/value"
)

// Where the results and the document are, seen from the root of the repository.
const (
	resultsFile = "conformance/results.tsv"
	matrixFile  = "conformance/MATRIX.md"
)

// makeMatrix reads results and writes the document, or compares it with the one that is there.
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
	if err := os.WriteFile(out, document, 0o644); err != nil { //nolint:gosec // a document for everybody
		return fmt.Errorf("conformance: %s cannot be written: %v", out, value.Reason(err))
	}
	_, err = fmt.Fprintf(std.Out, "%s: %s\n", out, matrix.Count(lines))
	return err
}

// errStale says that the document is another one.
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
