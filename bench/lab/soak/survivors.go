//go:build linux

package main

import (
	"context"
	"time"

	"dragoman/bench/lab/soak/procs"
)

const (
	// survival is how long a descendant of a Dragoman that has ended may live on.
	survival = 2 * time.Second
	glance   = 50 * time.Millisecond // between two looks
)

func (r *soak) ids(d *dragoman) map[procs.ID]bool {
	known := map[procs.ID]bool{}
	all, err := d.family()
	if err != nil {
		return known
	}
	for _, p := range all {
		known[p.ID()] = true
	}
	return known
}

// survivors waits until all descendants of an ended Dragoman have ended, and returns those that have not.
func (r *soak) survivors(ctx context.Context, d *dragoman, known map[procs.ID]bool) []procs.Process {
	ctx, cancel := context.WithTimeout(ctx, survival)
	defer cancel()
	for {
		left := r.alive(d, known)
		if len(left) == 0 || ctx.Err() != nil {
			return left
		}
		pause(ctx, glance)
	}
}

// alive returns the processes that have the Dragoman's mark or are known.
func (r *soak) alive(d *dragoman, known map[procs.ID]bool) []procs.Process {
	t, err := procs.Read()
	if err != nil {
		return nil
	}
	left := t.Marked(d.mark)
	seen := map[procs.ID]bool{}
	for _, p := range left {
		seen[p.ID()] = true
	}
	for id := range known {
		if p, ok := t[id.PID]; ok && p.ID() == id && !seen[id] {
			left = append(left, p)
		}
	}
	return left
}
