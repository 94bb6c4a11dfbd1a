package cli

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"dragoman/conformance/mock"
	"dragoman/internal/app"
)

// collectAt is how much the heap may grow, in percent of what lives, before it is collected. A proxy keeps little alive and
// makes much garbage: at the default of 100 the collector runs after every few hundred requests, to save a few megabytes.
const collectAt = 400

// Main runs the command line of this process and returns its exit code.
func Main() int {
	if mock.RelayCalled(os.Args) { // we are the server of a client under `dragoman conformance --client`, which signals concern
		return mock.Relay(os.Args[2], os.Stdin, os.Stdout, os.Stderr)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
	ctx, stop := interruptible(context.Background(), os.Exit)
	code := Execute(ctx, os.Args[1:], os.Environ(), app.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, Assembled())
	stop()
	return code
}

// Assembled is what the commands run in earnest.
func Assembled() Runners {
	return Runners{Serve: app.RunServe, Stdio: app.RunStdio, Probe: app.RunProbe, Demo: app.RunDemo, Conformance: runConformance, Bench: runBench}
}

// interruptible is a context that ends with the first SIGINT or SIGTERM, so
// that what runs drains; the second one ends the process at once through
// exit, for whoever cannot wait. stop ends the watching.
func interruptible(parent context.Context, exit func(code int)) (ctx context.Context, stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, stopWatch := watch(parent, signals, exit)
	return ctx, func() {
		signal.Stop(signals)
		stopWatch()
	}
}

// watch is interruptible without the operating system. stop waits for the
// goroutine that watches.
func watch(parent context.Context, signals <-chan os.Signal, exit func(code int)) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for count := 0; ; count++ {
			select {
			case <-signals:
			case <-quit:
				return
			}
			if count > 0 {
				exit(exitInterrupted)
				return
			}
			cancel()
		}
	}()
	return ctx, func() {
		close(quit)
		<-ended
		cancel()
	}
}
