package process

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"dragoman/adapters/stdio/reaper"
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
	lost   bool   // its reaper ended first
}

// bear starts a child with these three streams, by the reaper if there is one, and else directly.
func bear(ctx context.Context, c Command, path string, std [3]*os.File) (kin, int, error) {
	if c.Reaper != nil {
		child, err := c.Reaper.Start(ctx, reaper.Spec{Path: path, Argv: c.Argv, Env: lastOf(c.Env), Dir: c.Dir,
			Stdin: std[0], Stdout: std[1], Stderr: std[2]})
		if err == nil {
			return &guarded{child: child}, child.PID(), nil
		}
		if !errors.Is(err, reaper.ErrUnavailable) {
			return nil, 0, err
		}
	}
	return startDirect(&exec.Cmd{Path: path, Args: c.Argv, Env: exactEnv(c.Env), Dir: c.Dir, SysProcAttr: sysProcAttr(),
		Stdin: std[0], Stdout: std[1], Stderr: std[2]})
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
	seen[reaper.MarkKey] = true // comes from the reaper
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

// guarded is a child of the reaper's, and everybody that descends from it.
type guarded struct {
	child *reaper.Child

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

// wait leaves it to the reaper to ask those who are left.
func (g *guarded) wait() outcome {
	e := g.child.Exit()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.asked.IsZero() {
		g.asked = time.Now()
	}
	return outcome{code: e.Code, signal: signalName(e.Signal), lost: e.Lost}
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
