package official

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-json"
	"go.uber.org/goleak"

	"dragoman/conformance/suite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The version is the one that the repository's own runs are pinned to.
func TestVersion(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "package.json"))
	if err != nil {
		t.Fatal(err)
	}
	var p struct{ Dependencies map[string]string }
	if err := json.Unmarshal(raw, &p); err != nil || p.Dependencies["@modelcontextprotocol/conformance"] != Version {
		t.Errorf("package.json has %q, %v", p.Dependencies, err)
	}
}

// results returns a directory with results of the suite.
func results(t *testing.T, scenarios map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range scenarios {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(at, 0o700); err != nil {
			t.Fatal(err)
		}
		if text == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(at, "checks.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestRead(t *testing.T) {
	dir := results(t, map[string]string{
		"server-tools-list-2026-11-22T10-11-12-131Z": `[{"id":"a","name":"A","description":"says a","status":"SUCCESS","specReferences":[{"id":"MCP-Tools","url":"https://spec.example/tools"}]},
			{"id":"a","status":"FAILURE","description":"says a","errorMessage":"it said b"},{"id":"i","status":"INFO"},{"id":"w","status":"WARNING"},{"id":"s","status":"SKIPPED","errorMessage":"no such tool"}]`,
		"server-left-2026-11-22T10-11-12-131Z": "", "server-zero-2026-11-22T10-11-12-131Z": `[{"id":"i","status":"INFO"}]`, "other": `nonsense`})
	found, err := Read(dir, "2026-07-28", []string{"=== Running scenario: tools-list ===", "=== Running scenario: left ===", "Failed to run scenario left: Error: connect"})
	if err != nil || len(found) != 5 {
		t.Fatal(found, err)
	}
	for i, want := range []struct {
		key     string
		outcome suite.Outcome
		text    string
	}{{"official.left:scenario@modern-http@2026-07-28", suite.Broken, "Failed to run scenario left: Error: connect"}, {"official.tools-list:a@modern-http@2026-07-28", suite.Failed, "it said b"},
		{"official.tools-list:s@modern-http@2026-07-28", suite.Skipped, "no such tool"}, {"official.tools-list:w@modern-http@2026-07-28", suite.Warned, ""},
		{"official.zero:scenario@modern-http@2026-07-28", suite.Skipped, "the scenario judged nothing"}} {
		f := found[i]
		text := f.Reason
		for _, p := range f.Problems {
			text += p.Got
		}
		if f.Key() != want.key || f.Outcome != want.outcome || text != want.text {
			t.Errorf("%s %s %q, want %v", f.Key(), f.Outcome, text, want)
		}
	}
	if found[1].Check.Page != "MCP-Tools https://spec.example/tools" || found[1].Check.Statement != "says a" {
		t.Errorf("%+v", found[1].Check)
	}
	if _, err := Read(results(t, map[string]string{"server-x-2026-11-22T10-11-12-131Z": "["}), "2025-11-25", nil); err == nil || !strings.Contains(err.Error(), "scenario x") {
		t.Error(err)
	}
}

// A suite that cannot be started, runs nothing or does not end is an error that says so. `make test` runs the suite itself.
func TestSuiteThatDoesNotRun(t *testing.T) {
	for want, command := range map[string][]string{"needs Node.js": {"/no/such/npx"}, "ran nothing; it said last: no network": {"sh", "-c", "echo no network >&2; exit 1"}, "did not end in time": {"sh", "-c", "exec sleep 60"}} {
		o := Options{URL: "http://localhost:1/mcp", Revision: "2026-07-28", Command: command}
		if want == "did not end in time" {
			o.Timeout = 50 * time.Millisecond
		}
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
