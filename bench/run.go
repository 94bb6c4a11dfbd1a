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
		secAllocs: (*suite).allocations, secStart: (*suite).starts, secGrowth: (*suite).growth, secMemory: (*suite).memory,
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
		b.report.Sections = append(b.report.Sections, ran{one.name, one.what, time.Since(began).Seconds(), failureText(err)})
	}
	b.report.sum()
	b.report.judge()
	return b.report, nil
}

// failureText gives the error of a section; empty if it has none.
func failureText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
