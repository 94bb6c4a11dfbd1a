package process

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"dragoman/proxy/redact"
)

const (
	stderrLine = 8 << 10 // longest stderr line, in bytes, that is passed on
	tailLines  = 20      // lines that an ExitError shows,
	tailLine   = 512     // bytes of each,
	tailTotal  = 4 << 10 // and bytes in all
)

// ExitError describes how a child ended. A clean exit is code 0 and no signal.
type ExitError struct {
	Command    string        // as configured, without the arguments, which may hold secrets
	Code       int           // exit code; -1 if a signal ended it
	Signal     string        // the signal's name, SIGKILL for instance; empty if it exited by itself
	StderrTail []string      // last lines on stderr, at most 20 of 512 bytes, 4 KiB in all; printable UTF-8 without Command.Secrets
	Uptime     time.Duration // from start to exit
	Stopped    bool          // Stop was called before the exit
	Lost       bool          // the reaper process ended, and the child with it in an unknown way
}

// Error returns the command, how it ended, and its last line on stderr.
func (e *ExitError) Error() string {
	how := fmt.Sprintf("exited with code %d", e.Code)
	if e.Signal != "" {
		how = "was ended by " + e.Signal
	}
	if e.Lost {
		how = "was ended because its reaper process is gone,"
	}
	s := fmt.Sprintf("stdio: server %q %s after %s", e.Command, how, e.Uptime.Round(time.Millisecond))
	if n := len(e.StderrTail); n > 0 {
		s += "; last on stderr: " + e.StderrTail[n-1]
	}
	return s
}

// NotFoundError reports that there is no such command.
type NotFoundError struct {
	Command string // as configured
	Hint    string // what fixes it
}

// Error returns the command and what fixes the error.
func (e *NotFoundError) Error() string {
	if e.Command == "" {
		return "stdio: no command given"
	}
	return fmt.Sprintf("stdio: command %q not found: %s", e.Command, e.Hint)
}

// Is makes errors.Is(err, fs.ErrNotExist) true.
func (e *NotFoundError) Is(target error) bool { return target == fs.ErrNotExist }

// StartError reports that the command exists but could not be started.
type StartError struct {
	Command string // as configured
	Hint    string // possible reason; empty if none is known
	Err     error  // the system's error
}

// Error returns the command, the system's error and the hint.
func (e *StartError) Error() string {
	s := fmt.Sprintf("stdio: start %q: %v", e.Command, e.Err)
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

// Unwrap returns the system's error.
func (e *StartError) Unwrap() error { return e.Err }

// startError adds a hint to the system's error.
func startError(c Command, path string, err error) error {
	e := &StartError{Command: c.Argv[0], Err: err}
	info, dirErr := os.Stat(c.Dir)
	switch {
	case c.Dir != "" && (dirErr != nil || !info.IsDir()):
		e.Hint = fmt.Sprintf("the working directory %q is not there", c.Dir)
	case errors.Is(err, fs.ErrNotExist):
		e.Hint = "the file is there, but the interpreter that its first line names, or its loader, is not"
	case errors.Is(err, syscall.ENOEXEC):
		e.Hint = filepath.Base(path) + " is no program for this machine, or a script without a first line that names its interpreter"
	case errors.Is(err, fs.ErrPermission):
		e.Hint = "it may not be run: look at its mode and at how its file system is mounted"
	}
	return e
}

// tail keeps the last lines of stderr, within the limits above.
type tail struct {
	secrets *redact.Secrets

	mu   sync.Mutex
	kept []string
	size int
}

func (t *tail) add(line []byte) {
	clean := printable(line)
	if clean == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, clean)
	t.size += len(clean)
	for len(t.kept) > tailLines || t.size > tailTotal {
		t.size -= len(t.kept[0])
		t.kept[0] = ""
		t.kept = t.kept[1:]
	}
}

// lines returns the kept lines without the secrets.
func (t *tail) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]string, 0, len(t.kept))
	for _, line := range t.kept {
		all = append(all, t.secrets.Hide(line))
	}
	return all
}

// printable returns a line for error messages and logs: valid UTF-8 without terminal escapes and control characters, at
// most tailLine bytes.
func printable(line []byte) string {
	var b strings.Builder
	for len(line) > 0 && b.Len() < tailLine {
		if rest, ok := afterEscape(line); ok {
			line = rest
			continue
		}
		r, n := utf8.DecodeRune(line)
		line = line[n:]
		switch {
		case r == '\t':
			r = ' '
		case r < ' ', r >= 0x7F && r < 0xA0:
			continue
		}
		if b.Len()+utf8.RuneLen(r) > tailLine {
			break
		}
		b.WriteRune(r)
	}
	return strings.TrimSpace(b.String())
}

// afterEscape returns line without the terminal control sequence (ESC [ parameters, final byte; ECMA-48 §5.4) that it
// begins with, and whether there was one.
func afterEscape(line []byte) ([]byte, bool) {
	rest, ok := bytes.CutPrefix(line, []byte("\x1b["))
	if !ok {
		return line, false
	}
	for i, c := range rest {
		if c >= 0x40 && c <= 0x7E {
			return rest[i+1:], true
		}
	}
	return nil, true
}
