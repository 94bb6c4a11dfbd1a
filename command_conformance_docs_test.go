package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// docs/checks is what the checks say, a page for each, and every check says enough for it.
func TestDocumentedChecks(t *testing.T) {
	made := t.TempDir()
	stale := filepath.Join(made, "gone.gone.md")
	if code, out, errs := conformanceLine(t, "--list", "--only", "request.*", "--markdown", made); code != exitOK || out != "" || errs != "" {
		t.Fatalf("%d %s %s", code, out, errs)
	}
	if err := os.Rename(filepath.Join(made, "request.version-mismatch.md"), stale); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := conformanceLine(t, "--list", "--markdown", made+"/"); code != exitOK || out != "" || errs != "" {
		t.Fatalf("%d %s %s", code, out, errs)
	}
	if pages, kept := filesOf(t, made), filesOf(t, "docs/checks"); !maps.Equal(pages, kept) || pages["gone.gone.md"] != "" || len(pages) != len(allChecks())+1 {
		t.Errorf("docs/checks is not what the checks say; look at the change with: make docs && git diff docs")
	}
	seen := map[string]bool{}
	for _, c := range allChecks() {
		if !regexp.MustCompile(`^[a-z0-9-]+\.[a-z0-9-]+$`).MatchString(c.ID) || seen[c.ID] {
			t.Errorf("%q is no id, or that of two", c.ID)
		}
		seen[c.ID] = true
		if c.Title == "" || c.Statement == "" || c.Page == "" || c.Fix == "" || c.Why == "" || len(c.Faces) == 0 || c.Level == "" {
			t.Errorf("%s does not say all that is told of a check", c.ID)
		}
		if strings.Contains(c.Title+c.Statement+c.Why+c.Fix, "\n") {
			t.Errorf("%s has the end of a line in a text", c.ID)
		}
	}
}

// filesOf are the files of a directory, by name.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for _, e := range entries {
		all[e.Name()] = readText(t, filepath.Join(dir, e.Name()))
	}
	return all
}
