//go:build unix

package process

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"dragoman/adapters/stdio/reaper"
)

// errDirectory is the error for a directory in place of a program.
const errDirectory = syscall.EISDIR

// spawnTree starts a child with the three standard streams: by the reaper if one is available, else directly.
func spawnTree(ctx context.Context, c Command, path string, std [3]*os.File) (tree, int, error) {
	path, c.Argv, c.Env = c.Limits.Wrap(path, c.Argv, c.Env)
	if c.Reaper != nil {
		spec := reaper.Spec{Path: path, Argv: c.Argv, Env: lastOf(c.Env), Dir: c.Dir, Stdin: std[0], Stdout: std[1], Stderr: std[2]}
		child, err := c.Reaper.Start(ctx, spec)
		if errors.Is(err, reaper.ErrLost) { // it was killed; there is a new one, which may start the child
			child, err = c.Reaper.Start(ctx, spec)
		}
		if err == nil {
			return &reaperTree{child: child}, child.PID(), nil
		}
		if !errors.Is(err, reaper.ErrUnavailable) {
			return nil, 0, err
		}
	}
	d, err := startDirect(directCommand(c, path, std))
	if err != nil {
		return nil, 0, err
	}
	return d, d.cmd.Process.Pid, nil
}

// lastOf keeps the last of equal keys, as os/exec does itself, and drops the reaper's own key.
func lastOf(env []string) []string {
	out := make([]string, 0, len(env)+1)
	seen := make(map[string]bool, len(env)+1)
	seen[reaper.MarkKey] = true // set by the reaper
	for _, entry := range slices.Backward(env) {
		key, _, ok := strings.Cut(entry, "=")
		if ok && seen[key] {
			continue
		}
		seen[key] = seen[key] || ok
		out = append(out, entry)
	}
	slices.Reverse(out)
	return out
}

// reaperTree is a child of the reaper, and all its descendants.
type reaperTree struct {
	child *reaper.Child

	mu    sync.Mutex
	asked time.Time // time of SIGTERM, or of the child's exit
}

func (g *reaperTree) signal(s syscall.Signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.child.Exited():
		return
	default:
	}
	if s == syscall.SIGKILL {
		g.child.Kill()
		return
	}
	g.asked = time.Now()
	g.child.Terminate()
}

// wait does not signal the remaining descendants; the reaper does.
func (g *reaperTree) wait() outcome {
	e := g.child.Exit()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.asked.IsZero() {
		g.asked = time.Now()
	}
	return outcome{code: e.Code, signal: unix.SignalName(e.Signal), lost: e.Lost}
}

// reaperKilled is how long sweep waits after SIGKILL for all descendants to end: there may be many, and they may be
// forking.
const reaperKilled = 5 * time.Second

func (g *reaperTree) sweep(grace time.Duration) {
	if closedWithin(g.child.Gone(), time.Until(g.asked.Add(grace))) { // asked does not change after wait
		return
	}
	g.child.Kill()
	closedWithin(g.child.Gone(), reaperKilled)
}

// direct is a child without a reaper, and its process group.
type direct struct {
	cmd  *exec.Cmd
	exit chan struct{} // closed when the child has exited

	mu     sync.Mutex
	ended  bool      // the child has exited: only wait and sweep may signal its group from now on
	termed time.Time // when the group got SIGTERM; zero if it did not
}

// startDirect starts the command without a reaper, on a thread that then waits for the child's exit. On Linux the child gets
// SIGTERM when the thread that forked it ends (see sysProcAttr), so that thread has to outlive the child.
func startDirect(cmd *exec.Cmd) (*direct, error) {
	d := &direct{cmd: cmd, exit: make(chan struct{})}
	started := make(chan error)
	go func() { // ends with the child
		defer close(d.exit)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			awaitExit(cmd)
		}
	}()
	return d, <-started
}

// signal signals the group unless the child has exited: its id might belong to another process by then.
func (d *direct) signal(s syscall.Signal) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return
	}
	if s == syscall.SIGTERM {
		d.termed = time.Now()
	}
	d.signalGroup(s)
}

// signalGroup signals the process group. An empty group is no error.
func (d *direct) signalGroup(s syscall.Signal) { _ = unix.Kill(-d.cmd.Process.Pid, s) }

// wait returns when the child has exited, and reaps it. Only wait reaps the child.
func (d *direct) wait() outcome {
	<-d.exit
	// On Linux the child is a zombie now and keeps its id, so the group is still its own.
	d.mu.Lock()
	d.ended = true
	if d.termed.IsZero() {
		d.termed = time.Now()
		d.signalGroup(syscall.SIGTERM)
	}
	d.mu.Unlock()
	_ = d.cmd.Wait() // the error repeats ProcessState
	state := d.cmd.ProcessState
	if state == nil {
		return outcome{code: -1} // other code in this process has reaped it
	}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return outcome{code: -1, signal: unix.SignalName(ws.Signal())}
	}
	return outcome{code: state.ExitCode()}
}

// sweep waits until no process of the group is left, and kills the rest after grace. The id of a group stays in use as
// long as it has members, and the kernel reuses freed ids only after all others, so between two checks the id cannot pass
// to an unrelated group.
func (d *direct) sweep(grace time.Duration) {
	empty := func(thorough bool) bool { return !groupAlive(d.cmd.Process.Pid, thorough) }
	if emptyBy(d.termed.Add(grace), empty) {
		return
	}
	d.signalGroup(syscall.SIGKILL)
	emptyBy(time.Now().Add(sweepKilled), empty)
}

// groupAlive reports whether the group has members. It also reaps members that have become the proxy's own children
// because the proxy is the system's first process, as in a container, or a subreaper. A thorough check does not count
// members that only wait to be reaped by another process: they would look alive for ever on a system whose first process
// does not reap.
func groupAlive(pgid int, thorough bool) bool {
	for {
		pid, err := unix.Wait4(-pgid, nil, unix.WNOHANG, nil)
		if err == unix.EINTR {
			continue
		}
		if pid <= 0 || err != nil {
			break
		}
	}
	if unix.Kill(-pgid, 0) != nil {
		return false
	}
	return !thorough || !reaper.GroupEnded(pgid)
}
