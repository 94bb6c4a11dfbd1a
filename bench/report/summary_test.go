package report

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSummarize(t *testing.T) {
	file := filepath.Join(t.TempDir(), "RESULTS.md")
	f := func(title, text, want string) {
		t.Helper()
		d := NewDocument(title)
		d.Text("%s", text)
		if err := d.Summarise(file); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != summaryHead+want {
			t.Errorf("%s\nwant\n%s", got, summaryHead+want)
		}
	}
	f("A", "one", "\n## A\n\none\n")
	f("B", "two", "\n## A\n\none\n\n## B\n\ntwo\n")
	f("A", "three", "\n## A\n\nthree\n\n## B\n\ntwo\n")
	f("B", "four", "\n## A\n\nthree\n\n## B\n\nfour\n")
}
