package reaper

import (
	"bytes"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// proc is a process, from /proc/PID/stat.
type proc struct {
	pid, parent, group, session int
	state                       byte
	unborn                      bool // it has not executed a program since it was forked
}

// forkNoExec is PF_FORKNOEXEC of the kernel's sched.h.
const forkNoExec = 0x40

// limitBits are the bits of a limit mark that hold the child's number; see limitMarkOf.
const limitBits = 32

// ended reports whether the process only waits to be reaped.
func (p proc) ended() bool { return p.state == 'Z' || p.state == 'X' }

// table holds all processes at one moment, or nearly.
type table []proc

// procReader reads small files of /proc into one buffer.
type procReader struct{ buf bytes.Buffer }

// file returns the bytes of a file until the next call, at most limit of them.
func (r *procReader) file(path string, limit int64) ([]byte, bool) {
	f, err := os.Open(path) //nolint:gosec // G304: below /proc
	if err != nil {
		return nil, false
	}
	defer f.Close()
	r.buf.Reset()
	_, err = r.buf.ReadFrom(io.LimitReader(f, limit))
	return r.buf.Bytes(), err == nil
}

// process reads the entry of a process; false if there is none.
func (r *procReader) process(pid int) (proc, bool) {
	b, ok := r.file("/proc/"+strconv.Itoa(pid)+"/stat", 4<<10)
	if !ok {
		return proc{}, false
	}
	// pid (name, which may contain anything) state ppid pgrp session tty tpgid flags …
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 7 {
		return proc{}, false
	}
	return proc{pid: pid, state: fields[0][0], parent: number(fields[1]), group: number(fields[2]), session: number(fields[3]),
		unborn: number(fields[6])&forkNoExec != 0}, true
}

// number parses a decimal number; 0 if b is none.
func number(b []byte) int {
	n, _ := strconv.Atoi(string(b))
	return n
}

// all reads all processes that are visible to us.
func (r *procReader) all() table {
	names := list("/proc")
	t := make(table, 0, len(names))
	for _, name := range names {
		if pid := number([]byte(name)); pid > 0 {
			if p, ok := r.process(pid); ok {
				t = append(t, p)
			}
		}
	}
	return t
}

// list returns the names in a directory; fewer, or none, if it cannot be read.
func list(dir string) []string {
	f, err := os.Open(dir) //nolint:gosec // G304: below /proc
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1) // what was read before an error is of use all the same
	return names
}

// below returns the roots and all their descendants, without those that have ended.
func (t table) below(roots map[int]bool) []proc {
	in := make(map[int]bool, 2*len(roots))
	for pid := range roots {
		in[pid] = true
	}
	for grown := true; grown; { // mostly a child has the higher number, and one round is enough
		grown = false
		for _, p := range t {
			if !in[p.pid] && in[p.parent] {
				in[p.pid], grown = true, true
			}
		}
	}
	var out []proc
	for _, p := range t {
		if in[p.pid] && !p.ended() {
			out = append(out, p)
		}
	}
	return out
}

// children returns our own children, with orphans that became ours and those that are not reaped yet. The list is complete as long
// as nothing is reaped meanwhile. Where the kernel has no such list, all processes are searched.
func (r *procReader) children() []int {
	var out []int
	listed := false
	for _, thread := range list("/proc/self/task") {
		b, ok := r.file("/proc/self/task/"+thread+"/children", 64<<20)
		listed = listed || ok
		if !ok {
			continue
		}
		for field := range bytes.FieldsSeq(b) {
			out = append(out, number(field))
		}
	}
	if listed {
		return out
	}
	self := os.Getpid()
	for _, p := range r.all() {
		if p.parent == self {
			out = append(out, p.pid)
		}
	}
	return out
}

// environmentMark returns the variable that begins with mark (KEY= and perhaps more) from the environment with which a process was
// executed, or "".
func (r *procReader) environmentMark(pid int, mark string) string {
	env, _ := r.file("/proc/"+strconv.Itoa(pid)+"/environ", 4<<20)
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		if bytes.HasPrefix(entry, []byte(mark)) {
			return string(entry)
		}
	}
	return ""
}

// limitMark returns the child's number from the limit mark of a process; 0 if it carries none with the upper half of mark.
func (r *procReader) limitMark(pid int, mark uint64) uint64 {
	if mark == 0 {
		return 0
	}
	b, _ := r.file("/proc/"+strconv.Itoa(pid)+"/limits", 8<<10)
	_, after, _ := bytes.Cut(b, []byte("\nMax file locks "))
	for field := range bytes.FieldsSeq(after) {
		n, err := strconv.ParseUint(string(field), 10, 64)
		if err != nil || n>>limitBits != mark>>limitBits {
			return 0
		}
		return n & (1<<limitBits - 1)
	}
	return 0
}

// GroupEnded reports whether all processes of a process group have ended and only wait to be reaped.
func GroupEnded(group int) bool {
	all := new(procReader).all()
	return len(all) > 0 && !slices.ContainsFunc(all, func(p proc) bool { return p.group == group && !p.ended() })
}

// clearUp ends what a lost reaper process has left behind: pids are its children, mark its part of the marks. Its death has sent
// SIGTERM to the children (PDEATHSIG). Processes that become our children, if we are the system's first process, are reaped.
// It takes 1.5 s at most.
func clearUp(mark string, pids []int) {
	if len(pids) == 0 {
		return
	}
	r, limitMark, known := &procReader{}, limitMarkOf(mark), map[int]bool{}
	for _, pid := range pids {
		known[pid] = true
	}
	kill := time.Now().Add(termGrace)
	limit := kill.Add(killLimit)
	for pause := firstKillPause; ; pause = min(2*pause, maxKillPause) {
		left := r.descendants(known, MarkKey+"="+mark+"-", limitMark)
		now := time.Now()
		for _, p := range left {
			switch {
			case now.After(kill):
				_ = unix.Kill(p.pid, unix.SIGKILL)
			case !known[p.pid]:
				_ = unix.Kill(p.pid, unix.SIGTERM)
			}
			known[p.pid] = true
		}
		for pid := range known {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil) // fails if it is not our child, as is usual
		}
		if len(left) == 0 || now.After(limit) {
			return
		}
		<-time.After(pause)
	}
}

// descendants returns the processes that are known by id, group or session, or marked, and all below them.
func (r *procReader) descendants(known map[int]bool, envMark string, limitMark uint64) []proc {
	t := r.all()
	roots := map[int]bool{}
	self := os.Getpid()
	for _, p := range t {
		if p.pid != self && (known[p.session] || known[p.group] || r.environmentMark(p.pid, envMark) != "" || r.limitMark(p.pid, limitMark) != 0) {
			roots[p.pid] = true
		}
	}
	return t.below(roots)
}
