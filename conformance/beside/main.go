package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"time"

	"dragoman/conformance/report"
)

// dir holds the tables, relative to the root of the repository.
const dir = "conformance/beside"

// options are the flags.
type options struct {
	dragoman string
	from     string // directory with the reports of an earlier run, instead of running the suites
	keep     string
	out      string
	match    *regexp.Regexp
	short    bool
	jobs     int
	timeout  time.Duration // of one server
}

var errWrong = errors.New("beside: not everything is explained")

func main() { os.Exit(start()) }

func start() (code int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := readOptions(os.Args[1:], os.Stderr)
	if err == nil {
		err = o.run(ctx, os.Stdout)
	}
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errWrong):
		return 1
	}
	fmt.Fprintln(os.Stderr, err)
	return 2
}

func readOptions(args []string, errs io.Writer) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("beside", flag.ContinueOnError)
	f.SetOutput(errs)
	f.StringVar(&o.dragoman, "dragoman", "./dragoman", "the binary")
	f.StringVar(&o.from, "from", "", "compare the reports that --keep wrote to `DIR`, and run nothing")
	f.StringVar(&o.keep, "keep", "", "keep the reports in `DIR`, one file per server")
	f.StringVar(&o.out, "out", "conformance/BESIDE.md", "`FILE` for the document, which a run with all servers writes; empty: none")
	match := f.String("server", "", "regular expression of the servers to run")
	f.BoolVar(&o.short, "short", false, "run only the servers that are marked short")
	f.IntVar(&o.jobs, "jobs", 2, "number of servers to run at a time")
	f.DurationVar(&o.timeout, "timeout", 6*time.Minute, "timeout of a server")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	var err error
	if o.match, err = regexp.Compile(*match); err != nil {
		return nil, fmt.Errorf("beside: --server: %w", err)
	}
	return o, nil
}

// run runs both suites at the servers, compares, and prints the result. The last line is `N passed, N failed`, counted in servers; errors
// of the tables alone count as one more.
func (o *options) run(ctx context.Context, out io.Writer) error {
	t, err := readTables(dir)
	if err != nil {
		return err
	}
	chosen := slices.DeleteFunc(slices.Clone(t.servers), func(s *server) bool {
		return o.short && !s.short || !o.match.MatchString(s.name)
	})
	if len(chosen) == 0 {
		return errors.New("beside: no server is chosen; fix: use --server with a name of " + filepath.Join(dir, "servers.tsv"))
	}
	reports, err := o.reports(ctx, chosen, out)
	if err != nil {
		return err
	}
	var runs []*run
	for i, s := range chosen {
		runs = append(runs, t.compare(s, reports[i]))
	}
	if len(chosen) == len(t.servers) && o.out != "" {
		if err := os.WriteFile(o.out, t.render(runs), 0o644); err != nil { //nolint:gosec // a document for everybody
			return fmt.Errorf("beside: %w", err)
		}
	}
	return tell(out, runs, t.wrong(runs))
}

// tell prints the result of each server, and the reasons of a failure.
func tell(out io.Writer, runs []*run, wrong []string) error {
	failed := 0
	for _, r := range runs {
		c, word := count([]*run{r}), "PASS"
		if c.unexpected > 0 || slices.ContainsFunc(r.faults, func(f *found) bool { return f.whose == nil }) {
			word = "FAIL"
			failed++
		}
		fmt.Fprintf(out, "%s %-16s run by both %3d: %3d agree, %d differ, explained; %d more with a fault at one alone; %d not explained; %d MUSTs broken\n",
			word, r.server.name, c.both, c.agree, c.explained, c.oneFails, c.unexpected, len(r.faults))
	}
	passed := len(runs) - failed
	for _, line := range wrong {
		fmt.Fprintln(out, line)
	}
	if len(wrong) > 0 && failed == 0 {
		failed = 1
	}
	fmt.Fprintf(out, "%d passed, %d failed\n", passed, failed)
	if failed > 0 {
		return errWrong
	}
	return nil
}

// reports returns the report of each server, from this run or an earlier one.
func (o *options) reports(ctx context.Context, servers []*server, out io.Writer) ([]*report.Report, error) {
	made, errs := make([]*report.Report, len(servers)), make([]error, len(servers))
	turn := make(chan struct{}, max(1, o.jobs))
	var all sync.WaitGroup
	var saying sync.Mutex
	for i, s := range servers {
		all.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			began := time.Now()
			if made[i], errs[i] = o.report(ctx, s); errs[i] != nil {
				errs[i] = fmt.Errorf("beside: %s: %w", s.name, errs[i])
			}
			saying.Lock()
			defer saying.Unlock()
			if o.from == "" && errs[i] == nil {
				fmt.Fprintf(out, "     %-15s %d findings, %d s\n", s.name, len(made[i].Findings), int(time.Since(began).Seconds()))
			}
		})
	}
	all.Wait()
	return made, errors.Join(errs...)
}

func (o *options) report(ctx context.Context, s *server) (*report.Report, error) {
	if o.from != "" {
		return readReport(filepath.Join(o.from, s.name+".json"))
	}
	keep := o.keep
	if keep == "" {
		var err error
		if keep, err = os.MkdirTemp("", "dragoman-beside"); err != nil {
			return nil, err
		}
		defer func() { _ = os.RemoveAll(keep) }()
	} else if err := os.MkdirAll(keep, 0o755); err != nil { //nolint:gosec // for everybody to read
		return nil, err
	}
	file := filepath.Join(keep, s.name+".json")
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	if err := o.test(ctx, s, file); err != nil {
		return nil, err
	}
	return readReport(file)
}

func readReport(name string) (*report.Report, error) {
	in, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	r, err := report.Read(in)
	if err != nil {
		return nil, fmt.Errorf("%s %w", name, err)
	}
	return r, nil
}
