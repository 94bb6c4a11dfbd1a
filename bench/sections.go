package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"dragoman/bench/load/drive"
)

// section is a part of the suite, with processes of its own.
type section struct {
	name, what string
	run        func(*suite, context.Context, *targets) error
}

// The names of sections.
const (
	secCalls    = "calls"
	secSSE      = "sse"
	secLatency  = "latency"
	secPolicies = "policies"
	secAllocs   = "allocations"
	secStart    = "start"
	secGrowth   = "growth"
	secMemory   = "memory"
)

// allSections is every section, in the order in which they run: the one that waits most comes last.
func allSections() []section {
	return []section{
		{secCalls, "a call in every cell, by size", (*suite).calls},
		{secSSE, "answers as event streams", (*suite).streams},
		{secLatency, "one connection: what a hop adds", (*suite).latency},
		{secPolicies, "all policies on, and all off", (*suite).policies},
		{secAllocs, "allocations of a call", (*suite).allocations},
		{secStart, "from the start of the process to its first right answer", (*suite).starts},
		{secGrowth, "few and many tools, servers, sessions", (*suite).growth},
		{secMemory, "idle sessions, and whether they grow", (*suite).memory},
	}
}

func sectionNames() string {
	var names []string
	for _, s := range allSections() {
		names = append(names, s.name)
	}
	return strings.Join(names, ",")
}

// chooseSections picks the sections of a list with commas; all of an empty one.
func chooseSections(list string) ([]section, error) {
	all := allSections()
	if list == "" {
		return all, nil
	}
	wanted := strings.Split(list, ",")
	for _, name := range wanted {
		if !slices.ContainsFunc(all, func(s section) bool { return s.name == name }) {
			return nil, fmt.Errorf("bench: --sections: there is no %q, only %s", name, sectionNames())
		}
	}
	return slices.DeleteFunc(all, func(s section) bool { return !slices.Contains(wanted, s.name) }), nil
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

// sseSizes are the lengths of answers as event streams.
func sseSizes() []int { return []int{300, 10 << 10} }

// streams measures answers as event streams, of servers that can give them.
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

const smallSize = 300

// latency measures what a hop adds where nobody else is there.
func (b *suite) latency(ctx context.Context, t *targets) error {
	b.interleave(ctx, t, b.report.addRows(secLatency, cellsOf(allCells(), cellDirect, baseline, cellNginx, cellModern, cellLegacy), smallSize, 1))
	return ctx.Err()
}

// pair is the same thing with few and with many of something.
type pair struct {
	of         string // tools, servers, sessions
	less, more int
	face       drive.Face
	start      func(ctx context.Context, n int) (target, error)
	fill       func(ctx context.Context, under *target, n int) error // once it runs; nil: there is nothing to fill
}

// Numbers that grow.
const (
	fewTools, manyTools       = 10, 10_000
	fewServers, manyServers   = 1, 50
	fewSessions, manySessions = 1, 10_000
)

// growth measures calls with few and with many tools, servers and sessions.
func (b *suite) growth(ctx context.Context, t *targets) error {
	held := &holder{}
	defer held.close()
	pairs := []pair{
		{"tools", fewTools, manyTools, drive.ModernHTTP, func(ctx context.Context, n int) (target, error) { return t.withTools(ctx, n) }, b.listTools},
		{"servers", fewServers, manyServers, drive.ModernHTTP, func(ctx context.Context, n int) (target, error) { return t.withServers(ctx, n) }, nil},
		{"sessions", fewSessions, manySessions, drive.LegacyHTTP, func(ctx context.Context, n int) (target, error) { return t.withSessions(ctx, n) }, held.open},
	}
	for _, p := range pairs {
		if err := b.grow(ctx, t, p); err != nil {
			return err
		}
		t.stop()
	}
	return nil
}

// grow measures a pair.
func (b *suite) grow(ctx context.Context, t *targets, p pair) error {
	var cells []cell
	for _, n := range []int{p.less, p.more} {
		name := fmt.Sprintf("%s-%d", p.of, n)
		t.special[name] = func(ctx context.Context) (target, error) { return p.start(ctx, n) }
		cells = append(cells, cell{name: name, what: "dragoman, " + counted(n, p.of), target: name, face: p.face})
	}
	connections := b.connections
	if p.of == "servers" {
		connections = p.more // the same for both, so that each server has one
	}
	rows := b.report.addRows(secGrowth, cells, smallSize, connections)
	for i, n := range []int{p.less, p.more} {
		under, err := t.get(ctx, cells[i].target)
		if err == nil {
			err = under.await(ctx, under.plan(p.face, smallSize, false))
		}
		if err == nil && p.fill != nil {
			err = p.fill(ctx, &under, n)
		}
		if err != nil {
			rows[i].fail(err)
			return fmt.Errorf("%d %s: %w", n, p.of, err)
		}
	}
	b.interleave(ctx, t, rows)
	return ctx.Err()
}

// counted is so many of something.
func counted(n int, of string) string {
	if n == 1 {
		of = strings.TrimSuffix(of, "s")
	}
	return fmt.Sprintf("%d %s", n, of)
}

// withTools is a Dragoman before a server with so many tools.
func (t *targets) withTools(ctx context.Context, n int) (target, error) {
	upstream, err := t.role(ctx, fmt.Sprintf("upstream-tools-%d", n), roleUpstream, "--tools", fmt.Sprint(n))
	if err != nil {
		return target{}, err
	}
	name := fmt.Sprintf("upstream-tools-%d", n)
	t.running[name] = upstream
	t.order = append(t.order, name)
	found, err := t.dragoman(ctx, fmt.Sprintf("dragoman-tools-%d", n), upstream.url())
	found.behind = upstream.process
	return found, err
}

// listTools has a client list the tools, so that they are known, and see that all are there.
func (b *suite) listTools(ctx context.Context, under *target, n int) error {
	plan := under.plan(drive.ModernHTTP, smallSize, false)
	plan.Calls = []drive.Call{{Name: "list", Method: "tools/list", Varies: true}}
	last := fmt.Sprintf(`"echo%d"`, n-1)
	got, err := drive.Ask(ctx, plan)
	if err == nil && !strings.Contains(string(got), last) {
		err = fmt.Errorf("the list has no %s: %.200s", last, got)
	}
	return err
}

// withServers is a Dragoman before so many servers, each below a path of its own; behind them is one process.
func (t *targets) withServers(ctx context.Context, n int) (target, error) {
	upstream, err := t.get(ctx, modernUpstream)
	if err != nil {
		return target{}, err
	}
	var lines strings.Builder
	var paths []string
	for i := range n {
		fmt.Fprintf(&lines, "[upstreams.s%d]\nurl = %q\n", i, upstream.url())
		paths = append(paths, fmt.Sprintf("/servers/s%d%s", i, path))
	}
	found, err := t.configured(ctx, fmt.Sprintf("dragoman-servers-%d", n), false, lines.String())
	found.behind, found.paths = upstream.process, paths
	return found, err
}

// roomy are the limits of a Dragoman that is to hold more than is usual.
const roomy = `limits.streams = 40000
limits.connections = 40000
sessions.max = 100000
idempotency.mode = "off"
`

// withSessions is a Dragoman before a legacy server, which has room for so many sessions.
func (t *targets) withSessions(ctx context.Context, n int) (target, error) {
	upstream, err := t.get(ctx, legacyUpstream)
	if err != nil {
		return target{}, err
	}
	found, err := t.configured(ctx, fmt.Sprintf("dragoman-sessions-%d", n), false, roomy+
		fmt.Sprintf("[upstreams.default]\nurl = %q\nmax_sessions = 100000\n", upstream.url()))
	found.behind = upstream.process
	return found, err
}

// holder holds idle sessions.
type holder struct{ all []*drive.Idle }

func (h *holder) open(ctx context.Context, under *target, n int) error {
	if n <= fewSessions {
		return nil
	}
	idle, err := drive.NewIdle(ctx, under.plan(drive.LegacyHTTP, smallSize, false))
	if err != nil {
		return err
	}
	h.all = append(h.all, idle)
	return idle.Grow(n)
}

func (h *holder) close() {
	for _, i := range h.all {
		i.Leave()
	}
}
