package main

import (
	"context"
	"fmt"
	"strings"

	"dragoman/bench/load/drive"
)

// pair is the same Dragoman with few and with many tools, servers or sessions.
type pair struct {
	of         string // tools, servers, sessions
	less, more int
	face       drive.Face
	start      func(ctx context.Context, n int) (target, error)
	fill       func(ctx context.Context, under *target, n int) error // called once the target runs; may be nil
}

// The two sizes of each pair.
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

// counted writes a number with its noun.
func counted(n int, of string) string {
	if n == 1 {
		of = strings.TrimSuffix(of, "s")
	}
	return fmt.Sprintf("%d %s", n, of)
}

// withTools starts a Dragoman in front of a server with n tools.
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

// listTools lists the tools, so that Dragoman knows them, and checks that none is missing.
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

// withServers starts a Dragoman in front of n upstreams, each with its own path and all served by one process.
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

// roomy raises the limits of a Dragoman that has to hold many sessions.
const roomy = `limits.streams = 40000
limits.connections = 40000
sessions.max = 100000
idempotency.mode = "off"
`

// withSessions starts a Dragoman with room for n sessions in front of a legacy server.
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
