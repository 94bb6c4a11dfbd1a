package rules

import "testing"

func TestBelow(t *testing.T) {
	f := func(uri, root string, want bool) {
		t.Helper()
		if got := Below(uri, root); got != want {
			t.Errorf("below(%q, %q) = %v", uri, root, got)
		}
	}
	f("file:///a", "file:///a", true)
	f("file:///a/b", "file:///a", true)
	f("file:///a/b", "file:///a/", true)
	f("file:///a#b", "file:///a", true)
	f("file:///ab", "file:///a", false)
	f("file:///a", "file:///a/b", false)
	f("", "", true)
}
