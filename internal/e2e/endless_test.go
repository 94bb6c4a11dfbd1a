//go:build unix

package e2e

import (
	"strings"
	"testing"

	"dragoman/internal/testkit"
)

// A child that writes a line without an end is replaced, as one that does nothing: at once if it writes fast, else after three
// silent calls, since what is skipped of a line is no sign of life.
func TestEndlessLineEndsAServer(t *testing.T) {
	for tool, why := range map[string]string{"endless": "stdio: a line does not end", "drips": "upstream_timeout"} {
		for _, server := range []string{"legacy", "modern"} {
			t.Run(tool+", "+server+" server", func(t *testing.T) {
				t.Parallel()
				r := startRig(t, impatient+"limits.line = \"4KiB\"\n"+fallibleToml(t, server, "/no/such/file", "health_check_timeout = \"1s\""), true)
				call := newCrashClient(r, "modern").caller(t)
				first := pidIn(call("ok"))
				if res := call(tool); !strings.Contains(res.body, why) && !(tool == "endless" && strings.Contains(res.body, "upstream_timeout")) {
					t.Errorf("%s", res.body)
				}
				testkit.Eventually(t, "another process answers", func() bool {
					pid := pidIn(call("ok"))
					return pid != 0 && pid != first
				})
				if n := r.h.Targets.Named("default").Dialer.Stats().Crashes; n != 1 {
					t.Errorf("%d crashes", n)
				}
			})
		}
	}
}
