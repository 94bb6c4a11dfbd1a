package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"dragoman/internal/config/value"
	"dragoman/internal/testkit"
)

// printedValue returns how a loaded configuration prints a key; empty if it does not.
func printedValue(t *testing.T, c *Config, key string) string {
	t.Helper()
	for _, p := range c.printedValues() {
		if p.Key == key {
			if p.Hidden {
				return value.Hidden
			}
			return string(p.Value)
		}
	}
	return ""
}

// The bounds of the keys of questions, resumption and eras.
func TestKeyBounds(t *testing.T) {
	f := func(key, text, want string) {
		t.Helper()
		c, err := load(t, "", nil, key+"="+text)
		switch {
		case err != nil && (want == "" || !strings.Contains(err.Error(), want)):
			t.Errorf("%s = %s: %v, want %q", key, text, err, want)
		case err == nil && want != printedValue(t, c, key):
			t.Errorf("%s = %s is %s, want %q", key, text, printedValue(t, c, key), want)
		}
	}
	f("questions.ttl", "1s", `"1s"`)
	f("questions.ttl", "30m", `"30m"`)
	f("questions.ttl", "31m", "out of range")
	f("questions.ttl", "0", "out of range")
	f("questions.max_parked", "0", "out of range")
	f("questions.max_parked", "100000", "100000")
	f("questions.max_parked_per_principal", "100001", "out of range")
	f("questions.rounds", "1", "1")
	f("questions.rounds", "100", "100")
	f("questions.rounds", "101", "write 1 to 100")
	f("questions.settle", "0", `"0s"`)
	f("questions.settle", "50ms", `"50ms"`)
	f("questions.settle", "51ms", "out of range")
	f("questions.lease_wait", "0s", `"0s"`)
	f("questions.lease_wait", "16m", "out of range")
	f("questions.state_key", "", `""`)
	f("questions.state_key", strings.Repeat("k", 32), value.Hidden)
	f("resume.events", "0", "0")
	f("resume.events", "-1", "out of range")
	f("resume.bytes", "1023", "out of range")
	f("resume.bytes", "2MiB", `"2MiB"`)
	f("resume.retry", "99ms", "out of range")
	f("resume.retry", "30s", `"30s"`)
	f("resume.hold", "0", `"0s"`)
	f("resume.hold", "50ms", "or 0 for never")
	f("resume.hold", "15m", `"15m"`)
	f("idempotency.mode", "off", `"off"`)
	f("idempotency.mode", "on", "write off, replay or reject")
	f("idempotency.window", "24h", `"24h"`)
	f("idempotency.window", "0", "out of range")
	f("idempotency.max", "0", "out of range")
	f("idempotency.max", "1000000", "1000000")
	f("idempotency.bytes", "1023", "out of range")
	f("idempotency.bytes", "1GiB", `"1GiB"`)
	f("error_status", "compat", `"compat"`)
	f("error_status", "lenient", "write strict or compat")
	f("eras", "legacy, 2026-07-28", `["legacy", "2026-07-28"]`)
	f("eras", `["modern"]`, `["modern"]`)
	f("eras", "modren", `entry 1: "modren" is not known; did you mean "modern"?; fix: write a list of modern, legacy, 2026-07-28, 2025-11-25, 2025-06-18, 2025-03-26 or 2024-11-05`)
	f("eras", "2025-06-17", `did you mean "2025-06-18"?`)
	f("eras", ",", "is empty")
}

// The state key is never shown, wherever it comes from, even if it is invalid.
func TestStateKey(t *testing.T) {
	const key = "0123456789abcdef0123456789abcdef"
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := func(text, variable, want string) {
		t.Helper()
		file := testkit.WriteFile(t, "c.toml", fmt.Sprintf("[questions]\nstate_key = %q\n", text))
		c, err := load(t, file, []string{"MY_KEY=" + variable})
		if err != nil {
			if want == "" || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s: %v, want %q", text, err, want)
			}
			return
		}
		var toml, js strings.Builder
		if err := c.PrintTOML(&toml); err != nil {
			t.Fatal(err)
		}
		if err := c.PrintJSON(&js); err != nil {
			t.Fatal(err)
		}
		if got := c.Questions.StateKey.Reveal(); got != want || strings.Contains(toml.String()+js.String(), key) || !strings.Contains(toml.String(), "# questions.state_key (set, hidden)") {
			t.Errorf("%s: %q\n%s", text, got, toml.String())
		}
	}
	f(key, "", key)
	f("env:MY_KEY", key, key)
	f("file:"+path, "", key)
	f("s3cret", "", "is 6 bytes long; at least 32 are needed (the value is not shown)")
	f("env:MY_KEY", "s3cret", "is 6 bytes long")
	f("env:NOBODY", "", `the environment variable "NOBODY" it refers to is not set`)
	f("file:key", "", "is not an absolute path")

	c, err := load(t, "", []string{"DRAGOMAN_QUESTIONS_STATE_KEY=env:MY_KEY", "MY_KEY=" + key})
	if err != nil || c.Questions.StateKey.Reveal() != key {
		t.Errorf("from the environment: %v", err)
	}
	if c, err = load(t, "", nil); err != nil || printedValue(t, c, "questions.state_key") != `""` {
		t.Errorf("unset: %v", err)
	}
}

// Keys in file, environment and flags, in their precedence.
func TestKeysInAllLayers(t *testing.T) {
	file := testkit.WriteFile(t, "c.yaml", "eras: [legacy]\nerror_status: compat\nquestions: {ttl: 2m, rounds: 3}\nresume: {events: 0, hold: 10s}\n"+
		"upstreams: {a: {url: 'http://a', eras: [2025-06-18], tasks: drive, seal_state: true, asks_on_call: true}}\n")
	c, err := load(t, file, []string{"DRAGOMAN_QUESTIONS_TTL=3m", "DRAGOMAN_RESUME_EVENTS=7", "DRAGOMAN_UPSTREAMS_A_ERAS=legacy,2026-07-28", "DRAGOMAN_UPSTREAMS_A_TASKS=hide"}, "eras=modern,2025-11-25", "error_status=strict")
	if err != nil {
		t.Fatal(err)
	}
	u := c.Upstream("a")
	if !slices.Equal(c.Eras, []string{"modern", "2025-11-25"}) || c.ErrorStatus != "strict" || c.Questions.TTL != 3*time.Minute || c.Questions.Rounds != 3 ||
		c.Resume.Events != 7 || c.Resume.Hold != 10*time.Second || !slices.Equal(u.Eras, []string{"legacy", "2026-07-28"}) || u.Tasks != "hide" || !u.SealState || !u.PushesOnCall {
		t.Errorf("%+v %+v", c, u)
	}
	if served := c.Served(); !slices.Equal(served.Versions(), []string{"2026-07-28", "2025-11-25"}) {
		t.Errorf("served: %v", served.Versions())
	}
}

// The eras of an upstream: era and eras together.
func TestUpstreamAllowed(t *testing.T) {
	f := func(keys, want string) {
		t.Helper()
		file := testkit.WriteFile(t, "c.toml", "[upstreams.a]\nurl = \"http://a\"\n"+keys)
		c, err := load(t, file, nil)
		got := strings.ReplaceAll(fmt.Sprint(err), file, "c.toml")
		if err == nil {
			got = fmt.Sprint(c.Upstream("a").Allowed().Versions())
		}
		if got != want {
			t.Errorf("%s: %s\nwant %s", keys, got, want)
		}
	}
	const all = "[2026-07-28 2025-11-25 2025-06-18 2025-03-26 2024-11-05]"
	f("", all)
	f("eras = []", all)
	f("eras = [\"modern\", \"legacy\"]", all)
	f("era = \"modern\"", "[2026-07-28]")
	f("eras = [\"2025-03-26\", \"2025-11-25\"]", "[2025-11-25 2025-03-26]")
	f("era = \"legacy\"\neras = [\"modern\", \"2025-11-25\"]", "[2025-11-25]")
	f("era = \"modern\"\neras = [\"2025-11-25\"]", "c.toml:4: upstreams.a.eras: contradicts upstreams.a.era (c.toml:3): no revision of eras is modern; fix: keep one of the two")
	f("era = \"legacy\"\neras = [\"modern\"]", "c.toml:4: upstreams.a.eras: contradicts upstreams.a.era (c.toml:3): no revision of eras is legacy; fix: keep one of the two")
	f("transport = \"sse\"\neras = [\"modern\"]", "c.toml:4: upstreams.a.eras: excludes every legacy revision, but upstreams.a.transport (c.toml:3) is sse, which is legacy; fix: change one of the two")
	f("transport = \"sse\"\nera = \"modern\"", "c.toml:4: upstreams.a.era: excludes every legacy revision, but upstreams.a.transport (c.toml:3) is sse, which is legacy; fix: change one of the two")
	f("tasks = \"maybe\"", `c.toml:3: upstreams.a.tasks: "maybe" is not known; fix: write hide or drive`)
	f("seal_state = 1", `c.toml:3: upstreams.a.seal_state: must be true or false, not 1; fix: write true or false`)
}
