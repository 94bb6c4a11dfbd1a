package checks

import (
	"regexp"
	"strings"
	"testing"

	"dragoman/conformance/suite"
)

var anID = regexp.MustCompile(`^[a-z][a-z0-9-]*\.[a-z0-9][a-z0-9-]*$`)

// A check is data: what a report and its page of documentation are made of must be there, and be told once.
func TestChecksAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range All() {
		if !anID.MatchString(c.ID) || seen[c.ID] {
			t.Errorf("%q is no id of its own", c.ID)
		}
		seen[c.ID] = true
		if c.Run == nil && c.ID != suite.Shapes().ID {
			t.Errorf("%s does nothing", c.ID)
		}
		if c.Level != suite.Must && c.Level != suite.Should && c.Level != suite.May || len(c.Faces) == 0 {
			t.Errorf("%s has the level %q and %d faces", c.ID, c.Level, len(c.Faces))
		}
		for what, text := range map[string]string{"title": c.Title, "page": c.Page, "statement": c.Statement, "why": c.Why, "fix": c.Fix} {
			if text == "" || strings.TrimSpace(text) != text || strings.HasSuffix(text, "§") {
				t.Errorf("%s: its %s is %q", c.ID, what, text)
			}
		}
	}
}
