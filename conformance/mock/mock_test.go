package mock

import (
	"os"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

func TestMain(m *testing.M) {
	asClient()
	goleak.VerifyTestMain(m)
}

// play runs the test's client; breaks is what it does wrong.
func play(t *testing.T, o Options, breaks string) []*suite.Finding {
	t.Helper()
	o.Argv = []string{"env", clientName + "=yes", breakName + "=" + breaks, os.Args[0]}
	findings, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return findings
}

func none(string, []byte) []suite.Misshape { return nil }

// A client that does all as it should passes, and each check is met somewhere.
func TestSoundClient(t *testing.T) {
	passed := make(map[string]bool)
	steps := 0
	for _, f := range play(t, Options{Shape: none, Progress: func(done, total int, _ string, _ []*suite.Finding) { steps++ }}, "") {
		switch f.Outcome {
		case suite.Passed:
			passed[f.Check.ID] = true
		case suite.Skipped:
		default:
			t.Errorf("%s in %s: %s %s %v", f.Key(), f.Behind, f.Outcome, f.Reason, f.Problems)
		}
	}
	for _, c := range Checks() {
		if !passed[c.ID] {
			t.Errorf("%s was never met", c.ID)
		}
	}
	if want := 6 + 3*5 + 2; steps != want {
		t.Errorf("%d scenarios, want %d", steps, want)
	}
}

// Each thing that a client does wrong is caught by the check that is for it.
func TestMutants(t *testing.T) {
	modern, legacy := []peer.Face{peer.ModernHTTP}, []peer.Face{peer.LegacyHTTP}
	caught := make(map[string]bool)
	for _, x := range []struct {
		breaks, scenario, check string
		faces                   []peer.Face
	}{
		{"accept", "tools_call", "client.accept", modern}, {"accept", "tools_call", "client.accept", legacy},
		{"version", "tools_call", "client.version-header", modern}, {"version", "sessions", "client.version-header", legacy},
		{"array", "tools_call", "client.one-message", modern}, {"array", "tools_call", "client.one-message", legacy},
		{"ids", "sessions", "client.ids", legacy},
		{"initialized", "sessions", "client.initialize-first", legacy},
		{"session", "sessions", "client.session", legacy},
		{"stays", "lost-session", "client.new-session", legacy},
		{"delete", "sessions", "client.delete", legacy},
		{"get-accept", "sessions", "client.get-accept", legacy},
		{"method", "tools_call", "client.method-header", modern}, {"name", "tools_call", "client.method-header", modern},
		{"meta", "tools_call", "client.meta", modern},
		{"legacy-ways", "tools_call", "client.no-legacy", modern},
		{"streams", "streams", "client.reads-streams", modern}, {"streams", "streams", "client.ends", legacy},
		{"ping", "streams", "client.ping", legacy},
		{"cursors", "pages", "client.cursors", modern},
		{"newest", "older-revision", "client.older-revision", legacy},
		{"no-wait", "sse-retry", "client.resumes", legacy}, {"no-resume", "sse-retry", "client.resumes", legacy},
		{"state", "questions", "client.retry-of-questions", modern}, {"same-id", "questions", "client.retry-of-questions", modern}, {"no-answers", "questions", "client.retry-of-questions", modern},
		{"mirrored", "mirrored-headers", "client.mirrored-headers", modern},
	} {
		t.Run(x.breaks+"/"+string(x.faces[0]), func(t *testing.T) {
			revision := x.faces[0].Revisions()
			findings := play(t, Options{Faces: x.faces, Revisions: revision[len(revision)-1:], Scenarios: []string{x.scenario}}, x.breaks)
			i := slices.IndexFunc(findings, func(f *suite.Finding) bool { return f.Check.ID == x.check })
			if i < 0 || findings[i].Outcome != findings[i].Check.Level.Failure() || len(findings[i].Evidence) == 0 {
				t.Fatalf("it was not caught: %+v", findings)
			}
			caught[x.check] = true
		})
	}
	caught["client.shape"] = true // below
	for _, c := range Checks() {
		if !caught[c.ID] {
			t.Errorf("no client that %s catches", c.ID)
		}
	}
}

func TestShapesOfClients(t *testing.T) {
	findings := play(t, Options{Faces: []peer.Face{peer.ModernHTTP}, Scenarios: []string{"tools_call"}, Wanted: func(id string) bool { return id == "client.shape" },
		Shape: func(revision string, raw []byte) []suite.Misshape {
			if revision != peer.R2607 || !strings.Contains(string(raw), `"tools/`) {
				return nil
			}
			return []suite.Misshape{{Place: "/x", Expected: "a", Got: "b"}}
		}}, "")
	if len(findings) != 1 || findings[0].Outcome != suite.Failed || len(findings[0].Problems) != 2 {
		t.Errorf("%+v", findings)
	}
}

func TestClientThatCannotBeStarted(t *testing.T) {
	if _, err := Run(t.Context(), Options{Argv: []string{"/no/such/client"}}); err == nil || !strings.Contains(err.Error(), "/no/such/client") {
		t.Error(err)
	}
	findings, err := Run(t.Context(), Options{Argv: []string{"sh", "-c", "echo bad >&2; exit 3"}, Faces: []peer.Face{peer.ModernHTTP}, Scenarios: []string{"tools_call"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		if want := map[bool]suite.Outcome{true: suite.Warned, false: suite.Skipped}[f.Check.ID == "client.ends"]; f.Outcome != want && f.Check.ID != "client.no-legacy" && f.Check.ID != "client.version-header" {
			t.Errorf("%s: %s, want %s", f.Check.ID, f.Outcome, want)
		}
	}
}
