// Package cli is the command line: it reads flags and arguments, runs a command, and turns its error into a message and
// an exit code.
package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"dragoman/adapters/stdio/reaper"
	"dragoman/conformance/mock"
	"dragoman/internal/app"
	"dragoman/internal/config"
	"dragoman/internal/config/value"
)

// collectAt is how much the heap may grow, in percent of the live data, before a garbage collection. A proxy keeps little
// alive and makes much garbage: at the default of 100 the collector would run after every few hundred requests to save a
// few megabytes.
const collectAt = 400

// Main runs the command line of this process and returns its exit code.
func Main() int {
	if reaper.Called(os.Args) { // the first child waits for it, so nothing else is set up
		return reaper.Main()
	}
	if mock.RelayCalled(os.Args) { // the server of `dragoman conformance --client`; the signals are for the client
		return mock.Relay(os.Args[2], os.Stdin, os.Stdout, os.Stderr)
	}
	if startsChild(os.Args[1:]) {
		reaper.Prelaunch()
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
	ctx, stop := interruptible(context.Background(), os.Exit)
	defer stop()
	pid, err := parentOf(os.Environ(), os.Getppid())
	_ = os.Unsetenv(config.ParentVariable) // it is not about our children, and a failure is one of the name only
	if err != nil {
		printError(os.Stderr, os.Environ(), err)
		return exitCode(err)
	}
	if pid != 0 {
		var left func()
		ctx, left = withParent(ctx, pid, os.Getppid)
		defer left()
	}
	return Execute(ctx, os.Args[1:], os.Environ(), app.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, Assembled())
}

// Assembled returns the real Runners.
func Assembled() Runners {
	return Runners{Check: app.Check, Serve: app.RunServe, Stdio: app.RunStdio, Probe: app.RunProbe, Demo: runDemo, Conformance: runConformance, Bench: runBench}
}

// sameSignal is how long after the first interrupt another one is taken for the same. A signal to a process group reaches
// us and what has launched us (npx, uvx), which passes it on.
const sameSignal = 500 * time.Millisecond

// interruptible returns a context that ends with the first SIGINT or SIGTERM, so that the running command drains. The
// second signal, later than [sameSignal], ends the process at once through exit. stop ends the signal handling.
func interruptible(parent context.Context, exit func(code int)) (ctx context.Context, stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, stopWatch := watch(parent, signals, exit)
	return ctx, func() {
		signal.Stop(signals)
		stopWatch()
	}
}

// watch is interruptible with signals from a channel. stop waits for its goroutine.
func watch(parent context.Context, signals <-chan os.Signal, exit func(code int)) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		var first time.Time
		for {
			select {
			case <-signals:
			case <-quit:
				return
			}
			switch {
			case first.IsZero():
				first = time.Now()
				cancel()
			case time.Since(first) >= sameSignal:
				exit(exitInterrupted)
				return
			}
		}
	}()
	return ctx, func() {
		close(quit)
		<-ended
		cancel()
	}
}

// newReaper documents the hidden command with which Dragoman starts itself to run child processes and end their process
// trees. [Main] runs it.
func newReaper(*program) *cobra.Command {
	return &cobra.Command{
		Use:     reaper.Command + " [flags]",
		Short:   "Start and end child processes for another dragoman",
		Long:    "Start child processes for the dragoman that started this command, and end their process trees when it is gone.\nIt is not for users.",
		Example: "  dragoman serve -- npx -y @modelcontextprotocol/server-everything   # starts it where it is needed",
		Hidden:  true,
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return usagef("dragoman starts this command itself") },
	}
}

// startsChild reports whether a command line names a COMMAND to start and a command that starts it.
func startsChild(args []string) bool {
	return len(args) > 0 && slices.Contains([]string{"serve", "stdio", "probe"}, args[0]) && slices.Contains(args, "--")
}

// parentCheck is how often the parent is looked for: what was left behind has ended a moment later, and an idle proxy stays idle.
const parentCheck = time.Second

// parentOf returns the process that [config.ParentVariable] names and with which this one ends; 0 means none. now is the parent at the start.
func parentOf(environ []string, now int) (pid int, err error) {
	at := slices.IndexFunc(environ, func(pair string) bool { return strings.HasPrefix(pair, config.ParentVariable+"=") })
	if at < 0 {
		return 0, nil
	}
	text := environ[at][len(config.ParentVariable)+1:]
	switch pid, err = strconv.Atoi(text); {
	case text == "":
		return 0, nil
	case err != nil || pid < 0:
		return 0, usagef("%s is %q; fix: write the id of the process that starts dragoman, or 0", config.ParentVariable, value.Shorten(text))
	case pid != 0 && pid != now:
		return 0, failed(fmt.Errorf("process %d has not started this one, or has ended, and %s names it; fix: unset the variable", pid, config.ParentVariable))
	}
	return now, nil
}

// withParent returns a context that ends when process pid is no longer the parent: a killed launcher cannot pass its signal on. stop ends the
// watch and waits for its goroutine. On Windows a parent never changes.
func withParent(parent context.Context, pid int, current func() int) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(parentCheck)
		defer tick.Stop()
		for current() == pid {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
		cancel()
	}()
	return ctx, func() {
		cancel()
		<-ended
	}
}
