package reaper

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

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
