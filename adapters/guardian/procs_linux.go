package guardian

import (
	"iter"
	"os"
	"slices"
	"strconv"
	"syscall"
)

// proc is what /proc/PID/stat says of a process.
type proc struct {
	pid, parent, group, session int
	state                       byte
	unborn                      bool // it has not executed anything since it was forked
}

// forkNoExec is PF_FORKNOEXEC of the kernel's sched.h.
const forkNoExec = 0x40

// ended tells whether it only waits to be reaped.
func (p proc) ended() bool { return p.state == 'Z' || p.state == 'X' }

// table is everybody at one moment, or nearly.
type table []proc

// reader reads small files of /proc into one buffer.
type reader struct{ buf []byte }

// file returns the file's bytes until the next call, at most limit of them.
func (r *reader) file(path string, limit int) ([]byte, bool) {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	defer func() { _ = syscall.Close(fd) }() // nothing was written
	if r.buf == nil {
		r.buf = make([]byte, 8<<10)
	}
	n := 0
	for n < limit {
		if n == len(r.buf) {
			r.buf = append(r.buf, make([]byte, len(r.buf))...)
		}
		m, err := syscall.Read(fd, r.buf[n:])
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return nil, false
		}
		if m == 0 {
			break
		}
		n += m
	}
	return r.buf[:n], true
}

// process reads what there is to know of a process; false if there is none.
func (r *reader) process(pid int) (proc, bool) {
	b, ok := r.file("/proc/"+strconv.Itoa(pid)+"/stat", 4<<10)
	if !ok {
		return proc{}, false
	}
	// pid (name, which may contain anything) state ppid pgrp session tty tpgid flags …
	end := len(b)
	for end > 0 && b[end-1] != ')' {
		end--
	}
	var fields [7][]byte
	n := 0
	for field := range words(b[end:]) {
		fields[n] = field
		if n++; n == len(fields) {
			break
		}
	}
	if n < len(fields) {
		return proc{}, false
	}
	p := proc{pid: pid, state: fields[0][0], unborn: number(fields[6])&forkNoExec != 0}
	p.parent, p.group, p.session = number(fields[1]), number(fields[2]), number(fields[3])
	return p, true
}

// words gives what stands between spaces and line ends.
func words(b []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		begin := 0
		for i := 0; i <= len(b); i++ {
			if i < len(b) && b[i] != ' ' && b[i] != '\n' {
				continue
			}
			if i > begin && !yield(b[begin:i]) {
				return
			}
			begin = i + 1
		}
	}
}

func number(b []byte) int {
	n := 0
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0
		}
		n = 10*n + int(c-'0')
	}
	return n
}

// everybody reads all processes that we may see.
func (r *reader) everybody() table {
	names := list("/proc")
	t := make(table, 0, len(names))
	for _, name := range names {
		if name[0] < '1' || name[0] > '9' {
			continue
		}
		if p, ok := r.process(number([]byte(name))); ok {
			t = append(t, p)
		}
	}
	return t
}

// list gives the names in a directory, without the help of os, which would have the poller look at it.
func list(dir string) []string {
	fd, err := syscall.Open(dir, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = syscall.Close(fd) }() // nothing was written
	var names []string
	var b [4 << 10]byte // not in the heap, of which the guardian is to need little
	for {
		n, err := syscall.ReadDirent(fd, b[:])
		if err == syscall.EINTR {
			continue
		}
		if n <= 0 || err != nil {
			return names // what was read is of use all the same
		}
		_, _, names = syscall.ParseDirent(b[:n], -1, names)
	}
}

// below gives the roots and all that descend from them, without those that have ended.
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

// children lists our own children, orphans that came to us and unreaped ones included. As long as nobody reaps meanwhile,
// nobody is missing. Where the kernel has no such list, all processes are looked through.
func (r *reader) children() []int {
	var out []int
	told := false
	for _, thread := range list("/proc/self/task") {
		b, ok := r.file("/proc/self/task/"+thread+"/children", 64<<20)
		told = told || ok
		if !ok {
			continue
		}
		for field := range words(b) {
			out = append(out, number(field))
		}
	}
	if told {
		return out
	}
	self := os.Getpid()
	for _, p := range r.everybody() {
		if p.parent == self {
			out = append(out, p.pid)
		}
	}
	return out
}

// marked returns the value of the variable that begins with mark (KEY= and perhaps more) in the environment with which a
// process was executed, or "".
func (r *reader) marked(pid int, mark string) string {
	env, _ := r.file("/proc/"+strconv.Itoa(pid)+"/environ", 4<<20)
	for len(env) > 0 {
		entry := env
		if i := slices.Index(env, 0); i >= 0 {
			entry, env = env[:i], env[i+1:]
		} else {
			env = nil
		}
		if len(entry) >= len(mark) && string(entry[:len(mark)]) == mark {
			return string(entry)
		}
	}
	return ""
}

// branded returns the child's number from a process's brand; 0 if it has none of these.
func (r *reader) branded(pid int, brand uint64) uint64 {
	b, ok := r.file("/proc/"+strconv.Itoa(pid)+"/limits", 8<<10)
	if !ok || brand == 0 {
		return 0
	}
	const title = "\nMax file locks"
	for len(b) > len(title) && string(b[:len(title)]) != title {
		b = b[1:]
	}
	for field := range words(b[min(len(b), len(title)):min(len(b), 60)]) {
		n, err := strconv.ParseUint(string(field), 10, 64)
		if err != nil || n>>brandBits != brand>>brandBits {
			return 0
		}
		return n & (1<<brandBits - 1)
	}
	return 0
}
