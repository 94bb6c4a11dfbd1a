//go:build linux

// Command peers compares Dragoman with other bridges and gateways. Each runs in front of the same child or the same HTTP server, is called
// by the same clients, and is a process of its own. It measures processes and memory by sessions, the time to the first answer, answers per
// second and CPU time per answer, and what is left of abandoned sessions.
//
// It uses Dragoman and the peers by their command lines only. README.md of bench explains how to read its output.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	exitFailed = 1
	exitUsage  = 2
	maxRounds  = 100
)

// The steps.
const (
	stepSessions  = "sessions"
	stepStartup   = "startup"
	stepRates     = "rates"
	stepIdle      = "idle"
	stepAbandoned = "abandoned"
)

func allSteps() []string {
	return []string{stepStartup, stepRates, stepSessions, stepIdle, stepAbandoned}
}

func main() {
	if len(os.Args) > 1 && (os.Args[1] == echoWord || os.Args[1] == serveWord) {
		if err := play(os.Args[1:], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(exitFailed)
		}
		return
	}
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
	if err = compare(ctx, s, out, errs); err != nil {
		fmt.Fprintln(errs, err)
		return exitFailed
	}
	return 0
}

// compare runs the comparison. A failure of a contender is part of the report; an error is returned for what would make the report wrong.
func compare(ctx context.Context, s settings, out, errs io.Writer) error {
	if s.summarise != "" {
		return summarise(s.summarise)
	}
	runtime.LockOSThread() // the processes die with the thread that starts them
	defer runtime.UnlockOSThread()
	b, err := newBench(s, errs)
	if err != nil {
		return err
	}
	defer b.close()
	r := newReport(ctx, &b.settings)
	for _, step := range []struct {
		name string
		run  func(context.Context, *report) error
	}{
		{stepStartup, b.measureStarts}, {stepRates, b.measureRates}, {stepSessions, b.countSessions},
		{stepIdle, b.weighIdle}, {stepAbandoned, b.countAbandoned},
	} {
		if !slices.Contains(s.steps, step.name) {
			continue
		}
		b.say("== %s", step.name)
		if err = step.run(ctx, r); err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("peers: %s: %w", step.name, err)
		}
	}
	r.finish(b.absent, b.leftover)
	names, err := r.write(s.results)
	if err != nil {
		return err
	}
	if err = r.document().Markdown(out); err != nil {
		return fmt.Errorf("peers: %w", err)
	}
	fmt.Fprintln(errs, "peers: written to", strings.Join(names, ", ")+"; --summarise with the first copies its verdicts to "+summaryFile)
	return r.failure()
}

func parseArgs(args []string, errs io.Writer) (settings, error) {
	s := settings{without: map[string]string{}}
	f := flag.NewFlagSet("peers", flag.ContinueOnError)
	f.SetOutput(errs)
	f.BoolVar(&s.short, "short", false, "fewer and shorter rounds and smaller counts, to test the comparison itself")
	steps := f.String("steps", "", "comma-separated steps to run (default all): "+strings.Join(allSteps(), ","))
	only := f.String("only", "", "comma-separated contenders to measure; --list names them")
	list := f.Bool("list", false, "list the contenders and exit")
	f.StringVar(&s.dragoman, "dragoman", "./dragoman", "the Dragoman to measure")
	f.StringVar(&s.node, "node", "node", "the Node.js that runs the peers from npm")
	f.StringVar(&s.npm, "npm", "bench/.tmp/peers/npm/node_modules", "directory of the peers from npm")
	f.StringVar(&s.tbxark, "tbxark", "bench/.tmp/peers/tbxark", "TBXark/mcp-proxy")
	f.StringVar(&s.python, "python", "bench/.tmp/peers/python", "directory of the peers from PyPI")
	f.Func("without", "leave out the contenders of a kit, `KIT=REASON`; the report gives the reason; repeatable", s.leaveOut)
	f.StringVar(&s.results, "results", "bench/results", "directory for the report (JSON, Markdown and HTML)")
	f.StringVar(&s.summarise, "summarise", "", "copy the verdicts of this `REPORT.json` to "+summaryFile+", and measure nothing")
	sizes := f.String("sizes", "", "comma-separated sizes of call and answer in bytes (default 300, 10240, 1048576, and answers of 1 MiB to calls of 300)")
	f.IntVar(&s.rounds, "rounds", 0, "rounds of calls (default 7, or 2 with --short)")
	f.DurationVar(&s.duration, "duration", 0, "length of a round (default 2s, or 1s with --short)")
	if err := f.Parse(args); err != nil {
		return s, fmt.Errorf("peers: %w", err)
	}
	if *list {
		for _, c := range contenders() {
			fmt.Fprintf(errs, "%-24s %s\n", c.name, c.what)
		}
		return s, flag.ErrHelp
	}
	s.fill()
	if err := s.chooseSizes(words(*sizes)); err != nil {
		return s, err
	}
	s.steps, s.only = words(*steps), words(*only)
	if s.steps == nil {
		s.steps = allSteps()
	}
	for _, step := range s.steps {
		if !slices.Contains(allSteps(), step) {
			return s, fmt.Errorf("peers: --steps: there is no %q, only %s", step, strings.Join(allSteps(), ","))
		}
	}
	if f.NArg() > 0 {
		return s, fmt.Errorf("peers: unexpected argument %q", f.Arg(0))
	}
	if s.rounds < 1 || s.rounds > maxRounds || s.duration <= 0 || s.duration > time.Minute {
		return s, fmt.Errorf("peers: --rounds is 1 to %d, --duration at most a minute", maxRounds)
	}
	return s, nil
}

// leaveOut records a kit that is not installed.
func (s *settings) leaveOut(text string) error {
	kit, why, ok := strings.Cut(text, "=")
	if !ok || why == "" {
		return errors.New("want KIT=REASON")
	}
	for _, c := range contenders() {
		if c.kit == kit {
			s.without[kit] = why
			return nil
		}
	}
	return fmt.Errorf("there is no kit %q", kit)
}
