package main

import (
	"context"
	"dragoman/bench/reference"
	"errors"
	"fmt"
	"strings"

	"dragoman/bench/load/drive"
	"dragoman/bench/load/watch"
)

// The numbers of calls that are counted, and that come before: pools fill and buffers grow in them.
const (
	allocCalls = 60_000
	allocWarm  = 2_000
)

// profiles serves the heap profile, which reads the runtime's counters before it allocates anything itself. A scrape of /metrics allocates
// up to 2,700 objects before it reads them, or none: a difference of 0.15 per call.
const profiles = "admin.pprof = true\n"

// allocations reads from Dragoman's runtime what calls of 300 bytes allocate in the steady state.
func (b *suite) allocations(ctx context.Context, t *targets) error {
	var errs []error
	for _, c := range cellsOf(allCells(), cellModern, cellLegacy, cellStdio, cellModernLegacy, cellLegacyModern) {
		row, err := b.allocationsOf(ctx, t, c)
		switch {
		case errors.Is(err, errAbsent):
			return nil
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", c.name, err))
		default:
			fmt.Fprintf(b.progress, "%s: %.1f allocations, %.0f bytes a call\n", row.What, row.Objects, row.Bytes)
			b.report.Allocs = append(b.report.Allocs, row)
		}
	}
	return errors.Join(errs...)
}

func (b *suite) allocationsOf(ctx context.Context, t *targets, c cell) (*allocRow, error) {
	name := "allocations-" + c.name
	t.special[name] = func(ctx context.Context) (target, error) {
		if c.name == cellStdio {
			return t.configured(ctx, name, true, profiles+"[upstreams.default]\ncommand = "+list(t.echo(reference.Modern)[1:])+"\n")
		}
		upstream, err := t.get(ctx, map[string]string{dragomanModern: modernUpstream, dragomanLegacy: legacyUpstream}[c.target])
		if err != nil {
			return target{}, err
		}
		return t.configured(ctx, name, true, fmt.Sprintf(profiles+"[upstreams.default]\nurl = %q\n", upstream.url()))
	}
	under, err := t.get(ctx, name)
	if err != nil {
		return nil, err
	}
	plan := under.plan(c.face, smallSize, false)
	if err := under.await(ctx, plan); err != nil {
		return nil, err
	}
	read := func(n uint64) (watch.Allocs, error) { return b.allocated(ctx, &under, plan, n) }
	if _, err := read(allocWarm); err != nil {
		return nil, err
	}
	less, err := read(allocWarm)
	if err != nil {
		return nil, err
	}
	more, err := read(allocCalls)
	if err != nil {
		return nil, err
	}
	// Both contain what a reading itself allocates, so that the difference does not.
	calls := float64(allocCalls - allocWarm)
	return &allocRow{Name: c.name, What: c.what, Calls: allocCalls, Objects: (more.Objects - less.Objects) / calls, Bytes: (more.Bytes - less.Bytes) / calls}, nil
}

// allocated returns what n calls and a reading allocate.
func (b *suite) allocated(ctx context.Context, under *target, plan drive.Plan, n uint64) (watch.Allocs, error) {
	plan.Connections, plan.Requests = b.connections, n
	runner, err := drive.Open(ctx, plan)
	if err != nil {
		return watch.Allocs{}, err
	}
	defer runner.Close()
	counted := "http://" + under.admin + "/debug/pprof/heap?debug=1"
	before, err := watch.ReadAllocs(ctx, counted)
	if err != nil {
		return before, err
	}
	if r := runner.Run(); r.Errors > 0 {
		return before, fmt.Errorf("%d wrong answers: %s", r.Errors, firstOf(r))
	}
	after, err := watch.ReadAllocs(ctx, counted)
	return watch.Allocs{Objects: after.Objects - before.Objects, Bytes: after.Bytes - before.Bytes}, err
}

// list writes strings as a TOML array.
func list(all []string) string {
	quoted := make([]string, len(all))
	for i, s := range all {
		quoted[i] = fmt.Sprintf("%q", s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
