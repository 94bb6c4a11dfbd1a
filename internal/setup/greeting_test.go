package setup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dragoman/internal/imported/clients"
)

// The greeting names the clients that are there, how many servers each has, and commands that fit them.
func TestGreeting(t *testing.T) {
	s := home(t)
	text := Greeting(s.Machine, "dragoman")
	for _, want := range []string{
		"Claude Desktop   4 servers   ~/.config/Claude/claude_desktop_config.json\n", "Codex            3 servers   ~/.codex/config.toml\n",
		"dragoman setup claude-desktop --all-servers\n", "dragoman serve --import ~/.config/Claude/claude_desktop_config.json\n", "dragoman probe ", "dragoman --help",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if n := strings.Count(text, "\n  dragoman "); n != 3 {
		t.Errorf("%d things to do next:\n%s", n, text)
	}
	for _, at := range s.Machine.Installed() {
		if err := mustPlan(t, s, at).Apply(nil); err != nil {
			t.Fatal(err)
		}
	}
	if text := Greeting(s.Machine, "dragoman"); !strings.Contains(text, "Claude Desktop   0 servers and dragoman") {
		t.Errorf("after a setup:\n%s", text)
	}
	empty := &clients.Machine{System: "linux", Home: t.TempDir()}
	if text := Greeting(empty, "dragoman"); strings.Contains(text, "Found") || !strings.Contains(text, "dragoman serve -- npx") {
		t.Errorf("without clients:\n%s", text)
	}
	if err := os.MkdirAll(filepath.Join(empty.Home, ".cursor"), 0o700); err != nil {
		t.Fatal(err)
	}
	if text := Greeting(empty, "dragoman"); !strings.Contains(text, "Cursor   no servers yet") || !strings.Contains(text, "dragoman setup CLIENT") {
		t.Errorf("with a client without servers:\n%s", text)
	}
	if got := quoted("~/Library/Application Support/it's"); got != `~/'Library/Application Support/it'\''s'` {
		t.Error(got)
	}
}
