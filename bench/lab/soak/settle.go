//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dragoman/bench/lab/soak/ledger"
)

const (
	look      = 300 * time.Millisecond // between two readings
	quietTime = 4 * time.Second        // without a change; longer than every timeout of idle things
	reads     = 21                     // readings that are combined into one
	// restTime is how long Dragoman is left alone before its memory is read. Once it is nearly idle it returns unused memory to the system;
	// it checks every two seconds, and twice.
	restTime = 7 * time.Second
	// unsettledTime bounds the sample of a Dragoman that did not settle.
	unsettledTime = restTime + 20*time.Second
)

// settle waits until nothing changes and returns that reading. With a reading from before it waits until nothing exceeds it; after the
// limit the comparison reports what still does.
func (r *soak) settle(ctx context.Context, d *dragoman, before *ledger.Reading, limit time.Duration) (ledger.Reading, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var last ledger.Reading
	for {
		err := r.quiet(ctx, d, before)
		if err == nil {
			var now ledger.Reading
			if now, err = d.sample(ctx); err == nil {
				if last = now; settled(&last, before) {
					return last, nil
				}
			}
		}
		if err != nil {
			return last, r.unsettled(ctx, d, &last, before, err)
		}
	}
}

// quiet waits until nothing changes.
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

// sample combines several readings into one. Memory is read first, without a scrape: a scrape takes as much memory as some sessions.
func (d *dragoman) sample(ctx context.Context) (ledger.Reading, error) {
	pause(ctx, restTime)
	var all []ledger.Reading
	rest, err := d.usage()
	for range reads {
		if err != nil {
			return rest, err
		}
		var now ledger.Reading
		now, err = d.read(ctx)
		all = append(all, now)
		pause(ctx, look/2)
	}
	sum := ledger.Sum(all)
	sum.RSS, sum.Code, sum.HelperRSS = rest.RSS, rest.Code, rest.HelperRSS
	return sum, err
}

func settled(now, before *ledger.Reading) bool {
	if before == nil {
		return now.Idle()
	}
	return len(ledger.Compare(before, now)) == 0
}

// unsettled returns an error if there is nothing to compare. It sets last to the latest sample.
func (r *soak) unsettled(ctx context.Context, d *dragoman, last, before *ledger.Reading, err error) error {
	if end, ok := ctx.Deadline(); !ok || time.Until(end) > look || errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("soak: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unsettledTime)
	defer cancel()
	if last.RSS == 0 { // there is no sample yet
		if *last, err = d.sample(ctx); err != nil {
			return err
		}
	}
	if before == nil || settled(last, before) {
		return fmt.Errorf("soak: does not settle: %s", last)
	}
	return nil // the comparison reports it
}
