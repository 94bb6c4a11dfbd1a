package checks

import (
	"regexp"
	"strings"
	"testing"

	"dragoman/conformance/suite"
)

var anID = regexp.MustCompile(`^[a-z][a-z0-9-]*\.[a-z0-9][a-z0-9-]*$`)

// Every check has all texts for reports and its page, and an id of its own.
func TestChecksAreComplete(t *testing.T) {
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
