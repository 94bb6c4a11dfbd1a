// Package testkit holds what the tests of several packages share: waiting with a deadline, files and addresses of a test, the test binary as
// Dragoman itself. It imports nothing of Dragoman, so that every package's tests may use it.
package testkit

import (
	"bytes"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// WriteFile writes a file of the test, which is removed at its end, and returns its path.
func WriteFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Patient is how long a test waits for what must happen.
const Patient = 10 * time.Second

// Eventually waits until cond holds, and fails the test if it does not within [Patient].
func Eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	Until(t, what, Patient, cond)
}

// Until waits until cond holds, and fails the test if it does not within limit.
func Until(t testing.TB, what string, limit time.Duration, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(limit); !cond(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("not in %v: %s", limit, what)
		}
	}
}

// Receive returns what comes from ch, and fails the test if nothing does within [Patient].
func Receive[T any](t *testing.T, what string, ch <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(Patient):
		t.Fatalf("never came: %s", what)
	}
	return v
}

// Promptly fails the test unless an event comes within 100 ms in one of three tries: a busy machine may delay the others. A try returns how long the
// event took, and fails the test if none comes.
func Promptly(t testing.TB, what string, try func() time.Duration) {
	t.Helper()
	const soon = 100 * time.Millisecond
	best := time.Duration(math.MaxInt64)
	for range 3 {
		if best = min(best, try()); best <= soon {
			return
		}
	}
	t.Errorf("%s took %v at best", what, best)
}

// LockedBuffer is a buffer that is safe for concurrent use.
type LockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *LockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *LockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// ReadText returns the content of a file.
func ReadText(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// PutFile writes a file, and makes the directories above it.
func PutFile(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// AsDragoman is the variable that makes a test binary run as Dragoman: with "main" as it is, with "wait" with a serve
// that ends only after a signal.
const AsDragoman = "TEST_BINARY_AS_DRAGOMAN"

// Executable returns the path of the test binary.
func Executable(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self
}

// Self returns a command that runs the test binary as the program itself, in a mode of [AsDragoman].
func Self(t *testing.T, mode string, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), Executable(t), args...)                //nolint:gosec // G204: the test binary itself
	c.Env = append(c.Environ(), AsDragoman+"="+mode, "GORACE=atexit_sleep_ms=0") // the race detector sleeps a second else
	return c
}
