package logging

import (
	"fmt"
	"testing"
	"time"
)

// A line is left out if the start before wrote it at the same place, and the count is told at the next line that is logged.
func TestStartLines(t *testing.T) {
	var s StartLines
	now := time.Now()
	f := func(pid int, line string, said bool, left int) {
		t.Helper()
		if got, n := s.Say(pid, []byte(line), now); got != said || n != left {
			t.Errorf("%d %q: %v, %d; want %v, %d", pid, line, got, n, said, left)
		}
	}
	f(1, "a", true, 0)
	f(1, "a", true, 0) // of one start
	f(1, "b", true, 0)
	f(2, "a", false, 0)
	f(2, "a", false, 0)
	f(2, "c", true, 2)
	f(2, "c", true, 0)
	f(3, "a", false, 0)
	f(1, "late", true, 1) // a process that lives on
	f(3, "b", true, 0)    // at another place
	f(3, "d", true, 0)
	now = now.Add(startsAgain - 1)
	f(4, "a", false, 0)
	now = now.Add(1)
	f(5, "a", true, 1)
	f(6, "a", false, 0)
	if n := s.Left(); n != 1 {
		t.Errorf("%d left", n)
	}
	f(6, "x", true, 0)
}

// The memory is bounded, however much processes write and however many there are.
func TestStartLinesAreBounded(t *testing.T) {
	var s StartLines
	now := time.Now()
	for pid := range 5 * startsKept {
		for line := range 2 * startLines {
			said, _ := s.Say(pid, fmt.Append(nil, line), now)
			if want := pid == 0 || line >= startLines; said != want {
				t.Fatalf("process %d, line %d: %v", pid, line, said)
			}
		}
		if len(s.of) > startsKept || len(s.last.lines) > startLines {
			t.Fatalf("%d processes, %d lines are kept", len(s.of), len(s.last.lines))
		}
	}
}
