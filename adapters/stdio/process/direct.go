//go:build unix

package process

import (
	"os/exec"
	"sync"
	"time"
)

// direct is a child without a reaper, and its process group.
type direct struct {
	cmd *exec.Cmd
	pid int

	mu     sync.Mutex
	ended  bool      // the child has exited: only wait and sweep may signal its group from now on
	termed time.Time // when the group got SIGTERM; zero if it did not
}

// startDirect starts the command without a reaper.
func startDirect(cmd *exec.Cmd) (tree, int, error) {
	if err := launch(cmd); err != nil {
		return nil, 0, err
	}
	d := &direct{cmd: cmd, pid: cmd.Process.Pid}
	return d, d.pid, nil
}

// signal signals the group unless the child has exited: its id might belong to another process by then.
func (d *direct) signal(s signalKind) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return
	}
	if s == sigTerm {
		d.termed = time.Now()
	}
	signalGroup(d.pid, s)
}

// wait returns when the child has exited, and reaps it. Only wait reaps the child.
func (d *direct) wait() outcome {
	awaitExit(d.cmd)
	// On Linux the child is a zombie now and keeps its id, so the group is still its own.
	d.mu.Lock()
	d.ended = true
	if d.termed.IsZero() {
		d.termed = time.Now()
		signalGroup(d.pid, sigTerm)
	}
	d.mu.Unlock()
	_ = d.cmd.Wait() // the error repeats ProcessState
	if d.cmd.ProcessState == nil {
		return outcome{code: -1} // other code in this process has reaped it
	}
	code, signal := exitStatus(d.cmd.ProcessState)
	return outcome{code: code, signal: signal}
}

// sweep waits until no process of the group is left, and kills the rest after grace. The id of a group stays in use as
// long as it has members, and the kernel reuses freed ids only after all others, so between two checks the id cannot pass
// to an unrelated group.
func (d *direct) sweep(grace time.Duration) {
	defer released()
	empty := func(thorough bool) bool { return !groupAlive(d.pid, thorough) }
	if emptyBy(d.termed.Add(grace), empty) {
		return
	}
	signalGroup(d.pid, sigKill)
	emptyBy(time.Now().Add(sweepKilled), empty)
}
