//go:build unix

package process

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"dragoman/adapters/stdio/reaper"
)

func TestProcessEnvironmentIsExact(t *testing.T) {
	t.Parallel()
	c := child("env")
	c.Env = append(c.Env, "A=1", "A=2", "EMPTY=")
	c.Dir = t.TempDir()
	p := start(t, c)
	got := slices.DeleteFunc(strings.Split(readLine(t, p), "\t"), marks)
	slices.Sort(got)
	if want := []string{"A=2", "EMPTY=", raceEnv, childKey + "=env"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	dir, err := filepath.EvalSymlinks(c.Dir)
	must(t, err)
	expect(t, p, dir)
}

func TestProcessNothingInherited(t *testing.T) {
	t.Parallel()
	p := start(t, Command{Argv: []string{"env"}, Reaper: testReaper})
	for line, err := range allLines(p) {
		if err != nil || !marks(string(line)) {
			t.Errorf("got %q, %v", line, err)
		}
	}
}

// marks reports whether a variable is the one that the reaper adds.
func marks(entry string) bool {
	return testReaper != nil && strings.HasPrefix(entry, reaper.MarkKey+"=")
}

// Runtimes expect blocking pipes: node and Python fail with EAGAIN on others.
func TestProcessPipesBlockInTheChild(t *testing.T) {
	t.Parallel()
	p := start(t, child("flags"))
	for range 3 {
		expect(t, p, "false <nil>")
	}
}

func TestStartNotFound(t *testing.T) {
	t.Parallel()
	f := func(c Command, want string) {
		t.Helper()
		_, err := Start(background(), c)
		var missing *NotFoundError
		if !errors.As(err, &missing) || !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", c.Argv, err)
		}
	}
	f(Command{}, "no command")
	f(Command{Argv: []string{""}}, "no command")
	f(Command{Argv: []string{"no-such-command-here"}}, `"no-such-command-here" not found`)
	f(Command{Argv: []string{"./no-such-file"}, Dir: t.TempDir()}, "no such file")
	f(Command{Argv: []string{"/no/such/file"}}, "no such file")
}

func TestStartErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string, mode fs.FileMode) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	f := func(c Command, cause error, hint string) {
		t.Helper()
		c.Reaper = testReaper
		_, err := Start(background(), c)
		var e *StartError
		if !errors.As(err, &e) || !errors.Is(err, cause) || !strings.Contains(err.Error(), hint) {
			t.Errorf("%q: %v", c.Argv, err)
		}
	}
	f(Command{Argv: []string{write("plain", "x", 0o600)}}, fs.ErrPermission, "cannot be run")
	f(Command{Argv: []string{write("script", "#!/no/such/interpreter\n", 0o700)}}, fs.ErrNotExist, "interpreter")
	f(Command{Argv: []string{write("text", "echo x\n", 0o700)}}, syscall.ENOEXEC, "first line")
	f(Command{Argv: []string{dir}}, syscall.EISDIR, "cannot be run")
	f(Command{Argv: []string{"sh"}, Dir: filepath.Join(dir, "none")}, fs.ErrNotExist, "working directory")
	ended, cancel := context.WithCancel(background())
	cancel()
	if _, err := Start(ended, child("echo")); err != context.Canceled {
		t.Errorf("ended context: %v", err)
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tool := filepath.Join(dir, "dragoman-test-tool")
	must(t, os.WriteFile(tool, []byte("#!/bin/sh\n"), 0o700))
	f := func(command string, env []string, in, want string) {
		t.Helper()
		if got, err := resolve(command, env, in); got != want || (err == nil) != (want != "") {
			t.Errorf("%q, %q, %q: got %q, %v", command, env, in, got, err)
		}
	}
	f("dragoman-test-tool", []string{"PATH=/none", "PATH=/nowhere:" + dir}, "", tool)
	f("dragoman-test-tool", []string{"PATH=" + dir, "PATH=/none"}, "", "")
	f("dragoman-test-tool", nil, dir, "")
	f("dragoman-test-tool", []string{"PATH=.:"}, dir, "")
	f("./dragoman-test-tool", nil, dir, tool)
	f(tool, nil, "/", tool)
	if got, err := resolve("sh", nil, ""); err != nil || !filepath.IsAbs(got) {
		t.Errorf("sh, by our own PATH: %q, %v", got, err)
	}
}

func TestFilterEnv(t *testing.T) {
	t.Parallel()
	env := []string{
		"PATH=/bin", "HOME=/h", "LC_ALL=C", "LCX=1", "XDG_RUNTIME_DIR=/r", "SECRET_TOKEN=s", "SHELL=() { :; }",
		"MY_A=1", "MY_B=2", "OTHER=3", "broken", "=C:=x",
	}
	f := func(allow []string, want ...string) {
		t.Helper()
		if got := filterEnv(env, allow); !slices.Equal(got, want) {
			t.Errorf("%q: got %q", allow, got)
		}
	}
	f(nil, "PATH=/bin", "HOME=/h", "LC_ALL=C", "XDG_RUNTIME_DIR=/r")
	f([]string{"MY_*", "OTHER"}, "PATH=/bin", "HOME=/h", "LC_ALL=C", "XDG_RUNTIME_DIR=/r", "MY_A=1", "MY_B=2", "OTHER=3")
}

func TestTailBounds(t *testing.T) {
	t.Parallel()
	var tl tail
	for range 100 {
		tl.add([]byte(strings.Repeat("ü", 400)))
	}
	lines, total := tl.lines(), 0
	for _, line := range lines {
		total += len(line)
		if len(line) > tailLine || strings.Trim(line, "ü") != "" {
			t.Errorf("%d bytes: %q", len(line), line)
		}
	}
	if total > tailTotal || len(lines) > tailLines || len(lines) < tailTotal/tailLine {
		t.Errorf("%d lines, %d bytes", len(lines), total)
	}
	for range 100 {
		tl.add([]byte("x\x07\x1b]0;title\x1b[2Ky"))
	}
	if lines = tl.lines(); len(lines) != tailLines || lines[0] != "x]0;titley" {
		t.Errorf("got %q", lines)
	}
}
