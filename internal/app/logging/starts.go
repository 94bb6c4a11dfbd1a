package logging

import (
	"hash/maphash"
	"sync"
	"time"
)

// Bounds of StartLines.
const (
	startLines  = 64               // lines of a start that are compared
	startsKept  = 64               // processes that are told apart
	startsAgain = 10 * time.Minute // after which a line is logged again
)

// StartLines tells which lines the processes of a server write at each start alike, as one that crashes again and again does: a line is
// alike if the start before had it at the same place. The zero value is ready to use.
type StartLines struct {
	mu   sync.Mutex
	seed maphash.Seed
	of   map[int]*start // by process
	last *start         // the latest
	left int            // lines that were left out since one was logged
}

// start holds what a process has written first.
type start struct {
	before []startLine // of the start before
	lines  []startLine
	pid    int
}

// startLine is a line that was written, and when it was logged last.
type startLine struct {
	sum uint64
	at  time.Time
}

// Say reports whether to log a line that a process has written, and how many lines were left out before it.
func (s *StartLines) Say(pid int, line []byte, now time.Time) (said bool, left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.startOf(pid)
	n := len(p.lines)
	if n == startLines {
		left, s.left = s.left, 0
		return true, left
	}
	one := startLine{maphash.Bytes(s.seed, line), now}
	if n < len(p.before) && p.before[n].sum == one.sum && now.Sub(p.before[n].at) < startsAgain {
		one.at = p.before[n].at
		p.lines = append(p.lines, one)
		s.left++
		return false, 0
	}
	p.lines = append(p.lines, one)
	left, s.left = s.left, 0
	return true, left
}

// startOf returns the start of a process. The caller holds mu.
func (s *StartLines) startOf(pid int) *start {
	if p := s.of[pid]; p != nil {
		return p
	}
	if s.of == nil || len(s.of) >= startsKept {
		s.of = make(map[int]*start)
		if s.last != nil {
			s.of[s.last.pid] = s.last
		} else {
			s.seed = maphash.MakeSeed()
		}
	}
	p := &start{pid: pid}
	if s.last != nil {
		p.before = s.last.lines
	}
	s.of[pid], s.last = p, p
	return p
}

// Left returns how many lines were left out since one was logged, and counts anew.
func (s *StartLines) Left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.left
	s.left = 0
	return left
}
