// Command bench compares what a hop through Dragoman costs with what a hop costs
// at least: the same calls go straight to a reference server, through a reverse
// proxy that parses nothing, through nginx, and through Dragoman in several
// cells, each of these a process of its own. Rounds are interleaved, every answer
// is checked, and every figure is also given as a ratio to the bare proxy's
// figure in the same round, since a shared machine is never twice the same.
//
// It knows of Dragoman only the command line. README.md beside it says how to
// run it and how to read what it prints.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const (
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// execute is main without the process: it returns the exit code.
func execute(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	if len(args) > 0 && args[0] == roleWord {
		return say(errs, playRole(args[1:], in, out))
	}
	s, err := parseArgs(args, errs)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(errs, err)
		return exitUsage
	}
	return say(errs, compare(ctx, s, out))
}

func say(errs io.Writer, err error) int {
	if err != nil {
		fmt.Fprintln(errs, err)
		return exitFailed
	}
	return 0
}

// compare does the whole work.
func compare(ctx context.Context, s settings, out io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	if s.summarize != "" {
		return summarize(s.summarize)
	}
	if s.instructions > 0 {
		return holdCounts(ctx, s, self, out)
	}
	if s.limits != "" {
		return holdTimes(ctx, s, self, out)
	}
	r, err := run(ctx, s, self, out)
	if err != nil {
		return err
	}
	r.print(out)
	file, err := r.write(s.results)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "\nwritten to", file+"; --summarize with this file enters it in "+summaryFile)
	return r.failure()
}

func parseArgs(args []string, errs io.Writer) (settings, error) {
	var s settings
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(errs)
	short := f.Bool("short", false, "3 rounds of 400ms, and sessions held for a minute: rough, where --rounds, --duration, --warmup and --minutes do not say otherwise")
	sections := f.String("sections", "", "only these, with commas (default all, or calls where --cells, --sizes or --sse is given): "+names(allSections()))
	sizes := f.String("sizes", "", "of calls: bytes of a request and of its answer, several with commas (default "+usualSizes+", for --instructions "+countedSizes+")")
	cells := f.String("cells", "", "of calls and sse: only these, with commas (default all): "+names(allCells()))
	minutes := f.Float64("minutes", 10, "of memory: how long sessions are held")
	f.StringVar(&s.dragoman, "dragoman", "./dragoman", "the Dragoman to measure; its cells are left out if there is none")
	f.StringVar(&s.nginx, "nginx", "nginx", "the nginx to compare with; left out if there is none")
	f.StringVar(&s.results, "results", "bench/results", "directory for the report, as JSON, HTML and Markdown")
	f.IntVar(&s.rounds, "rounds", wholeRounds, "how often each cell is measured")
	f.DurationVar(&s.duration, "duration", 1500*time.Millisecond, "of one measurement")
	f.DurationVar(&s.warmup, "warmup", 200*time.Millisecond, "before each measurement")
	f.IntVar(&s.connections, "connections", 16, "at a time, each with one call under way")
	f.BoolVar(&s.sse, "sse", false, "of calls: answers as event streams")
	f.IntVar(&s.instructions, "instructions", 0, "count the instructions of so many calls a cell, with valgrind, instead of measuring times")
	f.StringVar(&s.keep, "keep", "", "of --instructions: keep what callgrind writes in this directory")
	f.StringVar(&s.limits, "limits", "", "a file with what each cell may take against the bare proxy; only calls are measured then, and nothing is written")
	f.StringVar(&s.summarize, "summarize", "", "enter the targets of this `REPORT.json` in "+summaryFile+", and measure nothing")
	if err := f.Parse(args); err != nil {
		return s, fmt.Errorf("bench: %w", err)
	}
	if f.NArg() > 0 {
		return s, fmt.Errorf("bench: unexpected argument %q", f.Arg(0))
	}
	given := map[string]bool{}
	f.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if *short {
		shorten(&s, minutes, given)
	}
	s.hold = time.Duration(*minutes * float64(time.Minute))
	calls := s.limits != "" || given["cells"] || given["sizes"] || given["sse"]
	if *sections == "" && calls {
		*sections = secCalls
	}
	if *sizes == "" {
		*sizes = usualSizes
		if s.instructions > 0 || s.limits != "" {
			*sizes = countedSizes
		}
	}
	var err, err2, err3 error
	s.sizes, err = parseSizes(*sizes)
	s.cells, err2 = choose("cells", *cells, allCells(), baseline)
	s.sections, err3 = choose("sections", *sections, allSections())
	return s, errors.Join(err, err2, err3, s.check())
}

// shorten makes a run short where the command line does not say otherwise.
func shorten(s *settings, minutes *float64, given map[string]bool) {
	if !given["rounds"] {
		s.rounds = 3
	}
	if !given["duration"] {
		s.duration = 400 * time.Millisecond
	}
	if !given["warmup"] {
		s.warmup = 100 * time.Millisecond
	}
	if !given["minutes"] {
		*minutes = 1
	}
}
