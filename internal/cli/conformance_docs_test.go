package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"dragoman/internal/testkit"
)

// The documentation has a page for each check, pages of removed checks are deleted, and every check has enough text for its page.
func TestDocumentedChecks(t *testing.T) {
	made := t.TempDir()
	stale := filepath.Join(made, "gone.gone.md")
	if code, out, errs := conformanceLine(t, "--list", "--only", "request.*", "--markdown", made); code != ExitOK || out != "" || errs != "" {
		t.Fatalf("%d %s %s", code, out, errs)
	}
	if err := os.Rename(filepath.Join(made, "request.version-mismatch.md"), stale); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := conformanceLine(t, "--list", "--markdown", made+"/"); code != ExitOK || out != "" || errs != "" {
		t.Fatalf("%d %s %s", code, out, errs)
	}
	pages := filesOf(t, made)
	if pages["gone.gone.md"] != "" || len(pages) != len(allChecks())+1 {
		t.Errorf("there are %d pages for %d checks and their list; gone.gone.md has %d bytes", len(pages), len(allChecks()), len(pages["gone.gone.md"]))
	}
	seen := map[string]bool{}
	for _, c := range allChecks() {
		if !regexp.MustCompile(`^[a-z0-9-]+\.[a-z0-9-]+$`).MatchString(c.ID) || seen[c.ID] {
			t.Errorf("%q is no id, or not unique", c.ID)
		}
		seen[c.ID] = true
		if page := pages[c.ID+".md"]; !strings.HasPrefix(page, "# "+c.ID+"\n") || !strings.Contains(pages["README.md"], "("+c.ID+".md)") {
			t.Errorf("%s has no page, or is not in the list: %q", c.ID, page)
		}
		if c.Title == "" || c.Statement == "" || c.Page == "" || c.Fix == "" || c.Why == "" || len(c.Faces) == 0 || c.Level == "" {
			t.Errorf("%s lacks a part of a check's page", c.ID)
		}
		if strings.Contains(c.Title+c.Statement+c.Why+c.Fix, "\n") {
			t.Errorf("%s has a line end in a text", c.ID)
		}
	}
}

// filesOf returns the files of a directory by name.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]string)
	for _, e := range entries {
		all[e.Name()] = testkit.ReadText(t, filepath.Join(dir, e.Name()))
	}
	return all
}
