package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite testdata/MATRIX.md")

// The document of a small run equals the golden file.
func TestRender(t *testing.T) {
	f, err := os.Open("testdata/results.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	results, err := Read(f)
	if err != nil {
		t.Fatal(err)
	}
	got := Render(results)
	if *update {
		if err := os.WriteFile("testdata/MATRIX.md", got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/MATRIX.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("got\n%s\nwant (go test -update rewrites it)\n%s", got, want)
	}
}

// A cell never shows an outcome of a feature that was not run.
func TestCell(t *testing.T) {
	f := func(outcomes string, features int, want string) {
		t.Helper()
		var of []Result
		for _, o := range strings.Fields(outcomes) {
			of = append(of, Result{Outcome: Outcome(o)})
		}
		if got := cell(of, features); got != want {
			t.Errorf("%s of %d: %s, want %s", outcomes, features, got, want)
		}
	}
	f("", 0, "·")
	f("", 3, "·")
	f("ok", 1, "✓ 1")
	f("ok ok n/a", 3, "✓ 2")
	f("ok", 3, "✓ 1, · 2")
	f("n/a n/a", 2, "–")
	f("n/a", 2, "–, · 1")
	f("ok fail", 2, "**✗ 1** of 2")
	f("ok fail baseline n/a", 5, "**✗ 1** of 3, b 1, · 1")
	f("baseline", 1, "b 1")
	f("ok baseline", 2, "✓ 1, b 1")
}

func TestRead(t *testing.T) {
	f := func(file, want string) {
		t.Helper()
		results, err := Read(strings.NewReader(file))
		got := Count(results).String()
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %s, want %s", file, got, want)
		}
	}
	h := Header + "\n"
	f(h, "0 ok, 0 fail, 0 not applicable")
	f(h+"a\tb\tc\tok\t\n", "1 ok, 0 fail, 0 not applicable")
	f(h+"a\tb\tc\tok\tx y\r\na\tb\td\tfail\t\na\tc\tc\tn/a\t\na\te\tc\tbaseline\twhy", "1 ok, 1 fail, 1 not applicable, 1 in the baseline")
	f("", `line 1: the header "client\tserver\tfeature\tresult\tnote" is missing`)
	f("a\tb\tc\tok\t\n", `line 1: the header is "a\tb\tc\tok\t", not "client\tserver\tfeature\tresult\tnote"`)
	f(h+"a\tb\tc\tok\n", "line 2: 4 columns, want 5 parted by tabs (client, server, feature, result, note)")
	f(h+"a\tb\tc\tok\t\n\n", "line 3: 1 columns, want 5 parted by tabs (client, server, feature, result, note)")
	f(h+"a\t \tc\tok\t\n", "line 2, column server: is empty")
	f(h+"a\tb\tc\tOK\t\n", `line 2, column result: "OK" is none of ok, fail, n/a, baseline`)
	f(h+"a\tb\tc\t\t\n", `line 2, column result: "" is none of ok, fail, n/a, baseline`)
	f(h+"a\tb\tc\tbaseline\t \n", "line 2, column note: is empty; a baseline says why")
	f(h+"a\tb\tc\tok\t\x00\n", `line 2, column note: "\x00" holds what is no text`)
	f(h+"a\tb\tc\xff\tok\t\n", `line 2, column feature: "c\xff" holds what is no text`)
	f(h+"a\tb\tc\tok\t\na\tb\td\tok\t\na\tb\tc\tfail\t\n", "line 4, column feature: c of a at b stands on line 2 already")
	f(h+strings.Repeat("x", maxLine+1), "line 2: longer than 65536 bytes")
}

func TestNothingRun(t *testing.T) {
	if got := string(Render(nil)); !strings.HasSuffix(got, "\nNothing was run.\n") || strings.Contains(got, "ok") {
		t.Error(got)
	}
}

// Reading ends for any file, and its results can be rendered.
func FuzzRead(f *testing.F) {
	f.Add(Header + "\na\tb\tc/d\tok\t|\n")
	f.Add(Header + "\r\n")
	f.Fuzz(func(t *testing.T, file string) {
		results, err := Read(strings.NewReader(file))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "line ") {
				t.Errorf("%v names no line", err)
			}
			return
		}
		if got := string(Render(results)); strings.ContainsAny(got, "\x00\x1b") {
			t.Errorf("%q", got)
		}
	})
}

// The command: what it writes, where, and what it says when it cannot.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	results, out := filepath.Join(dir, "results.tsv"), filepath.Join(dir, "MATRIX.md")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(results, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := func(want string, args ...string) string {
		t.Helper()
		var stdout strings.Builder
		said := ""
		if err := run(args, strings.NewReader(Header+"\n"), &stdout); err != nil {
			said = "error: " + err.Error()
		}
		if got := said + stdout.String(); !strings.Contains(got, want) {
			t.Errorf("%q: %s\nwant %s", args, got, want)
		}
		return stdout.String()
	}
	files := []string{"-results", results, "-out", out}
	f("error: unexpected argument", "x")
	f("error: -check compares with a file", "-check", "-out", "-")
	f("results.tsv: no such file or directory; fix: run conformance/cells.sh", files...)
	write("client\tserver\tfeature\tresult\tnote\na\tb\tc\tgreen\t\n")
	f(`results.tsv: line 2, column result: "green" is none of ok, fail, n/a, baseline`, files...)
	if _, err := os.Stat(out); err == nil {
		t.Error("a document of results that cannot be read")
	}
	write("client\tserver\tfeature\tresult\tnote\na\tb\tc\tok\t\na\td\tc\tfail\tlate\n")
	f("error: open", append(files, "-check")...)
	f("MATRIX.md: 1 ok, 1 fail, 0 not applicable", files...)
	f("MATRIX.md: 1 ok, 1 fail, 0 not applicable", append(files, "-check")...)
	document, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if stdout := f("| **a** | ✓ 1 | **✗ 1** of 1 |", "-results", results, "-out", "-"); stdout != string(document) {
		t.Errorf("standard output differs from the file:\n%s", stdout)
	}
	if err := os.WriteFile(out, bytes.Replace(document, []byte("**✗ 1** of 1"), []byte("✓ 1"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	f("MATRIX.md:21: the document is not what the results give", append(files, "-check")...)
	if after, _ := os.ReadFile(out); !bytes.Contains(after, []byte("| **a** | ✓ 1 | ✓ 1 |")) {
		t.Error("-check wrote")
	}
	f("Nothing was run.", "-results", "-", "-out", "-")
}
