//go:build unix

package process

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// forked reads the grandchild's process id among other output on the pipe, and waits until it is ready.
func forked(t *testing.T, p *Process, word string) int {
	t.Helper()
	pid := 0
	for said := word == ""; pid == 0 || !said; {
		line := readLine(t, p)
		if rest, ok := strings.CutPrefix(line, "forked "); ok {
			pid, _ = strconv.Atoi(rest)
		}
		said = said || line == word
	}
	return pid
}

func dead(pid int) bool {
	if unix.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
}

// The child exits at the end of its stdin and leaves a grandchild behind that holds the pipes and ignores all signals.
func TestProcessStopKillsTheGroup(t *testing.T) {
	t.Parallel()
	c := child("fork:stubborn,stay")
	c.KillGrace = 100 * time.Millisecond
	p := start(t, c)
	pid := forked(t, p, "ready")
	took(t, p, 8*time.Second)
	if e := p.Exit(); e.Code != 0 {
		t.Errorf("got %v", e)
	}
	if !dead(pid) {
		t.Error("the grandchild is still there")
	}
}

// Processes that the child leaves behind get time to end by themselves.
func TestProcessStopAsksTheGroupFirst(t *testing.T) {
	t.Parallel()
	p := start(t, child("fork:polite,stay"))
	pid := forked(t, p, "ready")
	took(t, p, 8*time.Second) // KillGrace is longer
	if !dead(pid) {
		t.Error("the grandchild is still there")
	}
}

// The child exits by itself without Stop: the grandchild is ended too, and the lines end although it held the pipes.
func TestProcessExitKillsTheGroup(t *testing.T) {
	t.Parallel()
	c := child("fork:stubborn,exit")
	c.KillGrace = 100 * time.Millisecond
	p := start(t, c)
	pid := forked(t, p, "")
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
	eventually(t, "the grandchild's end", func() bool { return dead(pid) })
}

// A grandchild that has left the group cannot be ended without a reaper, but must not keep Stop or ReadLine from returning. With a reaper
// it is ended like all others.
func TestProcessEscapedGrandchildDoesNotBlock(t *testing.T) {
	t.Parallel()
	c := child("fork:setsid-deaf,exit")
	p := start(t, c)
	pid := forked(t, p, "")
	t.Cleanup(func() { _ = unix.Kill(pid, unix.SIGKILL) })
	await(t, p)
	for {
		if _, err := p.ReadLine(); err == io.EOF {
			break
		}
	}
	took(t, p, 8*time.Second)
	if dead(pid) != (ward != nil) {
		t.Errorf("dead: %v; with a reaper: %v", dead(pid), ward != nil)
	}
}

// A grandchild in a session of its own that ignores all signals is ended by Stop.
func TestProcessStopKillsWhoEscaped(t *testing.T) {
	t.Parallel()
	if ward == nil {
		t.Skip("needs a reaper")
	}
	c := child("fork:setsid-stubborn,stay")
	c.KillGrace = 100 * time.Millisecond
	p := start(t, c)
	pid := forked(t, p, "ready")
	took(t, p, 8*time.Second)
	if e := p.Exit(); e.Code != 0 {
		t.Errorf("got %v", e)
	}
	if !dead(pid) {
		t.Error("the grandchild is still there")
	}
}
