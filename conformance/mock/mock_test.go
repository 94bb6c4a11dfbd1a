package mock

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

func TestMain(m *testing.M) {
	asOther()
	goleak.VerifyTestMain(m)
}

// play runs the test's client with a fault.
func play(t *testing.T, o Options, breaks string) []*suite.Finding {
	t.Helper()
	// A program that was built to find races sleeps for a second before it ends, unless it is told not to.
	const hasty = "GORACE=atexit_sleep_ms=0"
	o.Argv = []string{"env", hasty, clientName + "=yes", breakName + "=" + breaks, os.Args[0], "{url}", "{command}"}
	o.Server = []string{"env", relayName + "=yes", os.Args[0]}
	findings, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return findings
}

func none(string, []byte, string) []suite.ShapeProblem { return nil }

// A sound client passes, and each check is judged somewhere.
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
	if want := 7 + 3*5 + 4 + 13 + 9 + 12; steps != want {
		t.Errorf("%d scenarios, want %d", steps, want)
	}
}

// Each fault of a client is caught by its check.
func TestMutants(t *testing.T) {
	modern, legacy, sse := []peer.Face{peer.ModernHTTP}, []peer.Face{peer.LegacyHTTP}, []peer.Face{peer.SSE}
	pipe, old := []peer.Face{peer.ModernStdio}, []peer.Face{peer.LegacyStdio}
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
		{"no-answer", "asked", "client.answers", legacy}, {"no-answer", "asked", "client.answers", sse}, {"id-type", "asked", "client.answers", old},
		{"knows-all", "asked", "client.refuses-unknown", legacy}, {"knows-all", "asked", "client.refuses-unknown", old},
		{"undeclared", "asked", "client.capabilities", old}, {"disowns", "asked", "client.capabilities", legacy},
		{"cancels-other", "slow", "client.cancels", old}, {"cancels-other", "slow", "client.cancels", pipe}, {"cancels-initialize", "tools_call", "client.cancels", old},
		{"goes-on", "unknown-revision", "client.unsupported-revision", legacy}, {"goes-on", "unknown-revision", "client.unsupported-revision", sse}, {"goes-on", "unknown-revision", "client.unsupported-revision", old},
		{"falls-back", "unknown-revision", "client.no-fallback", modern}, {"falls-back", "unknown-revision", "client.no-fallback", pipe},
		{"keyed", "tools_call,odd-probe", "client.falls-back", old}, {"keyed", "tools_call,silent-probe", "client.falls-back", old},
		{"empty", "tools_call", "client.lines", pipe}, {"indent", "tools_call", "client.lines", old}, {"array", "tools_call", "client.lines", old}, {"latin", "tools_call", "client.lines", old},
		{"unended", "tools_call", "client.lines", old}, {"responds", "tools_call", "client.lines", pipe}, {"responds", "tools_call", "client.no-legacy", pipe},
		{"meta", "tools_call", "client.meta", pipe}, {"initialized", "tools_call", "client.initialize-first", old}, {"ids", "tools_call", "client.ids", old},
		{"ping", "chatter", "client.ping", old}, {"ping", "streams", "client.ping", sse}, {"cursors", "pages", "client.cursors", old}, {"state", "questions", "client.retry-of-questions", pipe},
		{"stderr", "tools_call,chatter", "client.stderr", pipe}, {"no-restart", "crash", "client.restarts", pipe},
		{"kills", "tools_call", "client.closes-input", old}, {"terminates", "tools_call", "client.closes-input", pipe},
		{"abandons", "lingers", "client.ends-server", old}, {"hurries", "lingers", "client.closes-input", pipe}, {"hurries", "tools_call", "client.closes-input", old}, {"no-term", "lingers", "client.ends-server", old},
		{"streams", "streams", "client.reads-streams", sse}, {"initialized", "tools_call", "client.initialize-first", sse}, {"goes-on", "lost-stream", "client.initialize-first", sse},
		{"endpoint", "relative-endpoint", "client.sse-endpoint", sse}, {"anywhere", "foreign-endpoint", "client.sse-origin", sse}, {"no-fallback", "tools_call", "client.sse-fallback", sse},
	} {
		t.Run(x.breaks+"/"+x.check+"/"+string(x.faces[0]), func(t *testing.T) {
			revision := x.faces[0].Revisions()
			revision = revision[len(revision)-1:]
			if x.scenario == "streams" || x.scenario == "lost-stream" || strings.HasSuffix(x.scenario, "-endpoint") {
				revision = nil
			}
			played := strings.Split(x.scenario, ",")
			findings := play(t, Options{Faces: x.faces, Revisions: revision, Scenarios: played, patience: 300 * time.Millisecond, settle: 300 * time.Millisecond}, x.breaks)
			i := slices.IndexFunc(findings, func(f *suite.Finding) bool { return f.Check.ID == x.check && f.Behind == played[len(played)-1] })
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
		Shape: func(revision string, raw []byte, _ string) []suite.ShapeProblem {
			if revision != peer.R2607 || !strings.Contains(string(raw), `"tools/`) {
				return nil
			}
			return []suite.ShapeProblem{{Place: "/x", Expected: "a", Got: "b"}}
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
