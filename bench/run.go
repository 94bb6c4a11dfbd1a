package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"dragoman/bench/load/drive"
	"dragoman/bench/measure"
)

// perMeasurement is what a measurement may take beside its own duration; it only
// bounds the whole.
const perMeasurement = 30 * time.Second

// suite is one run.
type suite struct {
	settings
	self, dir string
	progress  io.Writer
	report    *report
}

// run measures what was asked for and returns the report. It fails only where there is nothing to report; what went wrong in a cell is
// part of it.
func run(ctx context.Context, s settings, self string, progress io.Writer) (*report, error) {
	runtime.LockOSThread() // the processes die with the thread that starts them
	defer runtime.UnlockOSThread()
	ctx, cancel := context.WithTimeout(ctx, s.longest())
	defer cancel()
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	defer os.RemoveAll(dir)
	b := &suite{settings: s, self: self, dir: dir, progress: progress, report: newReport(ctx, s)}
	for _, one := range s.sections {
		began := time.Now()
		fmt.Fprintf(progress, "%s: %s\n", one.name, one.what)
		t := newTargets(s, self, dir)
		err := one.run(b, ctx, t)
		t.stop()
		if ctx.Err() != nil {
			return nil, fmt.Errorf("bench: ended early: %w", context.Cause(ctx))
		}
		b.report.Sections = append(b.report.Sections, ran{one.name, one.what, time.Since(began).Seconds(), failureText(err)})
	}
	b.report.sum()
	b.report.judge()
	return b.report, nil
}

// longest bounds a run that does not come to its end.
func (s *settings) longest() time.Duration {
	rows := time.Duration(len(s.cells)*(len(s.sizes)+len(sseSizes())) + 40)
	return rows*time.Duration(s.rounds+1)*(s.duration+s.warmup+perMeasurement) + s.hold + time.Hour
}

// failureText is what a section failed with; a program that is not there is no failure.
func failureText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// interleave measures rows, round by round.
func (b *suite) interleave(ctx context.Context, t *targets, rows []*row) {
	for round := range b.rounds {
		for i := range rows {
			// Another row begins each round: none is always the one behind the slowest.
			row := rows[(i+round)%len(rows)]
			if row.Note != "" {
				continue
			}
			b.measureRow(ctx, t, row)
			if ctx.Err() != nil {
				return
			}
		}
		fmt.Fprintf(b.progress, "%s: round %d of %d\n", rows[0].where(), round+1, b.rounds)
	}
}

// measureRow adds one round to a row, or a note that ends it.
func (b *suite) measureRow(ctx context.Context, t *targets, row *row) {
	under, err := t.get(ctx, row.cell.target)
	if errors.Is(err, errAbsent) {
		row.Note = err.Error()
		return
	}
	var got round
	if err == nil {
		got, err = b.measureOnce(ctx, &under, row)
	}
	if err != nil {
		row.fail(err)
		return
	}
	row.Rounds = append(row.Rounds, got)
}

// load is what a row is called with.
func (b *suite) load(under *target, row *row) drive.Plan {
	plan := under.plan(row.cell.face, row.Size, row.SSE)
	plan.Connections, plan.Warmup, plan.Duration = row.Connections, b.warmup, b.duration
	return plan
}

func (b *suite) measureOnce(ctx context.Context, under *target, row *row) (round, error) {
	plan := b.load(under, row)
	if len(row.Rounds) == 0 {
		if err := under.await(ctx, plan); err != nil {
			return round{}, err
		}
	}
	meter := meter{under: under}
	plan.Mark = meter.mark
	runner, err := drive.Open(ctx, plan)
	if err != nil {
		return round{}, err
	}
	result := runner.Run()
	runner.Close()
	if ended := under.process.Failed(); ended != nil {
		return round{}, ended
	}
	if result.Broken != nil {
		return round{}, fmt.Errorf("%w: %s", result.Broken, firstOf(result))
	}
	rss, err := measure.ReadRSS(under.process.PID())
	if err = errors.Join(meter.err, err); err != nil && runtime.GOOS == "linux" {
		return round{}, err
	}
	if row.FirstError == "" {
		row.FirstError = firstOf(result)
	}
	return newRound(result, &meter, rss), nil
}

// firstOf is an example of what was wrong; empty: nothing was.
func firstOf(r *drive.Result) string {
	var all []string
	for _, w := range r.Wrong {
		all = append(all, w.Kind+": "+w.Example)
	}
	return strings.Join(all, "; ")
}

// meter reads the processors' time of the process under test, of its children, of the server behind it and of the load, between the marks
// of a plan of one round.
type meter struct {
	under        *target
	from, to     measure.CPU
	behind, load [2]time.Duration
	err          error
}

func (m *meter) mark(i int) {
	i = min(i, 1)
	into := [2]*measure.CPU{&m.from, &m.to}[i]
	var err error
	*into, err = measure.ReadCPU(m.under.process.PID())
	m.err = errors.Join(m.err, err)
	if m.under.behind != nil {
		m.behind[i], err = measure.ReadOwn(m.under.behind.PID())
		m.err = errors.Join(m.err, err)
	}
	m.load[i], err = measure.ReadOwn(os.Getpid())
	m.err = errors.Join(m.err, err)
}
