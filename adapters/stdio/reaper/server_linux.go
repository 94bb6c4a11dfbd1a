package reaper

import (
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"dragoman/adapters/stdio/keeper"
)

// maxStops bounds the rounds in which processes to kill are looked for before the first is killed. A process that forks faster
// than that is found by the next sweep.
const maxStops = 8

// minSweepPause is the shortest pause between two sweeps: SIGCHLD tells when there is a reason for the next.
const minSweepPause = 0

// becomeParent makes orphans below us our children (prctl(2), PR_SET_CHILD_SUBREAPER), and renames the process, so that killing
// by the name of dragoman does not kill its reaper first.
func becomeParent() error {
	rename("reaper")
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// rename sets the name of the process, and no more than that.
func rename(name string) { _ = os.WriteFile("/proc/self/comm", []byte(name), 0) }

// command is the command line of the process to start, and what its environment has besides: the keeper, which starts the reaper.
func command() (args, env []string) {
	return []string{"dragoman", keeper.Name}, []string{keeper.Key + "=" + keeper.Start}
}

// leftover reports whether this process was the keeper of a reaper that has ended.
func leftover() bool {
	if os.Getenv(keeper.Key) != keeper.Ended {
		return false
	}
	rename(keeper.Name)
	return true
}

// childAttr gives a child a session of its own, by which descendants in other process groups are known, and SIGTERM should the
// reaper be killed. It is not SIGKILL because launchers (npx, uvx, docker) pass on the end of stdin and SIGTERM to the server
// that they have started; SIGKILL would make it an orphan.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM}
}

// limitMarkOf returns the second mark of children, which a process does not lose with its environment: the limit of file locks, which is
// inherited and which Linux has not enforced since 2.4 (getrlimit(2), RLIMIT_LOCKS). Its upper half identifies the reaper, its
// lower half is the child's number. It is 0 where the limit cannot be set.
func limitMarkOf(mark string) uint64 {
	var own unix.Rlimit
	n, err := strconv.ParseUint(mark[:min(len(mark), 7)], 16, 31)
	if err != nil || unix.Getrlimit(unix.RLIMIT_LOCKS, &own) != nil || own.Max != unix.RLIM_INFINITY {
		return 0
	}
	return (n | 1<<30) << limitBits
}

// setLimitMark sets the limit mark of a process: of ourselves (pid 0) before a child is forked, so that it inherits the mark, and
// of the child afterwards, should another forker have been in between.
func setLimitMark(pid int, mark, id uint64) {
	if mark != 0 {
		// An error, as with a program that changes its user, leaves the mark in the environment.
		_ = unix.Prlimit(pid, unix.RLIMIT_LOCKS, &unix.Rlimit{Cur: mark | id&(1<<limitBits-1), Max: unix.RLIM_INFINITY}, nil)
	}
}

// receiveRights reads bytes and descriptors, which are close-on-exec from the first moment.
func receiveRights(socket *net.UnixConn, b, oob []byte) (n, oobn int, err error) {
	n, oobn, _, _, err = socket.ReadMsgUnix(b, oob)
	return n, oobn, err
}

// remains returns false: reap sees all processes.
func (s *server) remains() bool { return false }

// sweep does what requires a look at the processes: it assigns orphans to trees, terminates and (with kill) kills, and reports the
// trees that are empty.
func (s *server) sweep(kill bool) {
	s.changed = false
	s.findOrphans()
	s.terminate()
	if kill {
		s.kill()
		s.killPause = min(2*s.killPause, maxKillPause)
		s.nextKill = time.Now().Add(s.killPause)
	}
	// This goroutine alone reaps, so no process has left the list of our children since it was read: a tree that is not empty
	// has its child in it, or an orphan.
	for t := range s.waiting {
		if t.orphans == 0 {
			s.gone(t)
		}
	}
}

// findOrphans records the orphans that are new.
func (s *server) findOrphans() {
	for _, pid := range s.procs.children() {
		if t := s.leaders[pid]; t != nil && !t.exited || s.orphans[pid] != nil {
			continue
		}
		p, ok := s.procs.process(pid)
		if !ok || p.ended() { // reap will see it
			continue
		}
		if o := s.recognise(p); o != nil {
			s.orphans[pid] = o
			if o.tree != nil {
				o.tree.orphans++
			}
		}
	}
	s.unowned = false
	for _, o := range s.orphans {
		if o.tree == nil && !o.unowned {
			s.guess(o)
		}
		s.unowned = s.unowned || o.unowned
	}
}

// recognise finds the tree of an orphan: by the session and the process group, which the tree's child leads, or else by its marks.
// It returns nil for what may be a child that is being forked.
func (s *server) recognise(p proc) *orphan {
	for _, id := range [...]int{p.session, p.group} {
		if t := s.leaders[id]; t != nil {
			return &orphan{tree: t}
		}
	}
	digits := strings.TrimPrefix(s.procs.environmentMark(p.pid, s.envMark), s.envMark)
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil { // no mark
		n = 0
	}
	// A child that is being forked may carry the limit mark of another one, see forkTurn.
	if forked := p.unborn && s.pending.count() > 0; n == 0 && !forked {
		n = s.procs.limitMark(p.pid, s.limitMark)
	}
	if n != 0 {
		switch t := s.trees[n]; {
		case t != nil:
			return &orphan{tree: t}
		case s.pending.has(n):
			return nil
		}
		return &orphan{unowned: true}
	}
	if s.pending.count() > 0 {
		return nil
	}
	return &orphan{before: s.newest}
}

// guess decides about an orphan without session, group or mark: it belongs to one of the trees that existed when it was seen
// first. Once one of them is left, it is taken for that one's; once none is, it has to be killed.
func (s *server) guess(o *orphan) {
	var only *tree
	for _, t := range s.trees {
		if t.id <= o.before {
			if only != nil {
				return
			}
			only = t
		}
	}
	if o.tree = only; only == nil {
		o.unowned = true
		return
	}
	only.orphans++
}

// terminate sends SIGTERM to the trees that are to end, and to those whose child has exited, except for the child's process group, which
// has had it.
func (s *server) terminate() {
	roots := map[int]bool{}
	for _, t := range s.terminating {
		if !t.exited {
			roots[t.pid] = true
		}
		for pid, o := range s.orphans {
			if o.tree == t {
				roots[pid], o.termed = true, true
			}
		}
	}
	s.terminating = nil
	for pid, o := range s.orphans {
		if o.tree != nil && o.tree.exited && !o.termed {
			roots[pid], o.termed = true, true
		}
	}
	if len(roots) == 0 {
		return
	}
	for _, p := range s.procs.all().below(roots) {
		if t := s.leaders[p.group]; t == nil || !t.termed {
			_ = unix.Kill(p.pid, unix.SIGTERM)
		}
	}
}

// kill kills the trees that are to be killed, and the orphans that no tree owns.
func (s *server) kill() {
	for _, t := range s.trees {
		if t.killing && !t.exited {
			_ = unix.Kill(-t.pid, unix.SIGSTOP) // the whole group at once, with the processes that are being forked
		}
	}
	stopAndKill(func() []proc {
		s.findOrphans()
		roots := map[int]bool{}
		for _, t := range s.trees {
			if t.killing && !t.exited {
				roots[t.pid] = true
			}
		}
		for pid, o := range s.orphans {
			if o.unowned || o.tree != nil && o.tree.killing {
				roots[pid] = true
			}
		}
		return s.procs.all().below(roots)
	})
}

// stopAndKill stops the processes that find returns until it returns no new one, and then kills them. If they were killed one by
// one, the others would go on forking and lose the parents by which they are found.
func stopAndKill(find func() []proc) {
	stopped := map[int]bool{}
	for range maxStops {
		fresh := false
		for _, p := range find() {
			if !stopped[p.pid] {
				stopped[p.pid], fresh = true, true
				_ = unix.Kill(p.pid, unix.SIGSTOP)
			}
		}
		if !fresh {
			break
		}
	}
	for pid := range stopped {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

// signalAll signals every process below us.
func (s *server) signalAll(sig syscall.Signal) {
	first := sig
	if sig == unix.SIGKILL {
		first = unix.SIGSTOP // see stopAndKill
	}
	for _, t := range s.trees {
		if !t.exited {
			_ = unix.Kill(-t.pid, first) // the whole group at once
		}
	}
	self := os.Getpid()
	find := func() []proc {
		all := s.procs.all().below(map[int]bool{self: true})
		return slices.DeleteFunc(all, func(p proc) bool { return p.pid == self })
	}
	if sig == unix.SIGKILL {
		stopAndKill(find)
		return
	}
	for _, p := range find() {
		if t := s.leaders[p.group]; t == nil || t.exited {
			_ = unix.Kill(p.pid, sig)
		}
	}
}
