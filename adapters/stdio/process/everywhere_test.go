package process

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"dragoman/internal/testkit"
)

// Tests for every system.

func TestProcessEcho(t *testing.T) {
	t.Parallel()
	p := start(t, child("echo"))
	large := strings.Repeat("0123456789", 300_000)
	for _, line := range []string{"a", "\u2028 ü \x00", large, "b"} {
		must(t, p.Write([]byte(line)))
		expect(t, p, line)
	}
	if p.Exit() != nil {
		t.Error("it has exited")
	}
	took(t, p, 8*time.Second)
	if e := p.Exit(); e.Code != 0 || e.Signal != "" || !e.Stopped || e.Uptime <= 0 {
		t.Errorf("got %+v", e)
	}
	if err := p.Write([]byte("x")); !errors.As(err, new(*ExitError)) {
		t.Errorf("Write after Stop: %v", err)
	}
	if _, err := p.ReadLine(); err != io.EOF {
		t.Errorf("ReadLine after Stop: %v", err)
	}
}

func TestProcessFlood(t *testing.T) {
	t.Parallel()
	p := start(t, child("flood"))
	n := 0
	for line, err := range allLines(p) {
		must(t, err)
		if n++; n == 5000 {
			break
		}
		if len(line) != 1200 {
			t.Fatalf("a line of %d bytes", len(line))
		}
	}
	took(t, p, 8*time.Second)
	if e := p.Exit(); e.Signal != "" {
		t.Errorf("got %v", e)
	}
}

// Stop ends a ReadLine of another goroutine.
func TestProcessStopEndsReadLine(t *testing.T) {
	t.Parallel()
	stopEndsReadLine(t, start(t, child("echo")))
}

// An incomplete line is not taken for a message when Stop interrupts it.
func TestProcessStopDropsHalfALine(t *testing.T) {
	t.Parallel()
	c := child("half")
	c.StopGrace = -1
	p := start(t, c)
	expect(t, p, "whole")
	stopEndsReadLine(t, p)
}

func stopEndsReadLine(t *testing.T, p *Process) {
	t.Helper()
	result := make(chan error, 1)
	go func() {
		_, err := p.ReadLine()
		result <- err
	}()
	p.Stop()
	if err := <-result; err != io.EOF {
		t.Errorf("got %v", err)
	}
}

// The child exits at the end of its stdin and leaves a grandchild behind that holds the pipes and ignores all signals.
func TestProcessStopEndsTheTree(t *testing.T) {
	t.Parallel()
	c := child("fork:stubborn,stay")
	c.KillGrace = 100 * time.Millisecond
	p := start(t, c)
	grandchild := forked(t, p, "ready")
	took(t, p, 8*time.Second)
	if e := p.Exit(); e.Code != 0 {
		t.Errorf("got %v", e)
	}
	if !dead(grandchild) {
		t.Error("the grandchild is still there")
	}
}

// The child exits by itself without Stop: the grandchild is ended too, and the lines end although it held the pipes.
func TestProcessExitEndsTheTree(t *testing.T) {
	t.Parallel()
	c := child("fork:stubborn,exit")
	c.KillGrace = 100 * time.Millisecond
	p := start(t, c)
	grandchild := forked(t, p, "")
	if e := await(t, p); e.Code != 5 {
		t.Errorf("got %v", e)
	}
	for {
		if _, err := p.ReadLine(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "the grandchild's end", func() bool { return dead(grandchild) })
}
