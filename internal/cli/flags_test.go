package cli

import (
	"fmt"
	"strings"
	"testing"

	"dragoman/internal/testkit"
)

// Flags of every command that starts a child.
func TestChildFlags(t *testing.T) {
	vars := testkit.WriteFile(t, "vars.env", "A=1\nB=2\n")
	for _, command := range []string{"serve", "stdio", "probe"} {
		rec, code, _, errs := runLine(t, []string{"OTHER=hunter2"}, nil, command, "--env-inherit", "SSH_AUTH_SOCK", "--env-inherit=AWS_*,B", "--env-file", vars,
			"--env", "B=env:OTHER", "--", "child")
		if code != 0 {
			t.Fatalf("%s: %d %s", command, code, errs)
		}
		u := rec.Cfg.Upstreams[0]
		if got := strings.Join(u.EnvInherit, " ") + "|" + strings.Join(u.Environ(), " "); got != "SSH_AUTH_SOCK AWS_* B|A=1 B=2 B=hunter2" {
			t.Errorf("%s: %s", command, got)
		}
	}
	if rec, code, _, errs := runLine(t, nil, nil, "serve", "--isolation", "pool(2)", "--", "child"); code != 0 || rec.Cfg.Upstreams[0].Isolation != "pool(2)" {
		t.Errorf("%d %s", code, errs)
	}
	if _, code, _, errs := runLine(t, nil, nil, "serve", "--env-inherit", "A=hunter2", "--", "child"); code != 2 || !strings.Contains(errs, "--env-inherit: entry 1: has a \"=\" in it") || strings.Contains(errs, "hunter2") {
		t.Errorf("%d %s", code, errs)
	}
}

// A list flag may be given once or several times.
func TestEraFlags(t *testing.T) {
	f := func(want string, args ...string) {
		t.Helper()
		rec, code, _, errs := runLine(t, nil, nil, args...)
		if code != 0 {
			t.Errorf("%q: %s", args, errs)
			return
		}
		u := rec.Cfg.Upstreams[0]
		if got := fmt.Sprintf("%v %s %s %s", rec.Cfg.Eras, rec.Cfg.ErrorStatus, u.Era, u.Tasks); got != want {
			t.Errorf("%q: %s, want %s", args, got, want)
		}
	}
	f("[modern legacy] strict auto hide", "serve", "http://a")
	f("[legacy 2026-07-28] compat modern drive", "serve", "http://a", "--eras", "legacy,2026-07-28", "--error-status", "compat", "--tasks", "drive", "--era", "modern")
	f("[modern 2025-11-25] strict auto hide", "serve", "http://a", "--eras=modern", "--eras", "2025-11-25")
	f("[legacy] strict auto drive", "stdio", "http://a", "--eras", "legacy", "--tasks", "drive")
	f("[modern legacy] strict auto drive", "probe", "http://a", "--tasks", "drive")
}
