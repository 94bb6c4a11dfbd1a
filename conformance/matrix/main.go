// Command matrix turns the results of a conformance run into a document: every kind of client at every kind of server,
// feature by feature. It only reads and writes text. Combinations that were not run are shown as not run.
//
//	go run ./conformance/matrix            writes conformance/MATRIX.md from conformance/results.tsv
//	go run ./conformance/matrix -check     writes nothing, and fails if the document is out of date
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
}

// run reads the results and writes the document, or with -check compares it with the existing one.
func run(args []string, stdin io.Reader, stdout io.Writer) error {
	flags := flag.NewFlagSet("matrix", flag.ContinueOnError)
	results := flags.String("results", "conformance/results.tsv", "`FILE` with the results, lines of client, server, feature, result and note; - is standard input")
	out := flags.String("out", "conformance/MATRIX.md", "`FILE` for the document; - is standard output")
	check := flags.Bool("check", false, "write nothing, and fail if the document is out of date")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q; fix: name files with -results and -out", flags.Arg(0))
	case *check && *out == "-":
		return errors.New("-check compares with a file; fix: name it with -out FILE")
	}
	in := stdin
	if *results != "-" {
		f, err := os.Open(*results)
		if err != nil {
			return fmt.Errorf("%w; fix: run conformance/cells.sh, or name another with -results", err)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	lines, err := Read(in)
	if err != nil {
		return fmt.Errorf("%s: %w", *results, err)
	}
	document := Render(lines)
	switch {
	case *check:
		if err := compare(*out, document); err != nil {
			return err
		}
	case *out == "-":
		_, err = stdout.Write(document)
		return err
	default:
		if err := os.WriteFile(*out, document, 0o644); err != nil { //nolint:gosec // a public document
			return err
		}
	}
	_, err = fmt.Fprintf(stdout, "%s: %s\n", *out, Count(lines))
	return err
}

// compare returns an error that names the first line in which the document at path differs.
func compare(path string, want []byte) error {
	have, err := os.ReadFile(path) //nolint:gosec // the file that the caller names
	if err != nil || bytes.Equal(have, want) {
		return err
	}
	h, l := bytes.Split(have, []byte("\n")), bytes.Split(want, []byte("\n"))
	at := 0
	for at < len(h) && at < len(l) && bytes.Equal(h[at], l[at]) {
		at++
	}
	return fmt.Errorf("%s:%d: the document is not what the results give; fix: run it without -check", path, at+1)
}
