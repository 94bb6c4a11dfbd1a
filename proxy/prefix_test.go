package proxy

import (
	"strings"
	"testing"
)

// A prefix is a plain path. Nothing that a parser could take for a host, a query or the end of a line passes.
func TestValidPrefix(t *testing.T) {
	for text, want := range map[string]bool{
		"/a": true, "/a/b-c_d.e~f/0Z": true, "/...": true, "/a.b": true,
		"": false, "/": false, "a": false, "/a/": false, "//a": false, "/a//b": false, "//evil.example": false, "/.": false, "/..": false, "/a/../b": false,
		"/a?b": false, "/a#b": false, "/a b": false, "/a\r\nX: y": false, "/a%2e": false, "/a\\b": false, "/ä": false, "/a:b": false, "/@a": false, "/a\x00": false,
		"/" + strings.Repeat("a", maxPrefix-1): true, "/" + strings.Repeat("a", maxPrefix): false,
	} {
		if got := ValidPrefix(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
