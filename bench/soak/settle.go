//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dragoman/bench/soak/ledger"
)

const (
	look      = 300 * time.Millisecond // between two readings
	quietTime = 4 * time.Second        // without a change is quiet: longer than every time-out that ends something idle
	reads     = 7                      // that make a reading which counts
	cycles    = 4                      // of the collector, before memory is read
	maxChurn  = 3000                   // metrics that are asked for to see so many
	churnTime = 10 * time.Second       // between two churns, while memory is not back
)

// settle waits until nothing changes any more, and gives what there is then. With a reading from before it waits until
// nothing is more than then; what still is after the limit, the comparison says.
//
// Memory is compared at the same point both times. What the runtime holds at rest is what lives, several times over, and
// not yet touched by as much garbage it is less than that. So first the metrics are asked for until the collector has run
// a few times, which fills what may be filled, drops what pools have kept, and starts giving back the rest.
func (r *soak) settle(ctx context.Context, d *dragoman, before *ledger.Reading, limit time.Duration) (ledger.Reading, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var last ledger.Reading
	for {
		err := r.quiet(ctx, d, before)
		var churned time.Time
		var least int // goroutines: to answer for the metrics takes some, more or less of them
		for err == nil && (churned.IsZero() || time.Since(churned) < churnTime) {
			if churned.IsZero() {
				if err = d.churn(ctx); err != nil {
					break
				}
				churned = time.Now()
			}
			var now ledger.Reading
			if now, err = d.sample(ctx); err != nil {
				break
			}
			last = now
			if least == 0 || last.Goroutines < least {
				least = last.Goroutines
			}
			if last.Goroutines = least; settled(&last, before) {
				return last, nil
			}
		}
		if err != nil {
			return last, r.unsettled(ctx, d, &last, before, err)
		}
	}
}

// quiet waits until nothing changes any more.
func (r *soak) quiet(ctx context.Context, d *dragoman, before *ledger.Reading) error {
	last, err := d.read(ctx)
	for since := time.Now(); err == nil && (time.Since(since) < quietTime || before == nil && !last.Idle()); {
		pause(ctx, look)
		var now ledger.Reading
		if now, err = d.read(ctx); err == nil && !now.Same(&last) {
			since = time.Now()
		}
		last = now
	}
	return err
}

// sample makes one reading of several.
func (d *dragoman) sample(ctx context.Context) (ledger.Reading, error) {
	var all []ledger.Reading
	for range reads {
		now, err := d.read(ctx)
		if err != nil {
			return now, err
		}
		all = append(all, now)
		pause(ctx, look/2)
	}
	return ledger.Sum(all), nil
}

// churn has Dragoman make garbage until its collector has run a few times.
func (d *dragoman) churn(ctx context.Context) error {
	var first, now ledger.Reading
	for i := range maxChurn {
		text, err := d.metrics(ctx)
		if err == nil {
			err = now.AddMetrics(text)
		}
		if err != nil {
			return err
		}
		if i == 0 {
			first = now
		}
		if now.Collected >= first.Collected+cycles {
			return nil
		}
	}
	return nil
}

func settled(now, before *ledger.Reading) bool {
	if before == nil {
		return now.Idle()
	}
	return len(ledger.Compare(before, now)) == 0
}

// unsettled says why there is nothing to settle for. last becomes what there is.
func (r *soak) unsettled(ctx context.Context, d *dragoman, last, before *ledger.Reading, err error) error {
	if end, ok := ctx.Deadline(); !ok || time.Until(end) > look || errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("soak: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), scrapeLimit)
	defer cancel()
	least := last.Goroutines // 0 if there was no sample
	if *last, err = d.sample(ctx); err != nil {
		return err
	}
	if least > 0 {
		last.Goroutines = min(least, last.Goroutines)
	}
	if before == nil || settled(last, before) {
		return fmt.Errorf("soak: it does not come to rest: %s", last)
	}
	return nil // the comparison says it
}
