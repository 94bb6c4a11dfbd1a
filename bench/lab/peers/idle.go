//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	"dragoman/bench/measure"
)

// idleCase is one configuration.
type idleCase struct {
	what      string
	contender string
	extra     string
	counts    []int
	idleExit  bool // the children exit when idle: wait for that

	running *running
	base    int64
	rows    []idleRow
}

// weighIdle measures the memory of Dragoman with idle sessions. The cases wait at the same time.
func (b *bench) weighIdle(ctx context.Context, rep *report) error {
	s := &b.settings
	cases := []*idleCase{
		{what: "a child for each, which runs", contender: "dragoman", counts: []int{s.idleSessions, 2 * s.idleSessions}},
		{what: "a child for each, ended by idle_exit", contender: "dragoman", extra: `idle_exit = "1s"`, counts: []int{s.idleSessions, 2 * s.idleSessions}, idleExit: true},
		{what: "one child for all", contender: "dragoman-shared", counts: []int{s.idleSharedLess, s.idleSharedMore}},
	}
	for _, c := range cases {
		who := b.find(c.contender)
		if who == nil {
			continue
		}
		r, err := b.launch(ctx, who, 0, c.extra)
		if err != nil {
			return err
		}
		defer b.stop(r)
		c.running = r
	}
	for stage := range 2 {
		if err := b.weighStage(ctx, cases, stage); err != nil {
			return err
		}
	}
	for _, c := range cases {
		rep.Idle = append(rep.Idle, c.rows...)
	}
	return nil
}

// weighStage opens the sessions of a stage in all cases, waits, and measures.
func (b *bench) weighStage(ctx context.Context, cases []*idleCase, stage int) error {
	opened := false
	for _, c := range cases {
		if c.running == nil || stage >= len(c.counts) {
			continue
		}
		opened = true
		if err := c.open(ctx, stage); err != nil {
			return err
		}
	}
	if !opened {
		return nil
	}
	b.say("idle: waiting %v", b.settings.idleWait)
	if err := measure.Pause(ctx, b.settings.idleWait); err != nil {
		return err
	}
	for _, c := range cases {
		if c.running == nil || stage >= len(c.counts) {
			continue
		}
		if err := c.weigh(ctx, stage); err != nil {
			return err
		}
		row := c.rows[stage]
		b.say("idle, %s: %d sessions (%d failed), %d children: %.1f KiB a session", row.What, row.Sessions, row.Failed, row.Children, row.PerSession/1024)
	}
	return nil
}

func (c *idleCase) open(ctx context.Context, stage int) error {
	before, have := 0, 0
	if stage > 0 {
		before, have = c.counts[stage-1], c.rows[stage-1].Sessions
	} else {
		if err := measure.Pause(ctx, settle); err != nil {
			return err
		}
		now, err := c.running.tree.read()
		if err != nil {
			return err
		}
		c.base = now.Root.PSS
	}
	o := open(ctx, c.running, streamable, before, c.counts[stage], true)
	row := idleRow{What: c.what, Sessions: have + len(o.callers), Failed: o.failed}
	if o.first != nil {
		row.First = o.first.Error()
	}
	c.rows = append(c.rows, row)
	return nil
}

func (c *idleCase) weigh(ctx context.Context, stage int) error {
	end := time.Now().Add(openLimit)
	for {
		now, err := c.running.tree.read()
		if err != nil {
			return err
		}
		if c.idleExit && now.Children.Processes > 0 && time.Now().Before(end) {
			if err = measure.Pause(ctx, time.Second); err != nil {
				return err
			}
			continue
		}
		row := &c.rows[stage]
		row.PSS, row.USS, row.Children = now.Root.PSS, now.Root.USS, now.Children.Processes
		row.Reaper = now.Own.PSS - now.Root.PSS
		if row.Sessions > 0 {
			row.PerSession = float64(row.PSS-c.base) / float64(row.Sessions)
		}
		if stage > 0 {
			last := &c.rows[stage-1]
			row.Further = float64(row.PSS-last.PSS) / float64(max(row.Sessions-last.Sessions, 1))
		}
		return nil
	}
}

func (b *bench) find(name string) *contender {
	for i := range b.field {
		if b.field[i].name == name {
			return &b.field[i]
		}
	}
	return nil
}

// countAbandoned opens sessions at all contenders, abandons them, waits, and counts.
func (b *bench) countAbandoned(ctx context.Context, rep *report) error {
	var rows []*abandonedRow
	defer func() {
		for _, row := range rows {
			b.stop(row.running)
		}
	}()
	for i := range b.field {
		c := &b.field[i]
		ttls := []time.Duration{0}
		if c.idle {
			ttls = append(ttls, b.settings.idleTTL)
		}
		for _, kind := range c.sessionFaces() {
			if kind == httpSSE {
				ttls = ttls[:1] // such a session ends with its stream
			}
			for _, ttl := range ttls {
				row, err := b.abandon(ctx, c, kind, ttl)
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if err == nil {
					rows = append(rows, row)
				}
			}
		}
	}
	b.say("abandoned: waiting %v", b.settings.leftWait)
	began := time.Now()
	if err := measure.Pause(ctx, b.settings.leftWait); err != nil {
		return err
	}
	for _, row := range rows {
		now, err := row.running.tree.read()
		if err != nil {
			return err
		}
		row.Later, row.Seconds = now, time.Since(began).Seconds()
		rep.Abandoned = append(rep.Abandoned, *row)
		b.say("%s, %s, idle time %q: %d+%d processes before, %d+%d with %d sessions, %d+%d later", row.Contender, row.Face, row.IdleTTL,
			row.Before.Own.Processes, row.Before.Children.Processes, row.Then.Own.Processes, row.Then.Children.Processes,
			row.Sessions, now.Own.Processes, now.Children.Processes)
	}
	return nil
}

func (b *bench) abandon(ctx context.Context, c *contender, kind faceKind, ttl time.Duration) (*abandonedRow, error) {
	row := &abandonedRow{Contender: c.name, What: c.what, Face: kind}
	if ttl > 0 {
		row.IdleTTL = ttl.String()
	}
	r, err := b.launch(ctx, c, ttl, "")
	if err != nil {
		return nil, err
	}
	row.running = r
	if row.Before, err = r.tree.read(); err == nil {
		o := open(ctx, r, kind, 0, b.settings.abandoned, false)
		row.Sessions, row.Failed = len(o.callers), o.failed
		row.Then, err = r.tree.read()
		o.leave()
	}
	if err != nil {
		b.stop(r)
		return nil, fmt.Errorf("peers: %s: %w", c.name, err)
	}
	return row, nil
}
