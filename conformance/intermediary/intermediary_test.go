package intermediary

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dragoman/conformance/checks"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCommands(t *testing.T) {
	for command, want := range map[string]string{
		"p --listen {listen} {upstream}": "modern-http legacy-http", "p --to={upstream}": "modern-http legacy-http", "p {listen} -- {command}": "modern-stdio legacy-stdio",
		"p": "", "p {upstream} {command}": "", "p --run={command}": ""} {
		kinds, err := Check(strings.Fields(command))
		var names []string
		for _, k := range kinds {
			names = append(names, k.Name)
		}
		if strings.Join(names, " ") != want || (err == nil) != (want != "") {
			t.Errorf("%s: %v, %v", command, kinds, err)
		}
	}
	if got := fill([]string{"p", "--listen={listen}", "{upstream}/x", "{command}", "{commands}"}, "a:1", "http://u", []string{"c", "d"}); strings.Join(got, " ") != "p --listen=a:1 http://u/x c d {commands}" {
		t.Error(got)
	}
	if !listens([]string{"x", "-l={listen}"}) || listens([]string{"listen"}) {
		t.Error("listens")
	}
	if got := fronts(nil, "a:1"); len(got) != 1 || got[0] != "http://a:1/mcp" {
		t.Error(got)
	}
	if got := fronts([]string{"https://{listen}/sse", "http://b/"}, "a:1"); strings.Join(got, " ") != "https://a:1/sse http://b/" {
		t.Error(got)
	}
}

func TestCompare(t *testing.T) {
	is := func(o suite.Outcome) *suite.Finding { return &suite.Finding{Outcome: o, Reason: "r"} }
	for _, x := range []struct {
		behind, alone, want suite.Outcome
	}{
		{suite.Passed, suite.Failed, suite.Passed}, {suite.Failed, suite.Passed, suite.Failed}, {suite.Failed, suite.Failed, suite.Skipped}, {suite.Warned, suite.Failed, suite.Warned},
		{suite.Skipped, suite.Passed, suite.Failed}, {suite.Skipped, suite.Skipped, suite.Skipped}, {suite.Broken, suite.Passed, suite.Broken}} {
		f := is(x.behind)
		compare(f, is(x.alone))
		if f.Outcome != x.want || f.Outcome == suite.Failed && x.behind == suite.Skipped && len(f.Problems) != 1 {
			t.Errorf("%+v: %+v", x, f)
		}
	}
	f := is(suite.Failed)
	if compare(f, nil); f.Outcome != suite.Failed {
		t.Error(f)
	}
}

func TestBeyond(t *testing.T) {
	for id, why := range beyond {
		if !slices.ContainsFunc(checks.All(), func(c *suite.Check) bool { return c.ID == id }) {
			t.Errorf("there is no check %s", id)
		}
		for _, k := range Kinds() {
			for _, face := range peer.Faces() {
				f := &suite.Finding{Check: &suite.Check{ID: id}, Face: face, Outcome: suite.Failed}
				k.excuse(f)
				if excused := f.Outcome == suite.Skipped && f.Reason == why; excused != (k.Era == "legacy" && face.Modern()) {
					t.Errorf("%s, %s behind %s: %+v", id, k.Name, face, f)
				}
			}
		}
	}
}

func built(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "dragoman")
	build := exec.Command("go", "build", "-o", file, ".")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return file
}

// Dragoman is a conforming intermediary, here for clients that start it, with servers over HTTP behind it. conformance/self.sh has the
// other combinations.
func TestDragoman(t *testing.T) {
	file := built(t)
	cells, err := Run(t.Context(), Options{Argv: []string{file, "stdio", "--log-level", "error", "{upstream}"}, Fixture: []string{file, "demo", "--log-level", "error"},
		Timeout: 10 * time.Second, Suite: suite.Options{Checks: checks.All(), Jobs: 8, Shape: suite.ServerShape}})
	if err != nil || len(cells) != 2 {
		t.Fatal(cells, err)
	}
	for _, cell := range cells {
		for _, face := range []peer.Face{peer.ModernStdio, peer.LegacyStdio} {
			if !slices.ContainsFunc(cell.Offers, func(o *suite.Offer) bool { return o.Face == face }) {
				t.Errorf("%s: no %s: %q", cell.Behind, face, cell.Tried)
			}
		}
		for _, f := range cell.Findings {
			if f.Outcome != suite.Passed && f.Outcome != suite.Skipped && f.Outcome != suite.Noted {
				t.Errorf("%s behind: %s %s %s %v", cell.Behind.Name, f.Key(), f.Outcome, f.Reason, f.Problems)
			}
		}
	}
}

// A command that cannot be started or ends is an error with its last output.
func TestNotReady(t *testing.T) {
	_, err := Run(t.Context(), Options{Argv: []string{"sh", "-c", "echo no >&2; exit 4", "{listen}", "{command}"}, Fixture: []string{"true"}})
	if err == nil || !strings.Contains(err.Error(), "a modern-stdio server behind it: sh has ended before it listened") || !strings.Contains(err.Error(), "it said last: no") {
		t.Error(err)
	}
	if _, err = Run(t.Context(), Options{Argv: []string{"/no/such", "{listen}", "{command}"}, Fixture: []string{"true"}}); err == nil || !strings.Contains(err.Error(), "/no/such") {
		t.Error(err)
	}
	if _, err = Run(t.Context(), Options{Argv: []string{os.Args[0]}}); err == nil {
		t.Error("a command without a server behind it")
	}
}
