//go:build unix

package process

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func forked(t *testing.T, p *Process, word string) int { return forkedPID(t, p, word) }

func dead(pid int) bool {
	if unix.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
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
	if dead(pid) != (testReaper != nil) {
		t.Errorf("dead: %v; with a reaper: %v", dead(pid), testReaper != nil)
	}
}

// A grandchild in a session of its own that ignores all signals is ended by Stop.
func TestProcessStopKillsEscapedGrandchild(t *testing.T) {
	t.Parallel()
	if testReaper == nil {
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
