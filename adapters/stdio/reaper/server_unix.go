//go:build unix

package reaper

import (
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// socketFD is the descriptor of the reaper process's end of the socket, the first of exec.Cmd.ExtraFiles.
	socketFD = 3
	// turnTime is how long forkers wait for each other; see forkTurn.
	turnTime = 50 * time.Millisecond
	// termGrace is how long the remaining processes have after SIGTERM once Dragoman is gone, and killLimit how long the reaper
	// then goes on killing them: a process cannot refuse SIGKILL, but the kernel may take its time.
	termGrace = 500 * time.Millisecond
	killLimit = time.Second
	// leftoverLimit is how long the keeper goes on, for which nobody waits.
	leftoverLimit = time.Minute
	// firstKillPause and maxKillPause are the pauses between two sweeps over a process tree that is being killed.
	firstKillPause = 5 * time.Millisecond
	maxKillPause   = time.Second
	// collectAt is how many bytes of heap are used before garbage is collected between two events, and idleTime the time
	// without events after which it is collected in any case. The initialization of packages alone uses 2 MiB, and a collection
	// at the first event would compete with the child's start.
	collectAt = 4 << 20
	idleTime  = 2 * time.Second
)

// server is the reaper process. The goroutine run owns all of its state, and it alone reaps. Besides it there are the receiver,
// which reads requests, and the forkers; all end with the process.
type server struct {
	socket    *net.UnixConn
	keeper    int            // our parent, on Linux
	unkept    chan os.Signal // SIGUSR1, at the keeper's end
	envMark   string         // KEY=value of MarkKey without the child's number
	limitMark uint64         // the second mark without the child's number; see limitMarkOf

	requests chan frame // other than starts
	starts   chan startRequest
	forkTurn forkTurn
	forking  atomic.Int32 // forkers that are forking
	forked   chan forkResult
	exits    chan os.Signal // SIGCHLD
	alarm    *time.Timer
	idle     *time.Timer

	trees   map[uint64]*tree
	leaders map[int]*tree              // by the child's process id
	orphans map[int]*orphan            // processes that became our children when they lost their parents
	early   map[int]syscall.WaitStatus // exits of processes that are not known yet, while a fork is in progress
	pending pending
	newest  uint64 // number of the last child that was started
	procs   procReader

	waiting     map[*tree]bool // trees whose child has exited and that are not known to be empty
	changed     bool           // a tree may be empty, or an orphan new
	terminating []*tree        // to be sent SIGTERM, as far as it is not in the child's process group
	killing     int            // trees that are being killed
	unowned     bool           // there are orphans that belong to none of the trees
	nextKill    time.Time      // when the trees that are being killed are swept again
	killPause   time.Duration
	notBefore   time.Time // no sweep before: sweeping takes at most half of our time
}

// tree is a child and its descendants.
type tree struct {
	id      uint64
	pid     int
	exited  bool // the child has been reaped
	termed  bool // its process group has been sent SIGTERM
	killing bool
	orphans int // orphans that belong to it
}

// orphan is a process that lost its parent.
type orphan struct {
	tree    *tree  // nil if its tree is not known, or gone
	unowned bool   // none of the trees that are left can own it
	before  uint64 // if tree is nil: it descends from one of the children up to this number
	termed  bool   // it has been sent SIGTERM after the child's exit
}

// pending holds the children that are being forked, until run knows of them.
type pending struct {
	mu  sync.Mutex
	ids map[uint64]bool
}

func (p *pending) add(id uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ids[id] = true
}

func (p *pending) remove(id uint64) (left int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.ids, id)
	return len(p.ids)
}

func (p *pending) has(id uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ids[id]
}

func (p *pending) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.ids)
}

type forkResult struct {
	id  uint64
	pid int
	err error
}

// Main is the reaper process: see Called. It returns the exit code once Dragoman has closed its end of the socket, or has ended:
// 0 if nothing is left of the children, 1 if something is, 2 if the process was not started by a Reaper.
func Main() int {
	ignoreSignals()
	if leftover() {
		return endLeftover()
	}
	socket, err := socketOf(socketFD)
	if err != nil {
		return 2
	}
	if err := becomeParent(); err != nil {
		return 2
	}
	mark := os.Getenv(markKey)
	s := newServer(socket, mark)
	signal.Notify(s.exits, unix.SIGCHLD)
	signal.Notify(s.unkept, unix.SIGUSR1)
	s.forkTurn.pass()
	s.report(evReady, uint64(os.Getpid()), version) //nolint:gosec // G115: positive
	go s.receive()
	return s.run()
}

// newServer returns a server that has no children yet.
func newServer(socket *net.UnixConn, mark string) *server {
	return &server{
		keeper: os.Getppid(), unkept: make(chan os.Signal, 1),
		socket: socket, envMark: MarkKey + "=" + mark + "-", limitMark: limitMarkOf(mark),
		requests: make(chan frame, 16), starts: make(chan startRequest, 2*maxStarts), forkTurn: make(forkTurn, 1),
		forked: make(chan forkResult, 2*maxStarts), exits: make(chan os.Signal, 1),
		alarm: time.NewTimer(time.Hour), idle: time.NewTimer(idleTime),
		trees: map[uint64]*tree{}, leaders: map[int]*tree{}, orphans: map[int]*orphan{}, early: map[int]syscall.WaitStatus{},
		pending: pending{ids: map[uint64]bool{}}, killPause: firstKillPause, waiting: map[*tree]bool{},
	}
}

// endLeftover ends all processes below this one, which was the keeper of a reaper.
func endLeftover() int {
	s := newServer(nil, "")
	signal.Notify(s.exits, unix.SIGCHLD)
	return s.end(leftoverLimit)
}

// ignoreSignals keeps signals for a whole group or service from ending the reaper before Dragoman. The signals are handled, not ignored, because
// children would inherit the latter; those that were ignored before stay so.
func ignoreSignals() {
	nobody := make(chan os.Signal, 1)
	for _, sig := range []os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2,
		unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU} {
		if !signal.Ignored(sig) {
			signal.Reset(sig) // whoever listened for it in this process before
			signal.Notify(nobody, sig)
		}
	}
}

func (s *server) run() int {
	for {
		select {
		case r, ok := <-s.requests:
			if !ok {
				return s.end(killLimit)
			}
			s.handle(r)
		case f := <-s.forked:
			s.add(f)
		case <-s.exits:
			s.reap()
		case <-s.alarm.C:
		case <-s.unkept:
			if os.Getppid() != s.keeper { // else somebody else has sent the signal
				s.report(evUnkept, 0, 0)
			}
		case <-s.idle.C:
			s.collect(0)
			continue
		}
		s.sweepIfDue()
		s.idle.Reset(idleTime)
		s.collect(collectAt)
	}
}

// collect collects garbage if more than limit bytes of heap are used. The runtime does not do it by itself here (GOGC=off): it has to
// stop all threads, and a thread that forks stands still until the file system has found the program to execute, which may take
// for ever. So it is done while no forker forks. Memory goes back to the system, since this process should be small.
func (s *server) collect(limit uint64) {
	used := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	if metrics.Read(used); used[0].Value.Uint64() < limit {
		return
	}
	select {
	case <-s.forkTurn: // no forker begins now
		if s.forking.Load() == 0 {
			debug.FreeOSMemory()
		}
		s.forkTurn.pass()
	default:
	}
}

func (s *server) handle(r frame) {
	for s.pending.has(r.id) { // Dragoman knows already that it has been started
		s.add(<-s.forked)
	}
	t := s.trees[r.id]
	switch {
	case t == nil: // gone meanwhile
	case r.kind == reqTerminate:
		if !t.exited {
			t.termed = true
			_ = unix.Kill(-t.pid, unix.SIGTERM)
		}
		s.terminating = append(s.terminating, t)
	case r.kind == reqKill && !t.killing:
		t.killing = true
		s.killing++
		s.nextKill, s.killPause = time.Now(), firstKillPause
	}
}

// add records the outcome of a fork.
func (s *server) add(f forkResult) {
	left := s.pending.remove(f.id)
	s.changed = true
	if f.err == nil {
		t := &tree{id: f.id, pid: f.pid}
		s.removeOrphan(f.pid)
		s.trees[f.id], s.leaders[f.pid] = t, t
		s.newest = max(s.newest, f.id)
		if ws, ok := s.early[f.pid]; ok {
			delete(s.early, f.pid)
			s.exited(t, ws)
		}
	}
	if left == 0 {
		clear(s.early)
	}
}

// reap records all exits. It reports whether any process is left below us.
func (s *server) reap() bool {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			return false
		case pid <= 0:
			return true
		}
		t, o := s.leaders[pid], s.orphans[pid]
		switch {
		case t != nil && !t.exited:
			s.exited(t, ws)
		case o != nil:
			s.removeOrphan(pid)
		case s.pending.count() > 0:
			s.early[pid] = ws
		}
		s.changed = true // its own children have become ours
	}
}

// removeOrphan forgets an orphan that has ended, or turns out to be a child.
func (s *server) removeOrphan(pid int) {
	if o := s.orphans[pid]; o != nil && o.tree != nil {
		o.tree.orphans--
	}
	delete(s.orphans, pid)
}

// exited records that a child has ended, and sends SIGTERM to the rest of its process group. The group's id stays taken as long as
// a process is in it, and freed ids are given out again only after all others.
func (s *server) exited(t *tree, ws syscall.WaitStatus) {
	t.exited = true
	s.waiting[t] = true
	if !t.termed {
		t.termed = true
		_ = unix.Kill(-t.pid, unix.SIGTERM)
	}
	s.report(evExited, t.id, int32(ws)) //nolint:gosec // G115: the same bits
	s.changed = true
}

// gone records that a process tree is empty.
func (s *server) gone(t *tree) {
	delete(s.waiting, t)
	if t.killing {
		s.killing--
	}
	delete(s.trees, t.id)
	if s.leaders[t.pid] == t {
		delete(s.leaders, t.pid)
	}
	s.report(evGone, t.id, 0)
}

// sweepIfDue sweeps the processes if there is a reason to, and not too often, and sets the alarm for the next time.
func (s *server) sweepIfDue() {
	now := time.Now()
	due := now.Add(time.Hour)
	killing := s.killing > 0 || s.unowned
	switch {
	case s.changed && len(s.waiting) > 0, len(s.terminating) > 0:
		due = s.notBefore
	case killing:
		due = s.nextKill
		if due.Before(s.notBefore) {
			due = s.notBefore
		}
	}
	if due.After(now) {
		s.alarm.Reset(due.Sub(now))
		return
	}
	s.sweep(killing && !s.nextKill.After(now))
	after := time.Now()
	s.notBefore = after.Add(max(after.Sub(now), minSweepPause))
	s.alarm.Reset(firstKillPause)
}

// end ends everything that is left once Dragoman is gone. The stdin of the children has ended by then. It goes on killing for that long.
func (s *server) end(killing time.Duration) int {
	if s.left() {
		s.signalAll(unix.SIGTERM)
	}
	kill := time.Now().Add(termGrace)
	limit := kill.Add(killing)
	pause := firstKillPause
	for s.left() {
		now := time.Now()
		if now.After(limit) {
			return 1
		}
		next := kill.Sub(now)
		if next <= 0 {
			s.signalAll(unix.SIGKILL)
			next, pause = pause, min(2*pause, killLimit/10)
		}
		s.alarm.Reset(next)
		select {
		case f := <-s.forked:
			s.pending.remove(f.id)
			if f.err == nil { // too late
				_ = unix.Kill(-f.pid, unix.SIGKILL)
			}
		case <-s.exits:
		case <-s.alarm.C:
		}
	}
	return 0
}

// left reports whether any process is left, or about to be forked.
func (s *server) left() bool { return s.reap() || s.pending.count() > 0 || s.remains() }
