package laws

import (
	"dragoman/internal/testkit"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The table of the policies names tests, and each of them is there.
func TestPolicyTable(t *testing.T) {
	text, err := os.ReadFile("docs/design/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "| policy | what it says | source | tests |\n")
	section, _, ends := strings.Cut(section, "\n\n")
	if !found || !ends {
		t.Fatal("docs/design/policies.md has no table of the policies")
	}
	known := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." && (d.Name()[0] == '.' || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, "_test.go") {
			for _, m := range function.FindAllStringSubmatch(testkit.ReadText(t, path), -1) {
				known[m[1]] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if strings.HasPrefix(line, "|--") {
			continue
		}
		tests := quotedTest.FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(cells) != 4 || len(tests) == 0 || strings.TrimSpace(cells[2]) == "" {
			t.Errorf("want policy, what it says, source and tests: %s", line)
		}
		for _, m := range tests {
			if !known[m[1]] {
				t.Errorf("%s: there is no %s", strings.TrimSpace(cells[0]), m[1])
			}
		}
	}
}
