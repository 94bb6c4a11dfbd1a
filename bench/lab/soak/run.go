//go:build linux

package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"dragoman/bench/lab/soak/ledger"
	"dragoman/bench/lab/soak/procs"
)

// run does the whole run. Everything that it has started has ended when it returns. The report is nil if nothing could be done.
func run(ctx context.Context, s settings, errs io.Writer) (rep *report, err error) {
	r := &soak{settings: s, errs: errs}
	interrupted := ctx.Done()
	limit := s.warmup + s.duration + settleTries*s.patience + killReserve
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r.until = strconv.FormatInt(time.Now().Add(limit+time.Minute).Unix(), 10)
	if err = r.prepare(); err != nil {
		return nil, err
	}
	if r.keeper, err = procs.Keep(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.cleanup()) }()
	fmt.Fprintf(errs, "soak: seed %d, load for %v, logs in %s\n", s.seed, s.duration, r.dir)
	rep = &report{Seed: s.seed, Duration: s.duration.String(), Dragoman: r.program}
	began := time.Now()
	r.soakAll(ctx, rep)
	if ctx.Err() == nil && s.only.MatchString("kill") {
		r.killAll(ctx, rep)
	}
	rep.Took = time.Since(began).Round(time.Second).String()
	select {
	case <-interrupted:
		return rep, errInterrupted
	default:
	}
	if ctx.Err() != nil {
		return rep, fmt.Errorf("soak: took longer than %v: %w", limit, ctx.Err())
	}
	return rep, nil
}

var errInterrupted = errors.New("soak: interrupted; all processes were ended")

func (r *soak) prepare() (err error) {
	if r.self, err = os.Executable(); err != nil {
		return fmt.Errorf("soak: %w", err)
	}
	if r.program, err = exec.LookPath(r.settings.dragoman); err != nil {
		return fmt.Errorf("soak: no Dragoman to soak: %w; `make build` makes one", err)
	}
	if r.program, err = filepath.Abs(r.program); err != nil {
		return fmt.Errorf("soak: %w", err)
	}
	if r.program, err = filepath.EvalSymlinks(r.program); err != nil {
		return fmt.Errorf("soak: %w", err)
	}
	var word [6]byte
	_, _ = rand.Read(word[:]) // never fails
	r.id = hex.EncodeToString(word[:])
	if r.dir = r.settings.keep; r.dir == "" {
		r.dir, err = os.MkdirTemp("", "soak-")
	} else {
		err = os.MkdirAll(r.dir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("soak: %w", err)
	}
	return nil
}

// cleanup ends all processes of the run. Its error names those that it had to kill.
func (r *soak) cleanup() error {
	var group sync.WaitGroup
	for _, d := range r.started {
		d.signal(syscall.SIGTERM)
		group.Go(func() {
			if !d.gone(stopTime) {
				d.signal(syscall.SIGKILL)
				<-d.exited
			}
		})
	}
	group.Wait()
	left, err := r.left()
	for _, p := range left {
		err = errors.Join(err, procs.Kill(p.ID()))
	}
	r.keeper.Close()
	if r.settings.keep == "" {
		err = errors.Join(err, os.RemoveAll(r.dir))
	}
	return err
}

// left returns all descendants of the run's processes, except for the Dragomans.
func (r *soak) left() ([]procs.Process, error) {
	left, err := r.keeper.Strays()
	known := map[procs.ID]bool{}
	for _, p := range left {
		known[p.ID()] = true
	}
	for _, d := range r.started {
		of, err2 := d.family()
		err = errors.Join(err, err2)
		for _, p := range of {
			if !known[p.ID()] {
				left, known[p.ID()] = append(left, p), true
			}
		}
	}
	return left, err
}

// soakAll runs the chosen scenarios at the same time.
func (r *soak) soakAll(ctx context.Context, rep *report) {
	var group sync.WaitGroup
	quit := make(chan struct{})
	var shown sync.WaitGroup
	for _, s := range scenarios() {
		if !r.settings.only.MatchString(s.name) {
			continue
		}
		res := &result{Name: s.name, load: &tally{}, step: &atomic.Value{}}
		res.step.Store("starts")
		rep.Results = append(rep.Results, res)
		d, err := r.launch(&s)
		if err != nil {
			res.fail(err.Error())
			continue
		}
		group.Go(func() {
			r.soakOne(ctx, d, &s, res)
			res.step.Store("done")
		})
	}
	shown.Go(func() { r.progress(rep.Results, quit) })
	group.Wait()
	close(quit)
	shown.Wait()
	for _, res := range rep.Results {
		res.close()
	}
}

// soakOne runs one scenario.
func (r *soak) soakOne(ctx context.Context, d *dragoman, s *scenario, res *result) {
	if err := d.ready(ctx); err != nil {
		res.fail(err.Error())
		return
	}
	res.step.Store("warms up")
	r.tour(ctx, d, s, res.load)
	r.load(ctx, d, s, res.load, warmPhase, r.settings.warmup)
	res.step.Store("settles")
	before, err := r.settle(ctx, d, nil, r.settings.patience)
	if err != nil {
		res.fail(err.Error())
		r.evidence(ctx, d, res, nil)
		return
	}
	known, held := r.ids(d), d.memory(ctx, "before")
	res.step.Store("under load")
	r.load(ctx, d, s, res.load, loadPhase, r.settings.duration)
	res.step.Store("settles")
	began := time.Now()
	after, err := r.settle(ctx, d, &before, r.settings.patience)
	res.Before, res.After, res.Settled = &before, &after, time.Since(began).Round(100*time.Millisecond).String()
	if err != nil {
		res.fail(err.Error())
		r.evidence(ctx, d, res, known)
		return
	}
	if more := ledger.Compare(&before, &after); len(more) > 0 {
		for _, m := range more {
			res.fail(m)
		}
		res.Evidence = append(append(res.Evidence, held...), d.memory(ctx, "after")...)
		r.evidence(ctx, d, res, known)
		return
	}
	res.step.Store("drains")
	r.drain(ctx, d, s, res)
}

const maxShown = 10

// evidence adds to a failure the surplus processes and the goroutines, which ends the Dragoman.
func (r *soak) evidence(ctx context.Context, d *dragoman, res *result, known map[procs.ID]bool) {
	if ctx.Err() != nil {
		return // interrupted
	}
	all, err := d.family()
	if err != nil {
		res.Evidence = append(res.Evidence, err.Error())
	}
	for _, p := range all {
		if !known[p.ID()] && len(res.Evidence) < maxShown {
			res.Evidence = append(res.Evidence, "process "+p.String())
		}
	}
	res.Evidence = append(res.Evidence, d.dump()...)
}

// drain stops the Dragoman under load: it must exit with 0, and no process may be left.
func (r *soak) drain(ctx context.Context, d *dragoman, s *scenario, res *result) {
	var group sync.WaitGroup
	group.Go(func() { r.load(ctx, d, s, &tally{}, drainPhase, drainLoad) }) // its clients may get any error
	pause(ctx, drainAfter)
	known := r.ids(d)
	began := time.Now()
	d.signal(syscall.SIGTERM)
	ended := d.gone(exitLimit)
	took := time.Since(began)
	switch {
	case !ended:
		res.fail(fmt.Sprintf("SIGTERM under load: still running after %v", exitLimit))
		res.Evidence = append(res.Evidence, d.dump()...)
	case d.err != nil:
		res.fail(fmt.Sprintf("SIGTERM under load: %v instead of exit code 0; %s", d.err, d.log.tail()))
	}
	for _, p := range r.survivors(ctx, d, known) {
		res.fail(fmt.Sprintf("SIGTERM under load: %v after the exit there is still %s", survival, p))
	}
	res.Drain = took.Round(time.Millisecond).String()
	group.Wait()
}

const (
	settleTries = 3               // settling takes at most this many times the patience, drain and kills included
	killReserve = 5 * time.Minute // for the kills
	drainAfter  = 1500 * time.Millisecond
	drainLoad   = 4 * time.Second
	stopTime    = 10 * time.Second
)

const progressEvery = 5 * time.Second

// progress prints a line every few seconds.
func (r *soak) progress(results []*result, quit <-chan struct{}) {
	began := time.Now()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case <-quit:
			return
		case <-tick.C:
		}
		var all counts
		expected := 0
		steps := make([]string, 0, len(results))
		for _, res := range results {
			c, _ := res.load.snapshot()
			all.Clients, all.Sessions, all.Calls, all.Wrong = all.Clients+c.Clients, all.Sessions+c.Sessions, all.Calls+c.Calls, all.Wrong+c.Wrong
			for _, n := range c.Errors {
				expected += n
			}
			step, _ := res.step.Load().(string)
			steps = append(steps, res.Name+" "+step)
		}
		fmt.Fprintf(r.errs, "soak: %4d s: %d clients, %d sessions, %d calls, %d expected errors, %d wrong | %s\n", int(time.Since(began).Seconds()),
			all.Clients, all.Sessions, all.Calls, expected, all.Wrong, strings.Join(steps, ", "))
	}
}
