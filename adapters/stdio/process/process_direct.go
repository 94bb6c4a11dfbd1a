//go:build unix

package process

import (
	"os/exec"
	"sync"
	"time"
)

// direct is a child of our own and its process group.
type direct struct {
	cmd *exec.Cmd
	pid int

	mu     sync.Mutex
	ended  bool      // the child has exited: its group may only be signalled by wait and sweep from now on
	termed time.Time // when the group got SIGTERM; zero if it did not
}

// startDirect starts the command without a reaper.
func startDirect(cmd *exec.Cmd) (kin, int, error) {
	if err := launch(cmd); err != nil {
		return nil, 0, err
	}
	d := &direct{cmd: cmd, pid: cmd.Process.Pid}
	return d, d.pid, nil
}

// signal sends to the group unless the child has exited: its id might be somebody else's by then.
func (d *direct) signal(s signalKind) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return
	}
	if s == sigTerm {
		d.termed = time.Now()
	}
	signalGroup(d.cmd.Process, s)
}

// wait is the only place that reaps the child.
func (d *direct) wait() outcome {
	awaitExit(d.cmd)
	// On Linux the child is a zombie now and keeps its id, so the group is certainly its own.
	d.mu.Lock()
	d.ended = true
	if d.termed.IsZero() {
		d.termed = time.Now()
		signalGroup(d.cmd.Process, sigTerm)
	}
	d.mu.Unlock()
	_ = d.cmd.Wait() // says what ProcessState says
	if d.cmd.ProcessState == nil {
		return outcome{code: -1} // somebody else in this process has reaped it
	}
	code, signal := exitStatus(d.cmd.ProcessState)
	return outcome{code: code, signal: signal}
}

// sweep sees to it that nobody of the group outlives the child. The id of a group stays taken as long as somebody is in it,
// and freed ids are given out again only after all others, so between two looks it cannot become a stranger's.
func (d *direct) sweep(grace time.Duration) {
	defer released()
	limit := d.termed.Add(grace)
	killed := false
	for pause := sweepFirst; groupAlive(d.pid, pause > sweepMost/4); pause = min(2*pause, sweepMost) {
		left := time.Until(limit)
		switch {
		case left > 0:
			time.Sleep(min(pause, left))
		case killed:
			return
		default:
			signalGroupID(d.pid, sigKill)
			killed = true
			limit, pause = time.Now().Add(sweepKilled), sweepFirst/2
		}
	}
}
