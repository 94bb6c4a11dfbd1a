//go:build linux

// Package procs reads the processes of this machine, and reaps and ends what a run has left behind.
package procs

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Process is one process at one time, from /proc.
type Process struct {
	PID, Parent, Group int
	State              byte   // 'Z' is a zombie, see proc(5)
	Start              uint64 // ticks since boot: with PID it identifies a process
	Name               string // of its program, truncated to 15 bytes
}

// Zombie reports whether the process has ended and waits to be reaped.
func (p Process) Zombie() bool { return p.State == 'Z' || p.State == 'X' }

// ID identifies the process: a PID alone can be reused.
func (p Process) ID() ID { return ID{p.PID, p.Start} }

// ID identifies a process.
type ID struct {
	PID   int
	Start uint64
}

// String describes a process: "4711 node, S, parent 1: node server.js".
func (p Process) String() string {
	s := fmt.Sprintf("%d %s, state %c, parent %d", p.PID, p.Name, p.State, p.Parent)
	if line := CommandLine(p.PID); line != "" {
		s += ": " + line
	}
	return s
}

// Table has all processes at one time, by PID.
type Table map[int]Process

// Read reads all processes. A process that ends meanwhile is left out.
func Read() (Table, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("procs: %w", err)
	}
	t := Table{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		raw, err := os.ReadFile(file(pid, "stat"))
		if err != nil {
			continue
		}
		if p, err := parseStat(raw); err == nil {
			t[pid] = p
		}
	}
	return t, nil
}

var errStat = errors.New("procs: malformed stat")

// Indices of fields in /proc/PID/stat behind the program's name. proc(5) counts from 1 and has the name second.
const (
	statState  = 0
	statParent = 4 - 3
	statGroup  = 5 - 3
	statStart  = 22 - 3
)

func parseStat(raw []byte) (Process, error) {
	open, closed := bytes.IndexByte(raw, '('), bytes.LastIndexByte(raw, ')') // a name may contain anything
	if open < 0 || closed < open {
		return Process{}, errStat
	}
	fields := strings.Fields(string(raw[closed+1:]))
	if len(fields) <= statStart || len(fields[statState]) != 1 {
		return Process{}, errStat
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw[:open])))
	parent, err2 := strconv.Atoi(fields[statParent])
	group, err3 := strconv.Atoi(fields[statGroup])
	start, err4 := strconv.ParseUint(fields[statStart], 10, 64)
	if errors.Join(err, err2, err3, err4) != nil {
		return Process{}, errStat
	}
	return Process{PID: pid, Parent: parent, Group: group, State: fields[statState][0], Start: start, Name: string(raw[open+1 : closed])}, nil
}

// Below returns the descendants of pid, sorted by PID.
func (t Table) Below(pid int) []Process {
	var below []Process
	for _, p := range t {
		for up, steps := p.Parent, 0; up > 1 && steps < len(t); steps++ {
			if up == pid {
				below = append(below, p)
				break
			}
			up = t[up].Parent
		}
	}
	slices.SortFunc(below, func(a, b Process) int { return a.PID - b.PID })
	return below
}

// Marked returns the processes with the entry NAME=VALUE in their environment. Zombies have no environment, and that of other users'
// processes cannot be read.
func (t Table) Marked(entry string) []Process {
	var marked []Process
	for _, pid := range slices.Sorted(maps.Keys(t)) {
		raw, err := os.ReadFile(file(pid, "environ"))
		if err == nil && holds(raw, entry) {
			marked = append(marked, t[pid])
		}
	}
	return marked
}

// holds looks for an entry in a NUL-separated environment.
func holds(environ []byte, entry string) bool {
	for part := range bytes.SplitSeq(environ, []byte{0}) {
		if string(part) == entry {
			return true
		}
	}
	return false
}

// CommandLine is the command line of a process, on one line of at most 160 bytes; empty if it has ended.
func CommandLine(pid int) string {
	raw, err := os.ReadFile(file(pid, "cmdline"))
	if err != nil {
		return ""
	}
	line := strings.TrimSpace(string(bytes.ReplaceAll(raw, []byte{0}, []byte{' '})))
	return strings.ToValidUTF8(line[:min(len(line), maxCommandLine)], "")
}

const maxCommandLine = 160

// Program is the file that a process runs; empty if it cannot be read.
func Program(pid int) string {
	path, err := os.Readlink(file(pid, "exe"))
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(path, " (deleted)")
}

// Usage has the resources of a process.
type Usage struct {
	FDs     int
	Threads int
	RSS     int64 // bytes
	Code    int64 // of RSS, pages of files: the program itself
}

// ReadUsage reads the resources of pid. It fails if the process has ended or belongs to another user.
func ReadUsage(pid int) (Usage, error) {
	fds, err := os.ReadDir(file(pid, "fd"))
	if err != nil {
		return Usage{}, fmt.Errorf("procs: %w", err)
	}
	status, err := os.ReadFile(file(pid, "status"))
	if err != nil {
		return Usage{}, fmt.Errorf("procs: %w", err)
	}
	u := Usage{FDs: len(fds)}
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch key {
		case "VmRSS", "RssFile":
			kib, err := strconv.ParseInt(strings.TrimSuffix(value, " kB"), 10, 64)
			if err != nil {
				return Usage{}, fmt.Errorf("procs: %s of %d: %w", key, pid, err)
			}
			if key == "VmRSS" {
				u.RSS = kib << 10
			} else {
				u.Code = kib << 10
			}
		case "Threads":
			if u.Threads, err = strconv.Atoi(value); err != nil {
				return Usage{}, fmt.Errorf("procs: threads of %d: %w", pid, err)
			}
		}
	}
	return u, nil
}

func file(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }
