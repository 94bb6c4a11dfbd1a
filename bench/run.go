package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"
)

// measured maps each section to its measurement.
func measured() map[string]func(*suite, context.Context, *targets) error {
	return map[string]func(*suite, context.Context, *targets) error{
		secCalls: (*suite).calls, secSSE: (*suite).streams, secLatency: (*suite).latency, secPolicies: (*suite).policies,
		secAllocs: (*suite).allocations, secStart: (*suite).starts, secGrowth: (*suite).growth, secSeveral: (*suite).several, secGRPC: (*suite).grpc, secMemory: (*suite).memory,
	}
}

// run measures the chosen sections and returns the report. It fails only if there is nothing to report: the failure of a cell is part of
// the report.
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
		err := measured()[one.name](b, ctx, t)
		t.stop()
		if ctx.Err() != nil {
			return nil, fmt.Errorf("bench: ended early: %w", context.Cause(ctx))
		}
		done := ran{Name: one.name, What: one.what, Seconds: time.Since(began).Seconds()}
		if err != nil {
			done.Failed = err.Error()
		}
		b.report.Sections = append(b.report.Sections, done)
	}
	b.report.sum()
	b.report.judge()
	return b.report, nil
}

// calls measures every cell at every size.
func (b *suite) calls(ctx context.Context, t *targets) error {
	for _, size := range b.sizes {
		rows := b.report.addRows(secCalls, b.cells, size, b.connections)
		for _, r := range rows {
			r.SSE = b.sse
		}
		if b.interleave(ctx, t, rows); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// streams measures answers that are event streams, in the cells whose servers can send them.
func (b *suite) streams(ctx context.Context, t *targets) error {
	for _, size := range sseSizes() {
		rows := b.report.addRows(secSSE, cellsOf(b.cells, baseline, cellNginx, cellModern, cellLegacy, cellModernLegacy, cellLegacyModern), size, b.connections)
		for _, r := range rows {
			r.SSE = true
		}
		if b.interleave(ctx, t, rows); ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// latency measures the latency that a hop adds without any other load.
func (b *suite) latency(ctx context.Context, t *targets) error {
	b.interleave(ctx, t, b.report.addRows(secLatency, cellsOf(allCells(), cellDirect, baseline, cellNginx, cellModern, cellLegacy), smallSize, 1))
	return ctx.Err()
}
