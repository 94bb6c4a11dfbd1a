package era

import (
	"fmt"
	"strings"
	"testing"

	"dragoman/adapters/era/probe"
	"dragoman/adapters/era/sessions"
	"dragoman/adapters/rules"
)

// Each row of the table is reported for the clients concerned only.
func TestDegrades(t *testing.T) {
	f := func(what string, v *probe.Profile, s Setting, want ...string) {
		t.Helper()
		var got []string
		for _, d := range Degrades(v, s) {
			if d.What == "" {
				t.Errorf("%s: %+v says nothing", what, d)
			}
			got = append(got, d.Clients+": "+d.Feature)
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	caps := func(c string) []byte { return fmt.Appendf(nil, `{"capabilities":%s}`, c) }
	only := func(list ...string) rules.Allowed { a, _ := rules.Allow(list); return a }
	legacy := func(c string) *probe.Profile { return &probe.Profile{Legacy: true, Init: caps(c)} }
	modern := func(c string) *probe.Profile { return &probe.Profile{Modern: true, Discover: caps(c)} }
	bare := []string{"modern: lists", "modern: questions", "modern: url elicitation", "modern: errors"}

	f("legacy, bare", legacy(`{}`), Setting{}, bare...)
	f("legacy, all", legacy(`{"tasks":{},"logging":{}}`), Setting{}, "modern: lists", "modern: questions", "modern: url elicitation", "modern: tasks", "modern: logs", "modern: errors")
	f("legacy for legacy clients", legacy(`{"tasks":{},"logging":{}}`), Setting{Clients: only("legacy")})
	f("SSE for legacy clients", &probe.Profile{Legacy: true, SSE: true, Init: caps(`{}`)}, Setting{Clients: only("legacy")}, "all: resumption")
	f("shared", legacy(`{"tasks":{},"logging":{}}`), Setting{Isolation: sessions.Isolation{Sharing: sessions.Shared}}, "modern: lists", "modern: tasks", "modern: logs", "modern: errors",
		"all: isolation", "all: questions", "all: tasks", "all: logs")
	f("dual", &probe.Profile{Modern: true, Legacy: true, Discover: caps(`{"tools":{},"logging":{}}`)}, Setting{})
	f("dual SSE", &probe.Profile{Modern: true, Legacy: true, SSE: true, Discover: caps(`{}`)}, Setting{})
	f("modern for modern clients", modern(`{"tools":{}}`), Setting{Clients: only("modern")})
	f("modern child for modern clients", modern(`{"logging":{}}`), Setting{Stdio: true, Clients: only("modern")}, "all: logs")
	f("modern for the newest legacy clients", modern(`{"tools":{"listChanged":true},"extensions":{"io.modelcontextprotocol/tasks":{}}}`), Setting{Clients: only("2025-11-25")},
		"legacy: structured results", "legacy: progress", "legacy: change notices", "legacy: tasks", "legacy: cache hints")
	f("modern for 2025-06-18", modern(`{}`), Setting{Clients: only("2025-06-18")},
		"legacy before 2025-11-25: url elicitation", "legacy before 2025-11-25: form elicitation", "legacy before 2025-11-25: sampling", "legacy: progress", "legacy: cache hints")
	f("modern for all", modern(`{"tools":{}}`), Setting{}, "legacy: structured results", "legacy before 2025-06-18: structured results", "legacy before 2025-03-26: content",
		"legacy before 2025-11-25: url elicitation", "legacy before 2025-11-25: form elicitation", "legacy before 2025-06-18: elicitation", "legacy before 2025-11-25: sampling",
		"legacy: progress", "legacy: cache hints")
	f("a modern server that said nothing", &probe.Profile{Modern: true}, Setting{Clients: only("2025-11-25"), DriveTasks: true}, "legacy: structured results", "legacy: progress", "legacy: change notices", "legacy: tasks", "legacy: cache hints")
}

// A setting changes the text, not whether the loss is reported.
func TestDegradesWords(t *testing.T) {
	f := func(s Setting, feature, want string) {
		t.Helper()
		v := &probe.Profile{Legacy: true, Init: []byte(`{"capabilities":{"tasks":{}}}`)}
		for _, d := range Degrades(v, s) {
			if d.Feature == feature {
				if !strings.Contains(d.What, want) {
					t.Errorf("%+v: %s, want %q", s, d.What, want)
				}
				return
			}
		}
		t.Errorf("%+v: nothing of %s", s, feature)
	}
	f(Setting{}, "questions", "a session with the server to itself")
	f(Setting{Stdio: true}, "questions", "a process to itself")
	f(Setting{AsksOnCall: true}, "questions", "under keys made here")
	f(Setting{}, "tasks", "hidden")
	f(Setting{DriveTasks: true}, "tasks", "run to their end")
}
