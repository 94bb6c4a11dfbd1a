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
	// sweepFirst and sweepMost are the shortest and longest pauses between two checks of a group that is ending.
	sweepFirst = time.Millisecond
	sweepMost  = 50 * time.Millisecond
	// sweepKilled is how long sweep waits after SIGKILL, for the kernel to end the processes.
	sweepKilled = time.Second
)

// tree is a running child and its known descendants.
type tree interface {
	// wait returns when the child has exited and been reaped. It asks the remaining descendants to end, because the
	// process that talked to the proxy is gone. It is called once.
	wait() outcome
	// signal signals the child and its descendants. After the child's exit it does nothing.
	signal(s signalKind)
	// sweep is called after wait and returns when no descendant is left. Those that remain after grace, counted from when
	// they were asked to end, get SIGKILL.
	sweep(grace time.Duration)
}

// outcome is how a child ended.
type outcome struct {
	code   int    // -1 if a signal ended it, or if unknown
	signal string // name of that signal
	lost   bool   // the reaper ended first
}

// spawnTree starts a child with the three standard streams: by the reaper if one is available, else directly.
func spawnTree(ctx context.Context, c Command, path string, std [3]*os.File) (tree, int, error) {
	if c.Reaper != nil {
		child, err := c.Reaper.Start(ctx, reaper.Spec{Path: path, Argv: c.Argv, Env: lastOf(c.Env), Dir: c.Dir,
			Stdin: std[0], Stdout: std[1], Stderr: std[2]})
		if err == nil {
			return &reaperTree{child: child}, child.PID(), nil
		}
		if !errors.Is(err, reaper.ErrUnavailable) {
			return nil, 0, err
		}
	}
	// Env is not nil, which would mean the proxy's own environment.
	return startDirect(&exec.Cmd{Path: path, Args: c.Argv, Env: append([]string{}, c.Env...), Dir: c.Dir, SysProcAttr: sysProcAttr(),
		Stdin: std[0], Stdout: std[1], Stderr: std[2]})
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

func (g *reaperTree) signal(s signalKind) {
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

// wait does not signal the remaining descendants; the reaper does.
func (g *reaperTree) wait() outcome {
	e := g.child.Exit()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.asked.IsZero() {
		g.asked = time.Now()
	}
	return outcome{code: e.Code, signal: signalName(e.Signal), lost: e.Lost}
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
