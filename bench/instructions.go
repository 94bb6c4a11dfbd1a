package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"dragoman/bench/load/drive"
)

// Times vary from run to run and from machine to machine by more than most changes to a program cost. The number of instructions per call
// does not: callgrind, a tool of valgrind, counts those in user mode to three percent, whatever else runs. It sees neither the kernel's
// part nor how long an instruction takes.

const (
	countedLimit  = 10 * time.Minute // for one cell
	countedWarmup = 4 * time.Second  // of calls before those that are counted
)

// errUncounted means that the instructions of a cell cannot be counted.
var errUncounted = errors.New("not counted")

// count counts the instructions of every cell and returns the report.
func count(ctx context.Context, s settings, self string, progress io.Writer) (*report, error) {
	runtime.LockOSThread() // the processes die with the thread that starts them
	defer runtime.UnlockOSThread()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(len(s.cells)*len(s.sizes))*countedLimit)
	defer cancel()
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	defer os.RemoveAll(dir)
	counts := dir
	if s.keep != "" {
		counts = s.keep
		if err := os.MkdirAll(counts, 0o755); err != nil {
			return nil, fmt.Errorf("bench: %w", err)
		}
	}
	c, err := newCounting(counts)
	if err != nil {
		return nil, err
	}
	// Callgrind cannot handle the signals by which Go preempts goroutines.
	if err := os.Setenv("GODEBUG", "asyncpreemptoff=1"); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	r := newReport(ctx, s)
	for _, size := range s.sizes {
		for _, row := range r.addRows(secCalls, s.cells, size, s.connections) {
			// Each cell has new processes, so that the work of another cell is not counted with it.
			t := newTargets(s, self, dir)
			t.counting, row.SSE = c, s.sse
			err := countRow(ctx, t, row)
			t.stop()
			if ctx.Err() != nil {
				return nil, fmt.Errorf("bench: ended early: %w", context.Cause(ctx))
			}
			switch {
			case errors.Is(err, errAbsent), errors.Is(err, errUncounted):
				row.Note = err.Error()
			case err != nil:
				row.fail(err)
			default:
				fmt.Fprintf(progress, "%d bytes: %s: %d instructions a call\n", size, row.What, row.Instructions)
			}
		}
	}
	r.relate()
	return r, nil
}

// countRow counts one cell.
func countRow(ctx context.Context, t *targets, row *row) error {
	name := row.cell.target
	switch name {
	case modernUpstream, legacyUpstream:
		return fmt.Errorf("%w: there is no hop", errUncounted)
	case dragomanStdio:
		return fmt.Errorf("%w: callgrind does not survive the signals of children", errUncounted)
	}
	under, err := t.get(ctx, name)
	if err != nil {
		return err
	}
	plan := under.plan(row.cell.face, row.Size, row.SSE)
	if err := under.await(ctx, plan); err != nil {
		return err
	}
	plan.Connections, plan.Requests, plan.Warmup = row.Connections, uint64(t.settings.instructions), countedWarmup //nolint:gosec // it is positive
	plan.Timeout = countedLimit
	var sums [2]uint64
	var errs [2]error
	plan.Mark = func(i int) {
		sums[i], errs[i] = t.counting.dump(ctx, name, under.process.PID(), i+1)
	}
	runner, err := drive.Open(ctx, plan)
	if err != nil {
		return err
	}
	defer runner.Close()
	result := runner.Run()
	if err := errors.Join(errs[0], errs[1], under.process.Failed()); err != nil {
		return err
	}
	if result.Errors+result.Warmup > 0 {
		return fmt.Errorf("%d wrong answers: %s", result.Errors+result.Warmup, firstOf(result))
	}
	row.Instructions = sums[1] / max(result.Right, 1)
	if file, err := os.Open(t.counting.file(name) + ".2"); err == nil {
		row.Hottest = hottest(file, hottestFew)
		_ = file.Close() // it was only read
	}
	return nil
}

// relate computes the ratio of every count to the baseline's.
func (r *report) relate() {
	bases := map[int]uint64{}
	for _, row := range r.Rows {
		if row.Name == baseline {
			bases[row.Size] = row.Instructions
		}
	}
	for _, row := range r.Rows {
		if base := bases[row.Size]; base > 0 {
			row.InstructionsRatio = float64(row.Instructions) / float64(base)
		}
	}
}

// printCounts prints the table.
func (r *report) printCounts(out io.Writer) {
	fmt.Fprintf(out, "\n%s, %s; %d connections; instructions in user mode for a call, and against %q\n\n", r.Machine["cpu"], r.Versions["go"], r.Connections, r.Baseline)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "bytes\tcell\tinstructions\tratio\t")
	for _, row := range r.Rows {
		if row.Instructions == 0 {
			note, _, _ := strings.Cut(row.Note, "\n")
			fmt.Fprintf(w, "%d\t%s\t%.*s\n", row.Size, row.What, noteLimit, note)
			continue
		}
		fmt.Fprintf(w, "%d\t%s\t%d\t%.2f\t\n", row.Size, row.What, row.Instructions, row.InstructionsRatio)
	}
	_ = w.Flush() // out may be closed; the figures are in the file
}
