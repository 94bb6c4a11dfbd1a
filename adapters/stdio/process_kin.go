package stdio

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"dragoman/adapters/guardian"
)

const (
	// sweepFirst and sweepMost are the pauses between two looks at a group that is ending.
	sweepFirst = time.Millisecond
	sweepMost  = 50 * time.Millisecond
	// sweepKilled is how long we look on after SIGKILL: nobody can refuse it, but the kernel may take its time.
	sweepKilled = time.Second
)

// kin is a child that runs, and those who descend from it: the relatives it is known to have.
type kin interface {
	// wait returns when the child has exited, which may come at any time, and has been reaped. Who is left has lost the one
	// who spoke with us, and has been asked to go. It is called once.
	wait() outcome
	// signal sends to all of them. Once the child has exited it does nothing.
	signal(s signalKind)
	// sweep is called after wait and returns when nobody is left. Who is there after grace, from when they were asked to go,
	// gets SIGKILL.
	sweep(grace time.Duration)
}

// outcome is how a child ended.
type outcome struct {
	code   int    // -1 if a signal ended it, or nobody knows
	signal string // that signal's name
	lost   bool   // its guardian ended first
}

// bear starts a child with these three streams, by the guardian if there is one, and else directly.
func bear(ctx context.Context, c Command, path string, std [3]*os.File) (kin, int, error) {
	if c.Guardian != nil {
		child, err := c.Guardian.Start(ctx, guardian.Spec{Path: path, Argv: c.Argv, Env: lastOf(c.Env), Dir: c.Dir,
			Stdin: std[0], Stdout: std[1], Stderr: std[2]})
		if err == nil {
			return &guarded{child: child}, child.PID(), nil
		}
		if !errors.Is(err, guardian.ErrUnavailable) {
			return nil, 0, err
		}
	}
	d := &direct{cmd: &exec.Cmd{Path: path, Args: c.Argv, Env: exactEnv(c.Env), Dir: c.Dir, SysProcAttr: sysProcAttr(),
		Stdin: std[0], Stdout: std[1], Stderr: std[2]}}
	if err := launch(d.cmd); err != nil {
		return nil, 0, err
	}
	d.pid = d.cmd.Process.Pid
	return d, d.pid, nil
}

// exactEnv makes sure that os/exec does not take an empty environment for a wish to inherit ours.
func exactEnv(env []string) []string {
	if env == nil {
		return []string{}
	}
	return env
}

// lastOf leaves the last of equal keys, as os/exec does by itself.
func lastOf(env []string) []string {
	out := make([]string, 0, len(env)+1)
	seen := make(map[string]bool, len(env)+1)
	seen[guardian.MarkKey] = true // comes from the guardian
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

// direct is a child of our own and its process group.
type direct struct {
	cmd *exec.Cmd
	pid int

	mu     sync.Mutex
	ended  bool      // the child has exited: its group may only be signalled by wait and sweep from now on
	termed time.Time // when the group got SIGTERM; zero if it did not
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

// guarded is a child of the guardian's, and everybody that descends from it.
type guarded struct {
	child *guardian.Child

	mu    sync.Mutex
	asked time.Time // when they got SIGTERM, or the child exited
}

func (g *guarded) signal(s signalKind) {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.child.Exited():
		return
	default:
	}
	if s == sigKill {
		g.child.Kill()
		return
	}
	g.asked = time.Now()
	g.child.Terminate()
}

// wait leaves it to the guardian to ask those who are left.
func (g *guarded) wait() outcome {
	e := g.child.Exit()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.asked.IsZero() {
		g.asked = time.Now()
	}
	return outcome{code: e.Code, signal: e.Signal, lost: e.Lost}
}

// guardedKilled is how long we wait after SIGKILL for a family to be gone: it may be large, and forking.
const guardedKilled = 5 * time.Second

func (g *guarded) sweep(grace time.Duration) {
	if g.goneWithin(time.Until(g.asked.Add(grace))) { // asked stays as it is after wait
		return
	}
	g.child.Kill()
	g.goneWithin(guardedKilled)
}

func (g *guarded) goneWithin(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-g.child.Gone():
		return true
	default:
	}
	select {
	case <-g.child.Gone():
		return true
	case <-t.C:
		return false
	}
}
