package service

import "testing"

// Seed 000, ToolsResponse: version is semantic. It is the configured one, else the server's.
func TestVersion(t *testing.T) {
	for _, c := range [][3]string{
		{"2.0.0", "1.2.3", "2.0.0"}, {"", "1.2.3-rc.1+5", "1.2.3-rc.1+5"}, {"", "v1", "0.0.0"}, {"", "1.2", "0.0.0"}, {"", "", "0.0.0"}, {"", "1.2.3 ", "0.0.0"},
	} {
		if got := Version(c[0], c[1]); got != c[2] {
			t.Errorf("configured %q, server %q: %q, want %q", c[0], c[1], got, c[2])
		}
	}
}
