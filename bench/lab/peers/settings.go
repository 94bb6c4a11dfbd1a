//go:build linux

package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	maxSize     = 32 << 20
	connections = 16
	smallCall   = 300
	callLimit   = 30 * time.Second
)

// settings is the checked command line and the values of --short.
type settings struct {
	dragoman, node, npm, tbxark string
	python                      string            // directory of the virtual environments
	without                     map[string]string // missing kits and the reason
	results                     string
	summarise                   string // file; empty: a run is made
	steps                       []string
	only                        []string // contenders
	short                       bool

	rounds            int
	duration, warmup  time.Duration
	firstWarmup       time.Duration // before the first round of each contender, for just-in-time compilers
	sizes             []size
	sessions          []int
	starts            int
	idleSessions      int
	idleSharedLess    int
	idleSharedMore    int
	idleWait          time.Duration
	abandoned         int
	idleTTL, leftWait time.Duration
}

// fill sets the values that the command line does not give.
func (s *settings) fill() {
	rounds, duration := 7, 2*time.Second
	s.warmup, s.firstWarmup = 300*time.Millisecond, 2*time.Second
	s.sizes = []size{{smallCall, smallCall}, {10 << 10, 10 << 10}, {1 << 20, 1 << 20}, {smallCall, 1 << 20}}
	s.sessions, s.starts = []int{1, 100, 1000}, 10
	s.idleSessions, s.idleSharedLess, s.idleSharedMore = 1000, 1000, 10_000
	s.idleWait = 150 * time.Second // the collector runs every two minutes at least
	s.abandoned, s.idleTTL, s.leftWait = 100, 30*time.Second, time.Minute
	if s.short {
		rounds, duration = 2, time.Second
		s.firstWarmup = time.Second
		s.sessions, s.starts = []int{1, 20, 100}, 2
		s.idleSessions, s.idleSharedLess, s.idleSharedMore, s.idleWait = 100, 200, 1000, 5*time.Second
		s.abandoned, s.idleTTL, s.leftWait = 20, 3*time.Second, 10*time.Second
	}
	if s.rounds == 0 {
		s.rounds = rounds
	}
	if s.duration == 0 {
		s.duration = duration
	}
}

func (s *settings) chooseSizes(list []string) error {
	if len(list) == 0 {
		return nil
	}
	s.sizes = nil
	for _, word := range list {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > maxSize {
			return fmt.Errorf("peers: --sizes: %q is not a number of bytes from 1 to %d", word, maxSize)
		}
		s.sizes = append(s.sizes, size{n, n})
	}
	return nil
}

func (s *settings) wants(name string) bool {
	return len(s.only) == 0 || slices.Contains(s.only, name)
}

// size is the size of a call and its answer in bytes.
type size struct {
	Request int `json:"request"`
	Answer  int `json:"answer"`
}

// target is how many times the best peer's rate is the goal for Dragoman; 0: none.
func (s size) target(kind faceKind) float64 {
	switch s {
	case size{smallCall, smallCall}:
		if kind == httpSSE {
			return 2
		}
		return 3
	case size{10 << 10, 10 << 10}:
		return 8
	case size{1 << 20, 1 << 20}:
		return 15
	}
	return 0
}

func (s size) String() string {
	if s.Answer == s.Request {
		return bytesWord(s.Request)
	}
	return bytesWord(s.Request) + " → " + bytesWord(s.Answer)
}

func bytesWord(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

// faceKind is how clients reach a contender, and how it reaches the server. Only contenders of the same kind are compared.
type faceKind string

const (
	streamable faceKind = "streamable HTTP"
	httpSSE    faceKind = "HTTP+SSE"
	restful    faceKind = "REST" // each contender's own form
	toHTTP     faceKind = "streamable HTTP to HTTP"
	toSeveral  faceKind = "streamable HTTP to several over HTTP"
)

func words(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}
