package cli

import (
	"bufio"
	"bytes"
	"os"
	"runtime"
	"strings"
	"testing"

	"dragoman/internal/testkit"
)

// silentServer is a server that answers server/discover as a legacy one, unless it is called with an argument, and nothing else.
const silentServer = `while read -r line; do
  case $line in *server/discover*) [ "$1" ] || printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' \
    "$(printf %s "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')" ;; esac
done`

// The step at which a server hangs is shown while it hangs, on stderr only.
func TestProbeShowsSteps(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the server is a shell script")
	}
	t.Parallel()
	for name, c := range map[string]struct {
		args  []string
		steps []string
	}{
		"at initialize":      {nil, []string{": server/discover", ": initialize"}},
		"at server/discover": {[]string{"silent"}, []string{": server/discover", ": initialize"}}, // which is asked of a second process
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := testkit.Self(t, "main", append([]string{"probe", "--json", "--timeout", "10m", "--", "sh", "-c", silentServer, "sh"}, c.args...)...)
			var stdout bytes.Buffer
			cmd.Stdout = &stdout
			stderr, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(stderr)
			for _, step := range c.steps {
				if !lines.Scan() || lines.Text() != "asking sh"+step {
					t.Errorf("%q, want the step %q", lines.Text(), step)
				}
			}
			if err := cmd.Process.Signal(os.Interrupt); err != nil { // it still works
				t.Fatal(err)
			}
			var rest strings.Builder
			for lines.Scan() {
				rest.WriteString(lines.Text())
			}
			if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != 1 || !strings.Contains(rest.String(), "interrupted") || stdout.Len() > 0 {
				t.Errorf("%v, %q, stdout %q", err, rest.String(), stdout.String())
			}
		})
	}
}
