package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"dragoman/bench/load"
	"dragoman/bench/measure"
)

// perMeasurement is what a measurement may take beside its own duration; it only
// bounds the whole.
const perMeasurement = load.DefaultTimeout + 10*time.Second

// run measures every cell at every size and returns the report. It fails only
// where there is nothing to report; what went wrong in a cell is part of it.
func run(ctx context.Context, s settings, self string, progress io.Writer) (*report, error) {
	runtime.LockOSThread() // the processes die with the thread that starts them
	defer runtime.UnlockOSThread()
	all := time.Duration(len(s.cells) * len(s.sizes) * (s.rounds + 1))
	ctx, cancel := context.WithTimeout(ctx, all*(s.duration+s.warmup+perMeasurement))
	defer cancel()
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	defer os.RemoveAll(dir)
	t := &targets{settings: s, self: self, dir: dir, running: map[string]target{}}
	defer t.stop()

	r := newReport(ctx, s)
	for _, size := range s.sizes {
		rows := r.addRows(s.cells, size)
		for round := range s.rounds {
			for i := range rows {
				// Another cell begins each round: none is always the one behind the slowest.
				row := rows[(i+round)%len(rows)]
				if row.Note != "" {
					continue
				}
				measureRow(ctx, t, row)
				if ctx.Err() != nil {
					return nil, fmt.Errorf("bench: ended early: %w", context.Cause(ctx))
				}
			}
			fmt.Fprintf(progress, "%d bytes: round %d of %d\n", size, round+1, s.rounds)
		}
	}
	r.sum()
	return r, nil
}

// measureRow adds one round to a row, or a note that ends it.
func measureRow(ctx context.Context, t *targets, row *row) {
	under, err := t.get(ctx, row.cell.target)
	if errors.Is(err, errAbsent) {
		row.Note = err.Error()
		return
	}
	var got round
	if err == nil {
		got, err = measureOnce(ctx, t.settings, &under, row)
	}
	if err != nil {
		row.fail(err)
		return
	}
	row.Rounds = append(row.Rounds, got)
}

func measureOnce(ctx context.Context, s settings, under *target, row *row) (round, error) {
	plan := load.Plan{
		Addr: under.addr, Path: path, Era: row.cell.era,
		Connections: s.connections, Size: row.Size, SSE: s.sse,
		Warmup: s.warmup, Duration: s.duration,
	}
	if len(row.Rounds) == 0 {
		if err := under.await(ctx, plan); err != nil {
			return round{}, err
		}
	}
	var before, after measure.CPU
	var errs [2]error
	pid := under.process.PID()
	plan.Begin = func() { before, errs[0] = measure.ReadCPU(pid) }
	plan.End = func() { after, errs[1] = measure.ReadCPU(pid) }
	result, err := load.Run(ctx, plan)
	if ended := under.process.Failed(); ended != nil {
		return round{}, ended
	}
	if err != nil {
		return round{}, err
	}
	rss, err := measure.ReadRSS(pid)
	if err = errors.Join(errs[0], errs[1], err); err != nil && runtime.GOOS == "linux" {
		return round{}, err
	}
	if result.First != nil && row.FirstError == "" {
		row.FirstError = result.First.Error()
	}
	return newRound(&result, after.Sub(before), rss), nil
}
