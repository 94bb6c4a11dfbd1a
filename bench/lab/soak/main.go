//go:build linux

// Command soak checks that a Dragoman in front of stdio servers leaks nothing. It starts several, each in front of children that break
// another rule, has thousands of clients come and leave in every possible way, and compares the resources of each Dragoman before and
// after. Then it drains them, and kills one, and looks for surviving processes.
//
// It uses Dragoman by its command line, configuration and metrics only. README.md of the benchmark explains how to run it and how to read
// its output.
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

	// The warm-up takes a sixth of the load's duration, within bounds: in a long run more of the program is used and the heap reaches its
	// final size and layout, and none of that is a leak. A leak grows during the whole load.
	warmPart, warmLeast, warmMost = 6, 20 * time.Second, 10 * time.Minute
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == child.Word {
		os.Exit(child.Main(os.Args[2:]))
	}
	runtime.LockOSThread() // child processes die with the thread that started them
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// execute runs the command line and returns the exit code.
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
	short := f.Bool("short", false, "about a minute in total, as in continuous integration")
	only := f.String("only", ".", "regular expression of the scenarios to run: good, crash, silent, stubborn, fork, noisy, kill")
	f.StringVar(&s.dragoman, "dragoman", "./dragoman", "the Dragoman to soak")
	f.StringVar(&s.npx, "npx", "conformance", "directory whose package.json pins the server to start with npx; \"\" leaves it out")
	f.StringVar(&s.json, "json", "", "file for the figures as JSON")
	f.StringVar(&s.keep, "keep", "", "keep logs and configurations in this directory")
	f.DurationVar(&s.duration, "duration", 3*time.Minute, "length of the load; warm-up and settling come on top")
	f.Uint64Var(&s.seed, "seed", 0, "seed of the clients' behaviour; 0: a random one")
	f.IntVar(&s.rate, "rate", 12, "clients per second in each scenario")
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
		s.seed = uint64(time.Now().UnixNano())
	}
	var err error
	if s.only, err = regexp.Compile(*only); err != nil {
		return s, fmt.Errorf("soak: --only: %w", err)
	}
	return s, s.check(f.Args())
}
