package cli

import (
	"strings"
	"testing"
)

func TestStartsChild(t *testing.T) {
	for line, want := range map[string]bool{
		"serve -- npx server": true, "serve --listen :80 -- npx": true, "stdio -- npx": true, "probe -- npx": true,
		"": false, "serve https://example.com/mcp": false, "conformance -- npx": false, "-- serve": false,
	} {
		if got := startsChild(strings.Fields(line)); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
}
