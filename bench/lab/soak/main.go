//go:build linux

// Command soak shows that a Dragoman in front of stdio servers leaks nothing: it starts several, each before children that
// break another rule, lets thousands of clients come and leave in every way there is, and compares what each Dragoman has
// before and after. Then it has them drain, and kills one, and looks for survivors.
//
// It knows of Dragoman the command line, the configuration and the metrics. README.md of the benchmark says how to run it
// and how to read what it prints.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"syscall"
	"time"

	"dragoman/bench/lab/soak/child"
)

const (
	exitFailed = 1
	exitUsage  = 2

	// Warming up is a sixth of the load, within bounds: in a long run more of the program is touched, the heap is once as large as it
	// will be, and its spans come to lie as they stay, and none of that is a leak. What leaks does so for the whole load.
	warmPart, warmLeast, warmMost = 6, 20 * time.Second, 10 * time.Minute
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == child.Word {
		os.Exit(child.Main(os.Args[2:]))
	}
	runtime.LockOSThread() // what we start dies with the thread that started it
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// execute is main without the process: it returns the exit code.
func execute(ctx context.Context, args []string, out, errs io.Writer) int {
	s, err := parseArgs(args, errs)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(errs, err)
		return exitUsage
	}
	r, err := run(ctx, s, errs)
	if errors.Is(err, errInterrupted) {
		fmt.Fprintln(errs, err)
		return exitFailed
	}
	if r != nil {
		r.print(out)
		err = errors.Join(err, r.write(s.json), r.failure())
	}
	if err != nil {
		fmt.Fprintln(errs, err)
		return exitFailed
	}
	return 0
}

func parseArgs(args []string, errs io.Writer) (settings, error) {
	var s settings
	f := flag.NewFlagSet("soak", flag.ContinueOnError)
	f.SetOutput(errs)
	short := f.Bool("short", false, "a minute or so in all: what continuous integration runs")
	only := f.String("only", ".", "scenarios, a regular expression: good, crash, silent, stubborn, fork, noisy, kill")
	f.StringVar(&s.dragoman, "dragoman", "./dragoman", "the Dragoman to soak")
	f.StringVar(&s.npx, "npx", "conformance", "directory whose package.json pins the server that is run by npx; \"\" leaves it out")
	f.StringVar(&s.json, "json", "", "file for the figures as JSON")
	f.StringVar(&s.keep, "keep", "", "directory for logs and configurations, which are removed otherwise")
	f.DurationVar(&s.duration, "duration", 3*time.Minute, "of the load; warming up and settling come on top")
	f.Uint64Var(&s.seed, "seed", 0, "of what clients do; 0 is a new one")
	f.IntVar(&s.rate, "rate", 12, "clients a second, of each scenario")
	if err := f.Parse(args); err != nil {
		return s, fmt.Errorf("soak: %w", err)
	}
	given := map[string]bool{}
	f.Visit(func(f *flag.Flag) { given[f.Name] = true })
	s.warmup, s.patience, s.rounds = min(max(s.duration/warmPart, warmLeast), warmMost), 3*time.Minute, 3
	if *short {
		s.warmup, s.patience, s.rounds = 4*time.Second, time.Minute, 1
		if !given["duration"] {
			s.duration = 25 * time.Second
		}
	}
	if s.seed == 0 {
		s.seed = uint64(time.Now().UnixNano()) //nolint:gosec // any number will do
	}
	var err error
	if s.only, err = regexp.Compile(*only); err != nil {
		return s, fmt.Errorf("soak: --only: %w", err)
	}
	return s, s.check(f.Args())
}
