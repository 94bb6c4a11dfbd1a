//go:build unix

package e2e

import (
	"strings"
	"testing"

	"dragoman/internal/testkit"
)

// What a child that crashes at each start writes each time is logged once, and then counted.
func TestStderrOfRepeatedStartsIsCounted(t *testing.T) {
	const child = `echo 'cannot read config.yaml' >&2; echo "started as $$" >&2; exit 3`
	r := startRig(t, "[upstreams.default]\ncommand = [\"sh\", \"-c\", '''"+child+"''']\nera = \"legacy\"\ncrash_limit = 6\n", false)
	testkit.Eventually(t, "the circuit opens", func() bool {
		r.must("POST", "/mcp", modernCall("1", "a", ""), modernHeaders("tools/call", "a")...)
		return strings.Contains(r.logs.String(), `"the circuit of the server's starts has changed"`)
	})
	starts := strings.Count(r.logs.String(), "started as ")
	if starts < 3 {
		t.Fatalf("%d starts: %s", starts, r.logs)
	}
	if n := strings.Count(r.logs.String(), `"stderr":"cannot read config.yaml"`); n != 1 {
		t.Errorf("of %d starts %d lines are the same: %s", starts, n, r.logs)
	}
	mentions(t, r.logs.String(), `"repeated":1`) // at the line that differs
}
