package testkit

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// Run runs a package's tests in the root of the repository, so that they name files as a reader does, and ends the process. What Dragoman
// keeps over a restart goes to a directory of the tests. Goroutines that the tests leave behind are a failure.
func Run(m *testing.M) {
	if err := toRoot(); err != nil {
		fmt.Fprintln(os.Stderr, "testkit:", err)
		os.Exit(1)
	}
	state, err := os.MkdirTemp("", "dragoman-state-")
	if err == nil {
		err = os.Setenv("XDG_STATE_HOME", state)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testkit:", err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(state)
	if code == 0 {
		// fasthttp's clock for Date headers is one for the process, and nobody can end it.
		if err := goleak.Find(goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// toRoot makes the root of the repository the working directory.
func toRoot() error {
	dir, err := root()
	if err != nil {
		return err
	}
	return os.Chdir(dir)
}

// root returns the nearest directory above that holds go.mod.
func root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s: no go.mod above the working directory", dir)
		}
		dir = filepath.Dir(dir)
	}
}
