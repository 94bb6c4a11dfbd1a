// Command bench measures what a hop through Dragoman costs. The same calls go straight to a reference server, through a reverse proxy that
// parses nothing, through nginx, and through Dragoman in several configurations, each a process of its own. Rounds are interleaved, every
// answer is checked, and every figure is also given as a ratio to the bare proxy's figure in the same round, because the speed of a shared
// machine varies.
//
// It uses Dragoman by its command line only. README.md beside it explains how to run it and how to read its output.
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

// execute runs the command line and returns the exit code.
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

// compare runs the benchmark.
func compare(ctx context.Context, s settings, out io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	if s.summarise != "" {
		return summarise(s.summarise)
	}
	if s.instructions > 0 {
		return holdCounts(ctx, s, self, out)
	}
	if s.limits != "" && s.sections[0].name == secStart {
		return holdStarts(ctx, s, self, out)
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
	fmt.Fprintln(out, "\nwritten to", file+"; --summarise with this file copies its targets to "+summaryFile)
	return r.failure()
}

func parseArgs(args []string, errs io.Writer) (settings, error) {
	var s settings
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(errs)
	short := f.Bool("short", false, "3 rounds of 400ms, and sessions held for a minute, unless --rounds, --duration, --warmup or --minutes are given; the figures are rough")
	sections := f.String("sections", "", "comma-separated sections to run (default all, or calls if --cells, --sizes or --sse is given): "+names(allSections()))
	sizes := f.String("sizes", "", "calls: comma-separated sizes of request and answer in bytes (default "+usualSizes+", with --instructions "+countedSizes+")")
	cells := f.String("cells", "", "calls and sse: comma-separated cells to measure (default all): "+names(allCells()))
	minutes := f.Float64("minutes", 10, "memory: how long sessions are held")
	f.StringVar(&s.dragoman, "dragoman", "./dragoman", "the Dragoman to measure; without it its cells are left out")
	f.StringVar(&s.nginx, "nginx", "nginx", "the nginx to compare with; without it its cell is left out")
	f.StringVar(&s.grpc, "grpc", "bench/.tmp/grpc", "grpc: the program of bench/lab/grpc; without it the section has no cells")
	f.StringVar(&s.ghz, "ghz", "bench/.tmp/ghz", "grpc: the ghz to compare with; without it its cells are left out")
	f.StringVar(&s.results, "results", "bench/results", "directory for the report (JSON, HTML and Markdown)")
	f.IntVar(&s.rounds, "rounds", wholeRounds, "how often each cell is measured")
	f.DurationVar(&s.duration, "duration", 1500*time.Millisecond, "length of one measurement")
	f.DurationVar(&s.warmup, "warmup", 200*time.Millisecond, "warm-up before each measurement")
	f.IntVar(&s.connections, "connections", 16, "concurrent connections, each with one call in flight")
	f.BoolVar(&s.sse, "sse", false, "calls: answers are event streams")
	f.IntVar(&s.instructions, "instructions", 0, "count the instructions of this many calls per cell with valgrind, instead of measuring times")
	f.StringVar(&s.keep, "keep", "", "--instructions: keep callgrind's files in this directory")
	f.StringVar(&s.limits, "limits", "", "file with the ratio to the bare proxy that each cell may reach, or with --sections start that to a bare server; nothing else is measured, and no report is written")
	f.StringVar(&s.summarise, "summarise", "", "copy the targets of this `REPORT.json` to "+summaryFile+", and measure nothing")
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

// shorten sets the values of --short that the command line does not give.
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
