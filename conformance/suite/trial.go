package suite

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"dragoman/conformance/peer"
)

const (
	maxEvidence = 60      // lines of a finding
	maxText     = 4 << 10 // of a line, in bytes
	maxProblems = 20      // of a finding
)

// Trial is one run of a check. Its methods may be called from any goroutine, except Fatal, Skip and Break: they end the trial,
// and belong to the goroutine of Run.
type Trial struct {
	Check    *Check
	Target   *peer.Target
	Face     peer.Face
	Revision string
	Offer    *Offer

	ctx   context.Context
	began time.Time
	judge func(raw, revision, answers string) // called for each message that comes; may be nil
	sent  requestLog

	mu       sync.Mutex
	problems []Problem
	evidence []Line
	skipped  string
	broken   string
	over     bool
	ends     []func()
}

// Context returns the trial's context, which ends with its time.
func (t *Trial) Context() context.Context { return t.ctx }

// Fail records a deviation from the requirement. The trial goes on.
func (t *Trial) Fail(expected, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.problems) < maxProblems {
		t.problems = append(t.problems, Problem{expected, shorten(fmt.Sprintf(format, args...))})
	}
}

// Fatal records a deviation and ends the trial.
func (t *Trial) Fatal(expected, format string, args ...any) {
	t.Fail(expected, format, args...)
	runtime.Goexit()
}

// Skip ends the trial because the server does not offer what it needs.
func (t *Trial) Skip(format string, args ...any) {
	t.mu.Lock()
	t.skipped = fmt.Sprintf(format, args...)
	t.mu.Unlock()
	runtime.Goexit()
}

// Break ends the trial because it could not be carried out. That says nothing about the requirement.
func (t *Trial) Break(format string, args ...any) {
	t.mu.Lock()
	t.broken = shorten(fmt.Sprintf(format, args...))
	t.mu.Unlock()
	runtime.Goexit()
}

// Watch records evidence. It watches all connections of the trial.
func (t *Trial) Watch(direction byte, where, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return // the closing of connections is not evidence
	}
	if len(t.evidence) == maxEvidence {
		t.evidence = append(t.evidence[:0], t.evidence[1:]...)
	}
	t.evidence = append(t.evidence, Line{direction == '>', where, shorten(text), time.Since(t.began).Milliseconds()})
}

func shorten(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "") + fmt.Sprintf("… (%d bytes)", len(text))
}

// Settings returns the settings of a connection at the trial's face and revision.
func (t *Trial) Settings() peer.Settings {
	s := peer.Settings{Face: t.Face, Revision: t.Revision, Watch: t.Watch}
	if t.judge != nil {
		s.Received = func(m peer.Message, answers string) { t.judge(m.Raw, revisionOf(m, answers, t.Revision), answers) }
	}
	return s
}

// Open opens a connection, which ends with the trial. change may be nil. If Open fails, the trial is broken: the checks of the handshake
// judge that.
func (t *Trial) Open(change func(*peer.Settings)) *peer.Conn {
	c, err := t.TryOpen(change)
	if err != nil {
		t.Break("no conversation could be begun: %v", err)
	}
	return c
}

// TryOpen is Open, but returns the error.
func (t *Trial) TryOpen(change func(*peer.Settings)) (*peer.Conn, error) {
	s := t.Settings()
	if change != nil {
		change(&s)
	}
	c, err := t.Target.Open(t.ctx, s)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { c.Close() })
	return c, nil
}

// Send sends a raw HTTP request. It breaks the trial if there is no response within the target's timeout, which also applies to each
// event of a stream.
func (t *Trial) Send(r peer.Request) *peer.Response { return t.SendTo(t.Target.HTTP, r) }

// SendTo sends to another endpoint.
func (t *Trial) SendTo(h *peer.HTTP, r peer.Request) *peer.Response {
	ctx, cancel := context.WithCancel(t.ctx) // the body may take longer than the timeout
	t.Cleanup(cancel)
	late := time.AfterFunc(t.Target.Patience(), cancel)
	res, err := h.Send(ctx, r, t.Watch)
	late.Stop()
	if err != nil {
		t.Break("no response: %v", err)
	}
	res.Patience = t.Target.Patience()
	t.watchResponse(r, res)
	return res
}

// Start starts a program of the target for raw lines.
func (t *Trial) Start() *peer.Child {
	c, err := peer.StartChild(t.ctx, t.Target.Program, t.watchLines(t.Watch))
	if err != nil {
		t.Break("the program could not be started: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Cleanup registers a function for the end of the trial; the last one runs first.
func (t *Trial) Cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ends = append(t.ends, f)
}

func (t *Trial) end() {
	t.mu.Lock()
	t.over = true
	t.mu.Unlock()
	for {
		t.mu.Lock()
		n := len(t.ends)
		if n == 0 {
			t.mu.Unlock()
			return
		}
		f := t.ends[n-1]
		t.ends = t.ends[:n-1]
		t.mu.Unlock()
		f()
	}
}
