//go:build linux

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"dragoman/bench/load/drive"
	"dragoman/bench/measure"
)

const (
	openers    = 16
	openLimit  = 4 * time.Minute // for all sessions of a step
	checkEvery = 20              // sessions between two checks of the free memory
)

// opened has the open sessions at a contender.
type opened struct {
	callers []*drive.Caller
	failed  int
	first   error // why the first one failed
	short   bool  // the machine had too little free memory
}

// open opens sessions until there are n, each with its own connection and one correct answer. With leave their connections are closed at
// once and the sessions are abandoned.
func open(ctx context.Context, r *running, kind faceKind, from, n int, leave bool) *opened {
	ctx, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	o := &opened{}
	clients, err := drive.NewCallers(ctx, r.contender.plan(kind, r.addr, size{Request: smallCall, Answer: smallCall}))
	if err != nil {
		o.failed, o.first = n-from, err
		return o
	}
	var mu sync.Mutex
	next := make(chan struct{})
	var all sync.WaitGroup
	for range openers {
		all.Go(func() { // until next is closed
			for range next {
				c, err := clients.Open()
				if err == nil {
					if err = c.Call(); err != nil || leave {
						c.Leave()
					}
				}
				mu.Lock()
				switch {
				case err == nil:
					o.callers = append(o.callers, c)
				default:
					if o.failed++; o.first == nil {
						o.first = err
					}
				}
				mu.Unlock()
			}
		})
	}
	for index := from; index < n && ctx.Err() == nil; index++ {
		if index%checkEvery == 0 && availableMemory() < leastMemory {
			o.short = true
			break
		}
		next <- struct{}{}
	}
	close(next)
	all.Wait()
	return o
}

func (o *opened) leave() {
	for _, c := range o.callers {
		c.Leave()
	}
}

// countSessions opens sessions at each contender, in steps, and counts what it uses.
func (b *bench) countSessions(ctx context.Context, rep *report) error {
	for i := range b.field {
		c := &b.field[i]
		if c.perRequest {
			continue
		}
		for _, kind := range c.sessionFaces() {
			if err := b.countOne(ctx, rep, c, kind); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) countOne(ctx context.Context, rep *report, c *contender, kind faceKind) error {
	r, err := b.launch(ctx, c, 0, "")
	if err != nil {
		return ctx.Err() // the contender is recorded as absent
	}
	defer b.stop(r)
	var held []*opened
	defer func() {
		for _, o := range held {
			o.leave()
		}
	}()
	have, failed := 0, 0
	for _, wanted := range append([]int{0}, b.settings.sessions...) {
		began := time.Now()
		o := open(ctx, r, kind, have+failed, wanted, false)
		row := sessionRow{Contender: c.name, What: c.what, Face: kind, Wanted: wanted, Seconds: time.Since(began).Seconds()}
		held = append(held, o)
		have, failed = have+len(o.callers), failed+o.failed
		row.Open, row.Failed = have, failed
		if o.first != nil {
			row.First = o.first.Error()
		}
		if o.short {
			row.Note = fmt.Sprintf("stopped: less than %d GiB of free memory", leastMemory>>30)
		}
		if err = measure.Pause(ctx, settle); err != nil {
			return err
		}
		if row.Census, err = r.tree.read(); err != nil {
			return err
		}
		rep.Sessions = append(rep.Sessions, row)
		b.say("%s, %s: %d sessions (%d failed): %d+%d processes, %.1f + %.1f MiB", c.name, kind, row.Open, row.Failed,
			row.Census.Own.Processes, row.Census.Children.Processes, mib(row.Census.Own.PSS), mib(row.Census.Children.PSS))
		if ended := r.process.Failed(); ended != nil {
			rep.Sessions[len(rep.Sessions)-1].Note = ended.Error()
			return nil
		}
		if o.short {
			return nil
		}
	}
	return nil
}
