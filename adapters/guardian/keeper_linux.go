package guardian

import (
	"os"
	"strconv"
	"syscall"
	"time"
)

// freezes is how often those who are to be killed are looked for before the first is: who forks faster than we look is met
// again by the next sweep.
const freezes = 8

// restLeast is the least pause between two looks at the processes: we are told when there is a reason for the next.
const restLeast = 0

// adopt makes us the one to whom everybody comes who loses his parent below us (prctl(2), PR_SET_CHILD_SUBREAPER), and gives
// us a short name of our own: who kills by the name of dragoman shall not kill its guardian first.
func adopt() error {
	if fd, err := syscall.Open("/proc/self/comm", syscall.O_WRONLY|syscall.O_CLOEXEC, 0); err == nil {
		_, _ = syscall.Write(fd, []byte("guardian")) // no more than a name
		_ = syscall.Close(fd)
	}
	disinherit()
	return prctl(prSetChildSubreaper, 1)
}

// disinherit closes what we were left with by whoever started Dragoman: it is nothing to us, and nothing to the children. All
// that is our own is close-on-exec, and what came through an exec is not.
func disinherit() {
	for _, name := range list("/proc/self/fd") {
		fd := number([]byte(name))
		if fd > socketFD && inherited(fd) {
			_ = syscall.Close(fd) // whatever it is
		}
	}
}

// childAttr gives a child a session of its own, by which those of its descendants are known who make process groups, and
// SIGTERM should the guardian be killed. Why SIGTERM: the end of stdin and SIGTERM are what launchers (npx, uvx, docker)
// pass on to the server they have started; SIGKILL would make it an orphan.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM}
}

// brandBits are those of a brand that count children.
const brandBits = 32

// brandOf makes the second mark, one that nobody washes off by chance: the limit of file locks, which a process inherits and
// which Linux has not looked at since 2.4 (getrlimit(2), RLIMIT_LOCKS). It has the guardian's secret in the upper half and
// the child's number in the lower. It is 0 where the limit cannot be set.
func brandOf(secret string) uint64 {
	var own syscall.Rlimit
	n, err := strconv.ParseUint(secret[:min(len(secret), 7)], 16, 31)
	if err != nil || syscall.Getrlimit(rlimitLocks, &own) != nil || own.Max != unlimited {
		return 0
	}
	return (n | 1<<30) << brandBits
}

const rlimitLocks = 10 // of asm-generic/resource.h, and of all architectures that Go knows

// burn gives a process its brand: ourselves (pid 0) before a child is forked, so that it has it from the first moment, and
// the child afterwards, should another forker have been in between.
func burn(pid int, brand, id uint64) {
	if brand != 0 {
		// An error, as with a program that has become somebody else's, leaves the other mark.
		_ = prlimit(pid, rlimitLocks, &syscall.Rlimit{Cur: brand | id&(1<<brandBits-1), Max: unlimited})
	}
}

// receiveRights reads with descriptors, close-on-exec from the first moment.
func receiveRights(b, oob []byte) (n, oobn int, err error) {
	for {
		n, oobn, _, _, err = syscall.Recvmsg(socketFD, b, oob, syscall.MSG_CMSG_CLOEXEC)
		if err != syscall.EINTR {
			return n, oobn, err
		}
	}
}

// remains tells whether anybody is left whom reap does not see.
func (k *keeper) remains() bool { return false }

// tend does what can only be done by looking at the processes: finds out whose the orphans are, asks or kills those who are
// to go, and says which families are gone.
func (k *keeper) tend(press bool) {
	k.look = false
	k.census()
	k.terminate()
	if press {
		k.slay()
		k.pause = min(2*k.pause, pressMost)
		k.press = time.Now().Add(k.pause)
	}
	// Nobody but this goroutine reaps, so nobody has left the list of our children since it was read: a family of which
	// anybody lives has its child there, or an orphan.
	for f := range k.waiting {
		if f.kin == 0 {
			k.gone(f)
		}
	}
}

// census takes in the orphans that are new.
func (k *keeper) census() {
	for _, pid := range k.files.children() {
		if f := k.leaders[pid]; f != nil && !f.exited || k.orphans[pid] != nil {
			continue
		}
		p, ok := k.files.process(pid)
		if !ok || p.ended() { // reap will meet it
			continue
		}
		if o := k.recognise(p); o != nil {
			k.orphans[pid] = o
			if o.family != nil {
				o.family.kin++
			}
		}
	}
	k.doomed = false
	for _, o := range k.orphans {
		if o.family == nil && !o.doomed {
			k.guess(o)
		}
		k.doomed = k.doomed || o.doomed
	}
}

// recognise finds out whose an orphan is: by session and group, which a family's child leads, else by its marks. It is nil
// for what may be a child that is just being forked.
func (k *keeper) recognise(p proc) *orphan {
	for _, id := range [...]int{p.session, p.group} {
		if f := k.leaders[id]; f != nil {
			return &orphan{family: f}
		}
	}
	n := k.numberOf(k.files.marked(p.pid, k.mark))
	// A child that is just being forked may bear another's brand, see turns.
	if forked := p.unborn && k.pending.count() > 0; n == 0 && !forked {
		n = k.files.branded(p.pid, k.brand)
	}
	if n != 0 {
		switch f := k.families[n]; {
		case f != nil:
			return &orphan{family: f}
		case k.pending.has(n):
			return nil
		}
		return &orphan{doomed: true}
	}
	if k.pending.count() > 0 {
		return nil
	}
	return &orphan{before: k.newest}
}

// guess decides about an orphan without session, group or mark: it belongs to one of the families that there were when it
// was seen first. When one is left of them it is taken for that one's, and if none is it has to go.
func (k *keeper) guess(o *orphan) {
	var only *family
	for _, f := range k.families {
		if f.id <= o.before {
			if only != nil {
				return
			}
			only = f
		}
	}
	if o.family = only; only == nil {
		o.doomed = true
		return
	}
	only.kin++
}

// terminate sends SIGTERM to those of the asked families, and of those whose child has exited, who are not in the child's
// group, which has had it.
func (k *keeper) terminate() {
	roots := map[int]bool{}
	for _, f := range k.asked {
		if !f.exited {
			roots[f.pid] = true
		}
		for pid, o := range k.orphans {
			if o.family == f {
				roots[pid], o.asked = true, true
			}
		}
	}
	k.asked = nil
	for pid, o := range k.orphans {
		if o.family != nil && o.family.exited && !o.asked {
			roots[pid], o.asked = true, true
		}
	}
	if len(roots) == 0 {
		return
	}
	for _, p := range k.files.everybody().below(roots) {
		if f := k.leaders[p.group]; f == nil || !f.termed {
			_ = syscall.Kill(p.pid, syscall.SIGTERM)
		}
	}
}

// slay kills the families that are to be killed, and orphans who are nobody's.
func (k *keeper) slay() {
	for _, f := range k.families {
		if f.killing && !f.exited {
			_ = syscall.Kill(-f.pid, syscall.SIGSTOP) // the whole group at once; who is being forked is in it
		}
	}
	freeze(func() []proc {
		k.census()
		roots := map[int]bool{}
		for _, f := range k.families {
			if f.killing && !f.exited {
				roots[f.pid] = true
			}
		}
		for pid, o := range k.orphans {
			if o.doomed || o.family != nil && o.family.killing {
				roots[pid] = true
			}
		}
		return k.files.everybody().below(roots)
	})
}

// freeze stops everybody that find finds until it finds nobody new, and kills them then. If they were killed one by one,
// those who are left would fork on, and lose the parents by whom they are found.
func freeze(find func() []proc) {
	stopped := map[int]bool{}
	for range freezes {
		fresh := false
		for _, p := range find() {
			if !stopped[p.pid] {
				stopped[p.pid], fresh = true, true
				_ = syscall.Kill(p.pid, syscall.SIGSTOP)
			}
		}
		if !fresh {
			break
		}
	}
	for pid := range stopped {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// everybody signals all that there is below us.
func (k *keeper) everybody(sig syscall.Signal) {
	first := sig
	if sig == syscall.SIGKILL {
		first = syscall.SIGSTOP // see freeze
	}
	for _, f := range k.families {
		if !f.exited {
			_ = syscall.Kill(-f.pid, first) // all of a group at once
		}
	}
	self := map[int]bool{os.Getpid(): true}
	find := func() []proc {
		all := k.files.everybody().below(self)
		for i, p := range all {
			if p.pid == os.Getpid() {
				return append(all[:i], all[i+1:]...)
			}
		}
		return all
	}
	if sig == syscall.SIGKILL {
		freeze(find)
		return
	}
	for _, p := range find() {
		if f := k.leaders[p.group]; f == nil || f.exited {
			_ = syscall.Kill(p.pid, sig)
		}
	}
}

// clearUp ends what a lost guardian has left behind: pids are the children that it had, mark the secret of its marks. The
// children have got SIGTERM at its death (PDEATHSIG). Those whom we become the parent of, as the system's first process, are
// reaped. It takes 1.5 s at most.
func clearUp(mark string, pids []int) {
	if len(pids) == 0 {
		return
	}
	r, brand, known := &reader{}, brandOf(mark), map[int]bool{}
	for _, pid := range pids {
		known[pid] = true
	}
	kill := time.Now().Add(termGrace)
	limit := kill.Add(killLimit)
	for pause := pressFirst; ; pause = min(2*pause, pressMost) {
		left := r.family(known, MarkKey+"="+mark+"-", brand)
		now := time.Now()
		for _, p := range left {
			switch {
			case now.After(kill):
				_ = syscall.Kill(p.pid, syscall.SIGKILL)
			case !known[p.pid]:
				_ = syscall.Kill(p.pid, syscall.SIGTERM)
			}
			known[p.pid] = true
		}
		for pid := range known {
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil) // fails if it is not our child, as is usual
		}
		if len(left) == 0 || now.After(limit) {
			return
		}
		<-time.After(pause)
	}
}

// family finds those that are known by number, group or session, or marked, and all below them.
func (r *reader) family(known map[int]bool, mark string, brand uint64) []proc {
	t := r.everybody()
	roots := map[int]bool{}
	self := os.Getpid()
	for _, p := range t {
		if p.pid != self && (known[p.session] || known[p.group] || r.marked(p.pid, mark) != "" || r.branded(p.pid, brand) != 0) {
			roots[p.pid] = true
		}
	}
	return t.below(roots)
}
