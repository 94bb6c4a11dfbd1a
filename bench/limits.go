package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// gauge is a figure of cells that is compared with a recorded limit.
type gauge struct {
	verb  string // "modern VERB 2.50 times what the bare proxy does"
	hint  string // end of a failure's message
	of    func(*row) float64
	slack float64 // factor by which the figure may differ from its limit
}

// byInstructions compares the instructions of a call. Garbage collection and scheduling make them vary by three percent either way; the
// rest of the slack is for small changes.
func byInstructions() gauge {
	return gauge{"executes", "; --keep DIR keeps callgrind's files, for callgrind_annotate", func(r *row) float64 { return r.InstructionsRatio }, 1.10}
}

// byCPU compares the CPU time of a call, the kernel's part included. It varies more from run to run, and a busy machine raises it: a call
// counts as dearer only if both the median and the minimum of the rounds say so.
func byCPU() gauge {
	return gauge{"takes", "; make counts tells whether it is user code", func(r *row) float64 { return min(r.CPURatio.Median, r.LeastRatio) }, 1.25}
}

// limit is the recorded ratio of a cell.
type limit struct {
	cell string
	was  float64
}

// readLimits reads lines of a name, which known accepts, and its ratio, in any order. "#" begins a comment.
func readLimits(file string, known func(name string) bool) ([]limit, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("bench: --limits: %w", err)
	}
	var all []limit
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimSpace(line)
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		bad := fmt.Errorf("bench: %s: %q is not a cell and a ratio", file, line)
		if len(words) != 2 {
			return nil, bad
		}
		was, err := strconv.ParseFloat(words[1], 64)
		if err != nil || !known(words[0]) {
			return nil, bad
		}
		all = append(all, limit{words[0], was})
	}
	return all, nil
}

func isCell(name string) bool {
	return slices.ContainsFunc(allCells(), func(c cell) bool { return c.name == name })
}

func isStart(name string) bool { return name == startHTTP || name == startStdio }

// hold compares the ratios with those of a file. A call that has become dearer is an error. For one that has become cheaper it prints the
// ratio to record. It returns the names of the cells that failed.
func (r *report) hold(file string, g gauge, out io.Writer) (failed []string, err error) {
	limits, err := readLimits(file, isCell)
	if err != nil {
		return nil, err
	}
	var errs []error
	passed := 0
	for _, l := range limits {
		i := slices.IndexFunc(r.Rows, func(row *row) bool { return row.Name == l.cell })
		if i < 0 { // not asked for
			continue
		}
		switch now := g.of(r.Rows[i]); {
		case now == 0:
			errs = append(errs, fmt.Errorf("bench: %s was not measured: %s", l.cell, r.Rows[i].Note))
		case now > l.was*g.slack:
			failed = append(failed, l.cell)
			errs = append(errs, fmt.Errorf("bench: %s %s %.2f times what the bare proxy does, and did %.2f (%s): a call has become dearer%s", l.cell, g.verb, now, l.was, file, g.hint))
			if hot := r.Rows[i].Hottest; len(hot) > 0 {
				fmt.Fprintf(out, "%s: most instructions in %s\n", l.cell, strings.Join(hot, ", "))
			}
		case now < l.was/g.slack:
			fmt.Fprintf(out, "%s %s %.2f times what the bare proxy does, and did %.2f: record it in %s\n", l.cell, g.verb, now, l.was, file)
			passed++
		default:
			fmt.Fprintf(out, "%s %s %.2f times what the bare proxy does, and did %.2f\n", l.cell, g.verb, now, l.was)
			passed++
		}
	}
	fmt.Fprintf(out, "%d passed, %d failed\n", passed, len(errs))
	return failed, errors.Join(errs...)
}

// again is how many times as many rounds the second try has.
const again = 3

// holdTimes compares the CPU times of the cells with a file of ratios. Cells that seem dearer are measured once more, for longer: a busy
// machine is no regression. No report is written.
func holdTimes(ctx context.Context, s settings, self string, out io.Writer) error {
	for try := 0; ; try++ {
		r, err := run(ctx, s, self, out)
		if err != nil {
			return err
		}
		r.Targets = nil
		r.print(out)
		if err := r.failure(); err != nil {
			return err
		}
		failed, err := r.hold(s.limits, byCPU(), out)
		if len(failed) == 0 || try > 0 {
			return err
		}
		fmt.Fprintf(out, "measured again with %d times the rounds: %s\n", again, strings.Join(failed, ", "))
		s.rounds = min(s.rounds*again, maxRounds)
		s.cells = cellsOf(s.cells, append(failed, baseline)...)
	}
}

// holdCounts counts the instructions of the cells and compares them with a file, if one is given. Cells that seem dearer are counted once
// more in new processes: callgrind runs one thread at a time, so that a thread which spins until another one is done may execute many
// instructions that belong to no call.
func holdCounts(ctx context.Context, s settings, self string, out io.Writer) error {
	for try := 0; ; try++ {
		r, err := count(ctx, s, self, out)
		if err != nil {
			return err
		}
		r.printCounts(out)
		if err := r.failure(); err != nil || s.limits == "" {
			return err
		}
		failed, err := r.hold(s.limits, byInstructions(), out)
		if len(failed) == 0 || try > 0 {
			return err
		}
		fmt.Fprintf(out, "counted again: %s\n", strings.Join(failed, ", "))
		s.cells = cellsOf(s.cells, append(failed, baseline)...)
	}
}

// startSlack is the factor by which the ratio of a start may exceed its limit: starts vary more than calls.
const startSlack = 1.35

// holdStarts compares the times from the start of a process to its first answer with a file of ratios: those of Dragoman against those of a Go program
// that listens and answers, in the same rounds. A start that seems slower is measured once more, for longer.
func holdStarts(ctx context.Context, s settings, self string, out io.Writer) error {
	for try := 0; ; try++ {
		r, err := run(ctx, s, self, out)
		if err != nil {
			return err
		}
		r.Targets = nil
		if err := r.failure(); err != nil {
			return err
		}
		if err = r.holdStarts(s.limits, out); err == nil || try > 0 {
			return err
		}
		fmt.Fprintf(out, "measured again with %d times the rounds: %v\n", again, err)
		s.rounds = min(s.rounds*again, maxRounds)
	}
}

// holdStarts judges the starts by a file. The lower of the ratios of medians and of minima counts.
func (r *report) holdStarts(file string, out io.Writer) error {
	limits, err := readLimits(file, isStart)
	if err != nil {
		return err
	}
	row := func(name string) *startRow {
		if i := slices.IndexFunc(r.Start, func(one *startRow) bool { return one.Name == name }); i >= 0 {
			return r.Start[i]
		}
		return &startRow{}
	}
	bare, passed := row(startServer).Sum, 0
	var errs []error
	for _, l := range limits {
		is := row(l.cell).Sum
		if is.Median == 0 || bare.Median == 0 || bare.Min == 0 {
			errs = append(errs, fmt.Errorf("bench: the start %s was not measured", l.cell))
			continue
		}
		now := min(is.Median/bare.Median, is.Min/bare.Min)
		text := fmt.Sprintf("start %s takes %.2f times what a bare server does, and did %.2f", l.cell, now, l.was)
		if now > l.was*startSlack {
			errs = append(errs, fmt.Errorf("bench: %s (%s): a start has become slower", text, file))
			continue
		}
		fmt.Fprintln(out, text)
		passed++
	}
	fmt.Fprintf(out, "%d passed, %d failed\n", passed, len(errs))
	return errors.Join(errs...)
}
