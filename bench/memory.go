package main

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"time"

	"dragoman/bench/load/drive"
	"dragoman/bench/measure"
)

// sessionsBefore are opened before the first reading, so that memory which all sessions share is not attributed to the later ones.
const sessionsBefore = 1000

// memory measures the memory of idle sessions with closed connections and with an open stream, and whether it grows over time.
func (b *suite) memory(ctx context.Context, t *targets) error {
	if runtime.GOOS != "linux" {
		return nil
	}
	if _, _, err := t.program(); err != nil {
		return nil //nolint:nilerr // Dragoman is not installed, as its cells say
	}
	rows := []*memoryRow{
		{Name: memoryClosed, What: "an idle session, its connection closed", Less: sessionsBefore, More: manySessions},
		{Name: memoryStream, What: "an idle session with an open stream", Less: sessionsBefore, More: manySessions},
	}
	if err := b.weigh(ctx, t, rows); err != nil {
		return err
	}
	b.report.Memory = append(b.report.Memory, rows...)
	t.stop()
	both := &memoryRow{Name: memoryBoth, What: "sessions of both kinds, held", More: 2 * manySessions}
	if err := b.keep(ctx, t, both); err != nil {
		return err
	}
	b.report.Memory = append(b.report.Memory, both)
	return nil
}

// idlers are the idle sessions of a row, at a Dragoman of its own.
type idlers struct {
	pid              int
	plain, listening *drive.Idle
}

func (t *targets) idlers(ctx context.Context, r *memoryRow) (*idlers, error) {
	name := "dragoman-memory-" + r.Name
	t.special[name] = func(ctx context.Context) (target, error) { return t.withSessions(ctx, r.More) }
	under, err := t.get(ctx, name)
	if err != nil {
		return nil, err
	}
	plan := under.plan(drive.LegacyHTTP, smallSize, false)
	if err = under.await(ctx, plan); err != nil {
		return nil, err
	}
	i := &idlers{pid: under.process.PID()}
	if i.plain, err = drive.NewIdle(ctx, plan); err == nil {
		i.listening, err = drive.NewListening(ctx, plan)
	}
	return i, err
}

// close closes the connections. The sessions end with their Dragoman.
func (i *idlers) close() { i.listening.Leave() }

// weigh measures rows of one kind of sessions each, all at the same time.
func (b *suite) weigh(ctx context.Context, t *targets, rows []*memoryRow) error {
	var all []*idlers
	for _, r := range rows {
		i, err := t.idlers(ctx, r)
		if err != nil {
			return fmt.Errorf("%s: %w", r.What, err)
		}
		defer i.close()
		all = append(all, i)
	}
	for _, stage := range []func(*memoryRow) (int, *int64){
		func(r *memoryRow) (int, *int64) { return r.Less, &r.LessRSS },
		func(r *memoryRow) (int, *int64) { return r.More, &r.MoreRSS },
	} {
		for at, r := range rows {
			kind := all[at].plain
			if r.Name == memoryStream {
				kind = all[at].listening
			}
			n, _ := stage(r)
			if err := kind.Grow(n); err != nil {
				return fmt.Errorf("%s: %w", r.What, err)
			}
		}
		var pids []int
		for _, i := range all {
			pids = append(pids, i.pid)
		}
		rss, err := b.settled(ctx, pids...)
		if err != nil {
			return err
		}
		for at, r := range rows {
			_, into := stage(r)
			*into = rss[at]
		}
	}
	for _, r := range rows {
		r.PerSession = float64(r.MoreRSS-r.LessRSS) / float64(r.More-r.Less)
		fmt.Fprintf(b.progress, "%s: %.0f bytes\n", r.What, r.PerSession)
	}
	return nil
}

// keep holds sessions of both kinds and measures whether their memory grows.
func (b *suite) keep(ctx context.Context, t *targets, r *memoryRow) error {
	i, err := t.idlers(ctx, r)
	if err != nil {
		return fmt.Errorf("%s: %w", r.What, err)
	}
	defer i.close()
	if err = i.plain.Grow(manySessions); err == nil {
		err = i.listening.Grow(manySessions)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", r.What, err)
	}
	rss, err := b.settled(ctx, i.pid)
	if err != nil {
		return err
	}
	r.MoreRSS = rss[0]
	return b.watch(ctx, i.pid, r)
}

// Memory counts as settled once it has changed by less than a thousandth over settleReads readings, and Dragoman has had time to return
// unused memory to the system.
const (
	settleEvery = time.Second
	settleReads = 3
	settleLeast = 6 * time.Second
	settleLimit = 30 * time.Second
)

// settled returns the memory of the processes once all of it has settled.
func (b *suite) settled(ctx context.Context, pids ...int) ([]int64, error) {
	began := time.Now()
	last := make([]int64, len(pids))
	for calm := 0; ; {
		calm++
		for i, pid := range pids {
			rss, err := measure.ReadRSS(pid)
			if err != nil {
				return nil, err
			}
			if math.Abs(float64(rss-last[i])) > float64(rss)/1000 {
				calm = 0
			}
			last[i] = rss
		}
		if past := time.Since(began); past > settleLimit || past > settleLeast && calm >= settleReads {
			return last, nil
		}
		if err := measure.Pause(ctx, settleEvery); err != nil {
			return nil, err
		}
	}
}

// watch reads the memory while no request is made, and computes its growth.
func (b *suite) watch(ctx context.Context, pid int, r *memoryRow) error {
	began := time.Now()
	for past := time.Duration(0); past < b.hold; past = time.Since(began) {
		rss, err := measure.ReadRSS(pid)
		if err != nil {
			return err
		}
		r.Course = append(r.Course, [2]float64{past.Seconds(), float64(rss)})
		if err := measure.Pause(ctx, settleEvery); err != nil {
			return err
		}
	}
	r.Held = time.Since(began).Seconds()
	r.Growth = growth(r.Course)
	fmt.Fprintf(b.progress, "%s: %.1f MiB, %+.2f %% in %.0f s\n", r.What, float64(r.MoreRSS)/(1<<20), 100*r.Growth, r.Held)
	return nil
}

// growth is how far the median of the last quarter lies above that of the first, as a share of it.
func growth(course [][2]float64) float64 {
	quarter := max(len(course)/4, 1)
	if len(course) == 0 {
		return 0
	}
	middle := func(part [][2]float64) float64 {
		var values []float64
		for _, at := range part {
			values = append(values, at[1])
		}
		return measure.Sum(values).Median
	}
	first := middle(course[:quarter])
	if first == 0 {
		return 0
	}
	return middle(course[len(course)-quarter:])/first - 1
}
