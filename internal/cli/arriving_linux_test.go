package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dragoman/internal/app"
	"dragoman/internal/testkit"
)

// On a terminal setup shows the change and asks, and dragoman alone greets.
func TestSetupOnTerminal(t *testing.T) {
	home := t.TempDir()
	environ := []string{"HOME=" + home, "XDG_CONFIG_HOME=" + filepath.Join(home, ".config"), "TERM=xterm"}
	file := filepath.Join(home, ".cursor", "mcp.json")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	testkit.PutFile(t, file, importable)
	person, tty := terminal(t)
	shown := &testkit.LockedBuffer{}
	copied := make(chan struct{})
	go func() { // ends when the terminal is closed
		defer close(copied)
		buffer := make([]byte, 4096)
		for {
			n, err := person.Read(buffer)
			_, _ = shown.Write(buffer[:n])
			if err != nil {
				return
			}
		}
	}()
	run := func(args ...string) (code int, errs string) {
		stderr := &testkit.LockedBuffer{}
		code = Execute(t.Context(), args, environ, app.Streams{In: tty, Out: tty, Err: stderr}, Runners{})
		return code, stderr.String()
	}
	for _, c := range []struct {
		answer string
		code   int
	}{{"n\n", ExitFailed}, {"y\n", ExitOK}} {
		if _, err := person.WriteString(c.answer); err != nil {
			t.Fatal(err)
		}
		code, errs := run("setup", "cursor", "--all-servers")
		changed := testkit.ReadText(t, file) != importable
		if code != c.code || !strings.Contains(errs, "Change it? [y/N] ") || changed != (c.code == ExitOK) {
			t.Errorf("%q: %d %s", c.answer, code, errs)
		}
	}
	if code, errs := run(); code != ExitOK {
		t.Errorf("%d %s", code, errs)
	}
	testkit.Eventually(t, "the end of the greeting", func() bool { return strings.Contains(shown.String(), "All commands: dragoman --help") })
	for _, want := range []string{"\x1b[32m+    \"dragoman\": {\x1b[0m", "Cursor   1 server and dragoman   ~/.cursor/mcp.json"} {
		if !strings.Contains(shown.String(), want) {
			t.Errorf("%q is missing in\n%s", want, shown)
		}
	}
	if _, code, out, _ := runLine(t, environ, nil); code != ExitOK || !strings.Contains(out, "Usage:") || strings.Contains(out, "What to do next") {
		t.Errorf("without a terminal: %d %s", code, out)
	}
	_ = tty.Close()
	<-copied
}
