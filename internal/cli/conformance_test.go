package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// dragoman conformance: what it writes, where, and what it says when it cannot.
func TestConformance(t *testing.T) {
	dir := t.TempDir()
	results, out := filepath.Join(dir, "results.tsv"), filepath.Join(dir, "MATRIX.md")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(results, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := func(code int, want string, args ...string) string {
		t.Helper()
		_, got, stdout, stderr := runLine(t, nil, nil, append([]string{"conformance"}, args...)...)
		if got != code || !strings.Contains(stdout+stderr, want) {
			t.Errorf("%q: code %d\n%s%s\nwant %d and %q", args, got, stdout, stderr, code, want)
		}
		return stdout
	}
	files := []string{"--matrix", "--results", results, "--out", out}
	f(2, "fix: write `dragoman conformance --matrix`")
	f(2, "fix: name files with", "--matrix", "x")
	f(2, "--check compares with a file", "--matrix", "--check", "--out", "-")
	f(1, "results.tsv cannot be read: no such file", files...)
	write("client\tserver\tfeature\tresult\tnote\na\tb\tc\tgreen\t\n")
	f(1, `results.tsv: matrix: line 2, column result: "green" is none of ok, fail, n/a, baseline`, files...)
	if _, err := os.Stat(out); err == nil {
		t.Error("a document of results that cannot be read")
	}
	write("client\tserver\tfeature\tresult\tnote\na\tb\tc\tok\t\na\td\tc\tfail\tlate\n")
	f(1, "MATRIX.md cannot be read: no such file", append(files, "--check")...)
	f(0, "MATRIX.md: 1 ok, 1 fail, 0 not applicable", files...)
	f(0, "MATRIX.md: 1 ok, 1 fail, 0 not applicable", append(files, "--check")...)
	document, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if stdout := f(0, "| **a** | ✓ 1 | **✗ 1** of 1 |", "--matrix", "--results", results, "--out", "-"); stdout != string(document) {
		t.Errorf("standard output differs from the file:\n%s", stdout)
	}
	if err := os.WriteFile(out, bytes.Replace(document, []byte("**✗ 1** of 1"), []byte("✓ 1"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	f(1, "MATRIX.md:21: the document is not what the results give; fix: run `dragoman conformance --matrix`", append(files, "--check")...)
	if after, _ := os.ReadFile(out); !bytes.Contains(after, []byte("| **a** | ✓ 1 | ✓ 1 |")) {
		t.Error("--check wrote")
	}
	write("")
	f(1, "line 1: the header", files...)
}
