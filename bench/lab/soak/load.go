//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// The phases of a scenario. They are part of the tokens of its calls.
const (
	tourPhase = iota
	warmPhase
	loadPhase
	drainPhase
	killPhase
)

const (
	workers     = 8                     // concurrent clients of each scenario
	carefulRate = 50 * time.Millisecond // between visits of the clients that visit good servers only
)

// load sends clients to a Dragoman for a time. phase makes the tokens of its calls unique. It returns when the last client has left.
func (r *soak) load(ctx context.Context, d *dragoman, s *scenario, t *tally, phase int, length time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	slots := make(chan struct{})
	var group sync.WaitGroup
	for i := range workers {
		group.Go(func() {
			w := r.worker(d, s, t, phase, i)
			for range slots {
				server := w.choose()
				w.visit(ctx, server, pick(w.all, server, w.rng))
			}
		})
	}
	group.Go(func() { // good clients at good servers, whatever the others do
		w := r.worker(d, s, t, phase, workers)
		for ctx.Err() == nil {
			server := &s.good[w.rng.IntN(len(s.good))]
			w.visit(ctx, server, pick(w.polite, server, w.rng))
			pause(ctx, carefulRate)
		}
	})
	tick := time.NewTicker(time.Second / time.Duration(r.settings.rate))
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-tick.C:
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
			}
		case <-ctx.Done():
		}
	}
	close(slots)
	group.Wait()
}

// tour sends one client of each kind to each server, as fast as possible, so that all code has run.
func (r *soak) tour(ctx context.Context, d *dragoman, s *scenario, t *tally) {
	type stop struct {
		server *server
		by     *journey
	}
	stops := make(chan stop)
	var group sync.WaitGroup
	for i := range workers {
		group.Go(func() {
			w := r.worker(d, s, t, tourPhase, i)
			for at := range stops {
				w.visit(ctx, at.server, at.by)
			}
		})
	}
	servers, all := s.servers(), journeys()
	for i := range servers {
		for j := range all {
			if all[j].fits(&servers[i]) && ctx.Err() == nil {
				stops <- stop{&servers[i], &all[j]}
			}
		}
	}
	close(stops)
	group.Wait()
}

// worker makes the visits of one goroutine, one after the other.
type worker struct {
	d       *dragoman
	t       *tally
	servers []server
	bad     int // index of the first bad server
	rng     *rand.Rand
	name    string
	n       int
	all     []journey
	polite  []journey
}

func (r *soak) worker(d *dragoman, s *scenario, t *tally, phase, i int) *worker {
	return &worker{d: d, t: t, servers: s.servers(), bad: len(s.good), rng: rand.New(rand.NewPCG(r.settings.seed, uint64(phase<<16|i))), //nolint:gosec // repeatable by its seed
		name: fmt.Sprintf("%s-%d-%d", s.name, phase, i), all: journeys(), polite: polite()}
}

// choose picks a server: a bad one in three of four cases, if there is one.
func (w *worker) choose() *server {
	if w.bad < len(w.servers) && w.rng.IntN(4) > 0 {
		return &w.servers[w.bad+w.rng.IntN(len(w.servers)-w.bad)]
	}
	return &w.servers[w.rng.IntN(w.bad)]
}

// visit is one client's visit. Its limit does not end with the load: a visit that has begun is completed.
func (w *worker) visit(ctx context.Context, s *server, j *journey) {
	w.n++
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.limit())
	defer cancel()
	a := &actor{ctx: ctx, rng: w.rng, s: s, at: w.d.place(s.name), t: w.t, token: fmt.Sprintf("%s-%d", w.name, w.n)}
	w.t.outcome(s, j.name, j.run(a))
}
