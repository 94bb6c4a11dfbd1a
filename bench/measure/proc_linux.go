package measure

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tick is the unit of times in /proc/PID/stat: USER_HZ is 100 on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// Indices of fields in /proc/PID/stat behind the program's name. proc(5) counts from 1 and has the name second.
const (
	statParent       = 4 - 3
	statUser         = 14 - 3
	statSystem       = 15 - 3
	statReapedUser   = 16 - 3
	statReapedSystem = 17 - 3
	statFields       = 22
)

// attributes puts the process into its own group and ends it with the thread that started it.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// killGroup ends the processes that a process started by Start has left behind.
func killGroup(pid int) {
	_ = syscall.Kill(-pid, syscall.SIGKILL) // the group may be empty
}

// CPU is the CPU time of a process and of its descendants so far: to the nanosecond if the system has a clock for each process, else to 10
// ms.
type CPU struct {
	Own, Children time.Duration
}

// Sub is the time between two readings.
func (c CPU) Sub(before CPU) CPU {
	return CPU{Own: c.Own - before.Own, Children: c.Children - before.Children}
}

// ReadCPU reads the CPU time of pid and of its living descendants.
func ReadCPU(pid int) (CPU, error) {
	var cpu CPU
	own, err := readStat(pid)
	if err != nil {
		return cpu, err
	}
	cpu.Own = clock(pid, own.cpu)
	family, err := descendants(pid)
	for id, s := range family {
		cpu.Children += clock(id, s.cpu)
	}
	return cpu, err
}

// ReadOwn is the CPU time of pid without its descendants.
func ReadOwn(pid int) (time.Duration, error) {
	own, err := readStat(pid)
	return clock(pid, own.cpu), err
}

// clock reads a process's CPU clock (clock_getcpuclockid(3)): user and system time of all its threads, to the nanosecond. If it cannot, it
// returns coarse.
func clock(pid int, coarse time.Duration) time.Duration {
	const ofScheduler = 2
	var at unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|ofScheduler), &at); err != nil { //nolint:gosec // process ids have 22 bits
		return coarse
	}
	return time.Duration(at.Nano())
}

// ReadRSS reads the resident memory of pid in bytes.
func ReadRSS(pid int) (int64, error) {
	status, err := os.ReadFile(procFile(pid, "status"))
	if err != nil {
		return 0, fmt.Errorf("measure: memory of %d: %w", pid, err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("measure: process %d has no memory", pid)
}

// ReadTimes reads the CPU time of one process: its own, and that of the descendants that were reaped.
func ReadTimes(pid int) (own, reaped time.Duration, err error) {
	s, err := readStat(pid)
	return s.cpu, s.reaped, err
}

// Memory is the memory of a process in bytes. Of memory that processes share, above all code, PSS counts a share and USS nothing.
type Memory struct {
	RSS, PSS, USS int64
}

// ReadMemory reads the memory of pid.
func ReadMemory(pid int) (Memory, error) {
	raw, err := os.ReadFile(procFile(pid, "smaps_rollup"))
	if err != nil {
		return Memory{}, fmt.Errorf("measure: memory of %d: %w", pid, err)
	}
	return parseRollup(raw)
}

func parseRollup(raw []byte) (Memory, error) {
	var m Memory
	found := false
	for line := range strings.Lines(string(raw)) {
		name, rest, _ := strings.Cut(line, ":")
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		if err != nil {
			continue // the first line has addresses
		}
		switch name {
		case "Rss":
			m.RSS, found = kib<<10, true
		case "Pss":
			m.PSS = kib << 10
		case "Private_Clean", "Private_Dirty":
			m.USS += kib << 10
		}
	}
	if !found {
		return m, errors.New("measure: malformed smaps_rollup")
	}
	return m, nil
}

type stat struct {
	parent int
	cpu    time.Duration
	reaped time.Duration // of children that were reaped
}

var errStat = errors.New("measure: malformed stat")

func readStat(pid int) (stat, error) {
	raw, err := os.ReadFile(procFile(pid, "stat"))
	if err != nil {
		return stat{}, fmt.Errorf("measure: CPU time of %d: %w", pid, err)
	}
	return parseStat(raw)
}

func parseStat(raw []byte) (stat, error) {
	at := bytes.LastIndexByte(raw, ')') // a program's name may contain anything
	fields := strings.Fields(string(raw[at+1:]))
	if at < 0 || len(fields) < statFields {
		return stat{}, errStat
	}
	parent, err := strconv.Atoi(fields[statParent])
	user, err2 := strconv.ParseInt(fields[statUser], 10, 64)
	system, err3 := strconv.ParseInt(fields[statSystem], 10, 64)
	reapedUser, err4 := strconv.ParseInt(fields[statReapedUser], 10, 64)
	reapedSystem, err5 := strconv.ParseInt(fields[statReapedSystem], 10, 64)
	if err := errors.Join(err, err2, err3, err4, err5); err != nil {
		return stat{}, errStat
	}
	return stat{parent: parent, cpu: time.Duration(user+system) * tick, reaped: time.Duration(reapedUser+reapedSystem) * tick}, nil
}

// Descendants lists the living descendants of pid, in no order. Linux only.
func Descendants(pid int) ([]int, error) {
	family, err := descendants(pid)
	return slices.Collect(maps.Keys(family)), err
}

// descendants reads every living descendant of pid.
func descendants(pid int) (map[int]stat, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("measure: %w", err)
	}
	all := map[int]stat{}
	for _, e := range entries {
		if id, err := strconv.Atoi(e.Name()); err == nil {
			if s, err := readStat(id); err == nil { // it may have ended meanwhile
				all[id] = s
			}
		}
	}
	family := map[int]stat{}
	for id, s := range all {
		for p, steps := s.parent, 0; p > 1 && steps < len(all); steps++ {
			if p == pid {
				family[id] = s
				break
			}
			p = all[p].parent
		}
	}
	return family, nil
}

func procFile(pid int, name string) string {
	return "/proc/" + strconv.Itoa(pid) + "/" + name
}
