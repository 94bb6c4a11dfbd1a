//go:build unix

package app

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"dragoman/internal/config"
	"dragoman/internal/testkit"
)

// The environment that a client sets for `dragoman stdio -- COMMAND` is COMMAND's, without Dragoman's own variables. A command of
// a file gets none of it, and the log says so by name.
func TestClientEnvironment(t *testing.T) {
	t.Setenv("MY_API_KEY", "the-value-of-the-key")
	t.Setenv("DRAGOMAN_UPSTREAMS_OTHER_HEADERS", "own-secret")
	dir := t.TempDir()
	run := func(name string, opt config.LoadOptions) (env, log string) {
		t.Helper()
		cfg, err := config.LoadConfig(opt)
		if err != nil {
			t.Fatal(err)
		}
		in, close := io.Pipe()
		errs := &testkit.LockedBuffer{}
		done := make(chan error, 1)
		go func() { done <- RunStdio(t.Context(), cfg, Streams{In: in, Out: io.Discard, Err: errs}) }()
		file := filepath.Join(dir, name)
		testkit.Eventually(t, "the child has written its environment", func() bool {
			raw, err := os.ReadFile(file)
			env = string(raw)
			return err == nil && strings.Contains(env, "THE_END=1")
		})
		_ = close.Close()
		testkit.Receive(t, "the end", done)
		return env, errs.String()
	}
	command := func(name string) []string {
		return []string{"sh", "-c", "env > " + filepath.Join(dir, name) + ".new; echo THE_END=1 >> " + filepath.Join(dir, name) + ".new; mv " + filepath.Join(dir, name) + ".new " + filepath.Join(dir, name) + "; cat"}
	}
	flag := func(path string, values ...string) config.Assignment {
		return config.Assignment{Path: []string{path}, Value: values, List: true, Name: path}
	}
	env, _ := run("flag", config.LoadOptions{UpstreamFlags: []config.Assignment{flag("command", command("flag")...)}})
	if !strings.Contains(env, "MY_API_KEY=the-value-of-the-key\n") || strings.Contains(env, "own-secret") {
		t.Errorf("a command of the command line gets %s", env)
	}
	env, _ = run("chosen", config.LoadOptions{UpstreamFlags: []config.Assignment{flag("command", command("chosen")...), flag("env_inherit", "NOTHING")}})
	if strings.Contains(env, "MY_API_KEY") {
		t.Error("env_inherit does not decide")
	}
	text := "[upstreams.a]\ncommand = [\"sh\", \"-c\", '" + command("file")[2] + "']\n"
	env, log := run("file", config.LoadOptions{File: testkit.WriteFile(t, "c.toml", text)})
	if strings.Contains(env, "MY_API_KEY") || !strings.Contains(log, "MY_API_KEY") || !strings.Contains(log, "env_inherit") ||
		strings.Contains(log, "the-value-of-the-key") || strings.Contains(log, "DRAGOMAN_UPSTREAMS_OTHER") {
		t.Errorf("a command of a file gets %s\nlog: %s", env, log)
	}
}

// A server that is no process has no environment.
func TestClientEnvironmentOfAddress(t *testing.T) {
	var log bytes.Buffer
	up := &config.Upstream{Name: "a", URL: "http://127.0.0.1:1"}
	if got := withClientEnv(&config.Config{}, up, []string{"A=b"}, zerolog.New(&log)); got != up || log.Len() > 0 {
		t.Errorf("%+v %s", got, log.String())
	}
}
