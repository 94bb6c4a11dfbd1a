//go:build linux

package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"dragoman/bench/load/drive"
	"dragoman/bench/measure"
)

// measureRates calls all contenders in turn, round by round and size by size.
func (b *bench) measureRates(ctx context.Context, rep *report) error {
	for _, s := range b.settings.sizes {
		rows := b.rateRows(ctx, s)
		for n := range b.settings.rounds {
			for i := range rows {
				row := rows[(i+n)%len(rows)]
				if row.Note == "" {
					b.rateOnce(ctx, row)
				}
				if ctx.Err() != nil {
					break
				}
			}
			b.say("%s: round %d of %d", s, n+1, b.settings.rounds)
		}
		stopped := map[*running]bool{}
		for _, row := range rows {
			if row.running != nil && !stopped[row.running] {
				stopped[row.running] = true
				b.stop(row.running)
			}
			row.sum()
			rep.Rates = append(rep.Rates, *row)
			b.say("%s, %s, %s: %.0f/s, %.0f µs (%.0f µs with children) %d errors %s %s", s, row.Contender, row.Face, row.PerSecond.Median,
				row.Own.Median, row.All.Median, row.Errors, row.First, row.Note)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// rateRows starts all contenders. The faces of one contender share a process.
func (b *bench) rateRows(ctx context.Context, s size) []*rateRow {
	var rows []*rateRow
	for i := range b.field {
		c := &b.field[i]
		r, err := b.launch(ctx, c, 0, "")
		for _, kind := range c.faces() {
			row := &rateRow{Contender: c.name, What: c.what, Face: kind, Size: s, contender: c, running: r}
			if err != nil {
				row.Note, row.running = err.Error(), nil
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// rateOnce adds a round to a row, or a note that ends it.
func (b *bench) rateOnce(ctx context.Context, row *rateRow) {
	p := row.contender.plan(row.Face, row.running.addr, row.Size)
	p.Warmup, p.Duration = b.settings.warmup, b.settings.duration
	if len(row.Rounds) == 0 {
		p.Warmup = b.settings.firstWarmup
	}
	var before, after census
	var generator [2]time.Duration
	var errs [4]error
	p.Mark = func(i int) {
		if i == 0 {
			before, errs[0] = row.running.tree.times()
			generator[0], _, errs[1] = measure.ReadTimes(os.Getpid())
			return
		}
		generator[1], _, errs[2] = measure.ReadTimes(os.Getpid())
		after, errs[3] = row.running.tree.times()
	}
	got, err := call(ctx, p)
	if len(got.Wrong) > 0 && row.First == "" {
		row.First = placeless(got.Wrong[0].Kind + ": " + got.Wrong[0].Example)
	}
	if ended := row.running.process.Failed(); ended != nil {
		err = ended
	}
	if err = errors.Join(append(errs[:], err)...); err != nil {
		row.Note = "given up: " + placeless(err.Error())
		return
	}
	if got.Right == 0 {
		row.Note = "given up: no correct answer: " + row.First
		return
	}
	own, all := cpuBetween(before, after)
	calls := float64(got.Right)
	at := func(percent float64) float64 {
		return measure.Micro(time.Duration(got.Latency.ValueAtQuantile(percent)))
	}
	row.Rounds = append(row.Rounds, rate{
		Requests: got.Right, Errors: got.Errors + got.Warmup, Strays: got.Strays, PerSecond: calls / got.Elapsed.Seconds(),
		Own: measure.Micro(own) / calls, All: measure.Micro(all) / calls, Generator: measure.Micro(generator[1]-generator[0]) / calls, P50: at(50), P99: at(99),
	})
}

// call opens the connections and their sessions, makes the calls, and ends the sessions. Wrong answers are no error.
func call(ctx context.Context, p drive.Plan) (*drive.Result, error) {
	runner, err := drive.Open(ctx, p)
	if err != nil {
		return &drive.Result{}, err
	}
	defer runner.Close()
	return runner.Run(), ctx.Err()
}

// placeless removes this directory from a contender's messages: some contain where they are installed.
func placeless(text string) string {
	here, err := os.Getwd()
	if err != nil {
		return text
	}
	return strings.ReplaceAll(text, here+"/", "")
}
