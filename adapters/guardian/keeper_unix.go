//go:build unix

package guardian

import (
	"os"
	"os/signal"
	"runtime/metrics"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// socketFD is our end of the socket, as launch hands it over.
	socketFD = 3
	// forkers is how many children can be executed at a time; one on a file system that hangs keeps one of them. Usually they
	// take turns, and wait turnTime for one of them at most.
	forkers  = 4
	turnTime = 50 * time.Millisecond
	// termGrace is how long those who are left have after SIGTERM when Dragoman is gone, and killLimit how long we then
	// try to end them: nobody can refuse SIGKILL, but the kernel may take its time.
	termGrace = 500 * time.Millisecond
	killLimit = time.Second
	// pressFirst and pressMost are the pauses between two sweeps of a family that is being killed.
	pressFirst = 5 * time.Millisecond
	pressMost  = time.Second
)

// keeper is the guardian process. One goroutine, run, has all of it; it alone reaps. Besides there are the receiver, which
// reads requests, and the forkers, to whom it gives the starts; all end with the process.
type keeper struct {
	mark  string // the part of all marks before the child's number
	brand uint64 // likewise of the other mark

	requests chan request
	jobs     chan order
	turns    turns
	busy     atomic.Int32 // forkers that are forking
	forked   chan birth
	deaths   chan os.Signal
	alarm    *time.Timer
	calm     *time.Timer // for tidying once nothing has happened for calmTime

	families map[uint64]*family
	leaders  map[int]*family            // by the child's process id
	orphans  map[int]*orphan            // processes that came to us when they lost their parent
	early    map[int]syscall.WaitStatus // exits of processes that are not known yet, while something is being forked
	pending  pending                    // children that are being forked
	newest   uint64                     // the number of the last child that was started
	files    reader

	waiting map[*family]bool // families whose child has exited and that are not known to be gone
	look    bool             // somebody may be gone, or new
	asked   []*family        // to be sent SIGTERM, as far as they are not in the child's group
	killing int              // families that are being killed
	doomed  bool             // there are orphans who belong to nobody that is left
	press   time.Time        // when those that are being killed are looked for again
	pause   time.Duration
	quiet   int       // rounds since memory was looked at
	tidied  time.Time // when it was collected last
	rest    time.Time // no look at the processes before: looking takes at most half of our time
}

// family is a child and what descends from it.
type family struct {
	id      uint64
	pid     int
	exited  bool // the child has been reaped
	termed  bool // its group has got SIGTERM
	killing bool
	kin     int // orphans that belong to it
}

// orphan is a process that lost its parent.
type orphan struct {
	family *family // whose it is; nil if that is not known or long gone
	doomed bool    // nobody can own it who is left
	before uint64  // if family is nil: started by one of the children up to this number
	asked  bool    // it has got SIGTERM after the child's exit
}

// pending are the children that are being forked: from before the fork, until run knows of it.
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

type request struct {
	kind  kind
	order order
	err   error
}

type birth struct {
	id  uint64
	pid int
	err error
}

// watchOver is what a guardian does. It returns the process's exit code when Dragoman has closed its end of the socket, or has
// ended, and nobody is left that it had started.
func watchOver() int {
	deaf()
	k := &keeper{
		brand: brandOf(os.Getenv(callKey)),
		mark:  MarkKey + "=" + os.Getenv(callKey) + "-",
		turns: make(turns, 1), requests: make(chan request, 16), jobs: make(chan order, 2*startsMost),
		forked: make(chan birth, 2*startsMost),
		deaths: make(chan os.Signal, 1), alarm: time.NewTimer(time.Hour), calm: time.NewTimer(calmTime),
		families: map[uint64]*family{}, leaders: map[int]*family{}, orphans: map[int]*orphan{}, early: map[int]syscall.WaitStatus{},
		pending: pending{ids: map[uint64]bool{}}, pause: pressFirst, waiting: map[*family]bool{},
	}
	syscall.CloseOnExec(socketFD)
	if err := adopt(); err != nil || !isSocket(socketFD) {
		return 2
	}
	k.turns.pass()
	say(sayHello, 0, version) // before anything can be started
	go k.receive()            // before the forkers: there is a request already, most likely
	for range forkers {
		go k.fork()
	}
	signal.Notify(k.deaths, syscall.SIGCHLD) // takes its time, in which the first child is made
	k.reap()                                 // who has ended before that
	return k.run()
}

func isSocket(fd int) bool {
	_, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_TYPE)
	return err == nil
}

func (k *keeper) run() int {
	for {
		select {
		case r, ok := <-k.requests:
			if !ok {
				return k.end()
			}
			k.take(r)
		case b := <-k.forked:
			k.born(b)
		case <-k.deaths:
			k.reap()
		case <-k.alarm.C:
		case <-k.calm.C:
			k.tidy(0)
			continue
		}
		k.settle()
		k.calm.Reset(calmTime)
		if k.quiet++; k.quiet >= quietRounds {
			k.quiet = 0
			most := uint64(heapMost)
			if time.Since(k.tidied) > tidyTime {
				most = 0
			}
			k.tidy(most)
		}
	}
}

const (
	// heapMost is how much memory may be used before what of it is garbage is looked for, every so many rounds of work.
	heapMost    = 1 << 20
	quietRounds = 16
	// calmTime is after how long without work everything is given back that is not needed.
	calmTime = 2 * time.Second
	// tidyTime is the longest time without a collection of ours, so that the runtime, which wants one every two minutes, makes
	// none at a bad moment.
	tidyTime = time.Minute
	// lazyGC is GOGC, as launch sets it; it lets the runtime collect by itself at 800 MiB. Never would do as well, but then it takes
	// the heap for a very large one, and its own books get memory by the two megabytes.
	lazyGC = 20_000
)

// tidy collects garbage if more than most is used, which the runtime does not do by itself here: it would have to stop all
// threads for it, and one that forks stands still, and all with it, until the file system has found what to execute.
func (k *keeper) tidy(most uint64) {
	used := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	if metrics.Read(used); used[0].Value.Kind() != metrics.KindUint64 || used[0].Value.Uint64() < most {
		return
	}
	select {
	case <-k.turns: // nobody begins to fork now
		if k.busy.Load() == 0 {
			freeOSMemory() // collects too; what was used once is not kept, since this process is to be small
			k.tidied = time.Now()
		}
		k.turns.pass()
	default:
	}
}

// take does what a request wants.
func (k *keeper) take(r request) {
	for k.pending.has(r.order.id) { // Dragoman knows already that it has been started
		k.born(<-k.forked)
	}
	f := k.families[r.order.id]
	switch {
	case r.kind == askStart && r.err != nil:
		say(sayFailed, r.order.id, int32(errnoOf(r.err))) //nolint:gosec // G115: small
	case f == nil: // gone meanwhile
	case r.kind == askTerm:
		if !f.exited {
			f.termed = true
			_ = syscall.Kill(-f.pid, syscall.SIGTERM)
		}
		k.asked = append(k.asked, f)
	case r.kind == askKill && !f.killing:
		f.killing = true
		k.killing++
		k.press, k.pause = time.Now(), pressFirst
	}
}

// born takes in a child that has been forked, or was not.
func (k *keeper) born(b birth) {
	left := k.pending.remove(b.id)
	k.look = true
	if b.err == nil {
		f := &family{id: b.id, pid: b.pid}
		k.disown(b.pid)
		k.families[b.id], k.leaders[b.pid] = f, f
		k.newest = max(k.newest, b.id)
		if ws, ok := k.early[b.pid]; ok {
			delete(k.early, b.pid)
			k.exited(f, ws)
		}
	}
	if left == 0 {
		clear(k.early)
	}
}

// reap takes in all exits. It tells whether anybody is left below us.
func (k *keeper) reap() bool {
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
		f, o := k.leaders[pid], k.orphans[pid]
		switch {
		case f != nil && !f.exited:
			k.exited(f, ws)
		case o != nil:
			k.disown(pid)
		case k.pending.count() > 0:
			k.early[pid] = ws
		}
		k.look = true // what it had started came to us
	}
}

// disown takes an orphan off the list: it has ended, or turns out to be a child.
func (k *keeper) disown(pid int) {
	if o := k.orphans[pid]; o != nil && o.family != nil {
		o.family.kin--
	}
	delete(k.orphans, pid)
}

// exited notes that a child has ended. Whoever is left of its group has lost the one who spoke with Dragoman and is asked
// to go. The group's id is its own as long as anybody is in it, and freed ids are given out again only after all others.
func (k *keeper) exited(f *family, ws syscall.WaitStatus) {
	f.exited = true
	k.waiting[f] = true
	if !f.termed {
		f.termed = true
		_ = syscall.Kill(-f.pid, syscall.SIGTERM)
	}
	say(sayExited, f.id, int32(ws)) //nolint:gosec // G115: the same bits
	k.look = true
}

// gone notes that nobody of a family is left.
func (k *keeper) gone(f *family) {
	delete(k.waiting, f)
	if f.killing {
		k.killing--
	}
	delete(k.families, f.id)
	if k.leaders[f.pid] == f {
		delete(k.leaders, f.pid)
	}
	say(sayGone, f.id, 0)
}

// settle looks at the processes if there is a reason to, and not too often, and sets the alarm for the next time.
func (k *keeper) settle() {
	now := time.Now()
	due := now.Add(time.Hour)
	pressing := k.killing > 0 || k.doomed
	switch {
	case k.look && len(k.waiting) > 0, len(k.asked) > 0:
		due = k.rest
	case pressing:
		due = k.press
		if due.Before(k.rest) {
			due = k.rest
		}
	}
	if due.After(now) {
		k.alarm.Reset(due.Sub(now))
		return
	}
	k.tend(pressing && !k.press.After(now))
	after := time.Now()
	k.rest = after.Add(max(after.Sub(now), restLeast))
	k.alarm.Reset(pressFirst)
}

// end is what is done when Dragoman is gone. Stdin of the children has ended with it.
func (k *keeper) end() int {
	if k.reap() || k.pending.count() > 0 || k.remains() {
		k.everybody(syscall.SIGTERM)
	}
	kill := time.Now().Add(termGrace)
	limit := kill.Add(killLimit)
	pause := pressFirst
	for k.reap() || k.pending.count() > 0 || k.remains() {
		now := time.Now()
		if now.After(limit) {
			return 1
		}
		next := kill.Sub(now)
		if next <= 0 {
			k.everybody(syscall.SIGKILL)
			next, pause = pause, min(2*pause, killLimit/10)
		}
		k.alarm.Reset(next)
		select {
		case b := <-k.forked:
			k.pending.remove(b.id)
			if b.err == nil { // too late
				_ = syscall.Kill(-b.pid, syscall.SIGKILL)
			}
		case <-k.deaths:
		case <-k.alarm.C:
		}
	}
	return 0
}

func errnoOf(err error) syscall.Errno {
	if e, ok := err.(syscall.Errno); ok {
		return e
	}
	return syscall.EINVAL
}

// numberOf reads the child's number from a mark; 0 if it is not ours.
func (k *keeper) numberOf(entry string) uint64 {
	if len(entry) < len(k.mark) || entry[:len(k.mark)] != k.mark {
		return 0
	}
	n, err := strconv.ParseUint(entry[len(k.mark):], 10, 64)
	if err != nil {
		return 0
	}
	return n
}
