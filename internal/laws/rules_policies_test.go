package laws

import (
	"os"
	"strings"
	"testing"
)

// The tests that the table of policies names exist.
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
	known := testNames(t)
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
