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
	look       = 300 * time.Millisecond  // between two readings
	quietTime  = 3500 * time.Millisecond // without a change is quiet: longer than every time-out of the configuration
	quietReads = 9                       // that a quiet time has at least
)

// settle waits until nothing changes any more, and gives what there is then. With a reading from before it waits until
// nothing is more than then, and what is more after the limit is the error.
func (r *soak) settle(ctx context.Context, d *dragoman, before *ledger.Reading, limit time.Duration) (ledger.Reading, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var quiet []ledger.Reading
	since := time.Now()
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		now, err := d.read(ctx)
		if err != nil && ctx.Err() == nil {
			return now, err
		}
		if err == nil {
			if len(quiet) > 0 && !now.Same(&quiet[len(quiet)-1]) {
				quiet, since = nil, time.Now()
			}
			quiet = append(quiet, now)
		}
		sum := ledger.Sum(quiet[max(0, len(quiet)-quietReads):])
		if len(quiet) >= quietReads && time.Since(since) >= quietTime && settled(&sum, before) {
			return sum, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return sum, unsettled(ctx, &sum, before)
		}
	}
}

func settled(now, before *ledger.Reading) bool {
	if before == nil {
		return now.Idle()
	}
	return len(ledger.Compare(before, now)) == 0
}

func unsettled(ctx context.Context, now, before *ledger.Reading) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("soak: %w", ctx.Err())
	case before == nil:
		return fmt.Errorf("soak: what was opened is not closed again, and nothing was left out: %s", now)
	}
	return nil // the comparison says it
}
