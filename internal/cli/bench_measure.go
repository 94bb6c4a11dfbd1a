package cli

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"dragoman/bench/load/drive"
	benchwatch "dragoman/bench/load/watch"
	benchreport "dragoman/bench/report"
)

// measure runs one of the loads.
func (b *bencher) measure(ctx context.Context, plan drive.Plan, name string) error {
	m := &meter{b: b, ctx: ctx}
	plan.Mark = m.mark
	plan.Tell = func(p drive.Progress) {
		b.progress.Tell(name, p.Phase, p.Elapsed, p.Of, p.Right, p.Wrong, p.Rate)
	}
	b.progress.Say("opening " + fmt.Sprint(plan.Connections) + " connections")
	runner, err := drive.Open(ctx, plan)
	if err != nil {
		return fmt.Errorf("bench: %s: %w", name, err)
	}
	defer runner.Close()
	if m.pids = b.pids; b.URL == "" {
		m.pids = runner.PIDs()
	}
	if err = m.start(); err != nil {
		return err
	}
	result := runner.Run()
	run := m.stop(name, result)
	for i := range run.Wrong {
		run.Wrong[i].Example = b.hide.Text(run.Wrong[i].Example)
	}
	run.Broken = b.hide.Text(run.Broken)
	if result.Elapsed > 0 {
		b.report.Runs = append(b.report.Runs, run)
	}
	return nil
}

// meter measures the resources of the process under test.
type meter struct {
	b     *bencher
	ctx   context.Context
	pids  []int
	watch *benchwatch.Watch

	mu     sync.Mutex
	uses   []benchwatch.Use // at the end of each round
	own    []benchwatch.Use
	allocs []benchwatch.Allocs
}

// start begins the measurement, on systems that support it.
func (m *meter) start() error {
	if len(m.pids) == 0 || runtime.GOOS != "linux" {
		return nil
	}
	var err error
	if m.watch, err = benchwatch.Start(m.pids); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	return nil
}

// mark implements drive.Plan.Mark.
func (m *meter) mark(i int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i > 0 {
		m.read()
	}
	// The request for the metrics is made outside of the measured interval.
	if m.b.Metrics != "" && (i == 0 || i >= m.b.Rounds || m.b.Requests > 0) {
		a, err := benchwatch.ReadAllocs(m.ctx, m.b.Metrics)
		if err != nil {
			m.b.note("allocations are not known: %v", err)
		} else {
			m.allocs = append(m.allocs, a)
		}
	}
	if i == 0 {
		m.read()
	}
}

func (m *meter) read() {
	if own, err := benchwatch.Read([]int{os.Getpid()}); err == nil {
		m.own = append(m.own, own)
	}
	if m.watch == nil {
		return
	}
	if use, err := m.watch.Now(); err == nil {
		m.uses = append(m.uses, use)
	}
}

// stop ends the measurement and returns the report of the run.
func (m *meter) stop(name string, result *drive.Result) benchreport.Run {
	var course []benchwatch.Sample
	if m.watch != nil {
		var err error
		if course, err = m.watch.Stop(); err != nil {
			m.b.note("%s: what the process took is not known to the end: %v", name, err)
		}
	}
	run := benchreport.NewRun(name, result, m.pids, m.uses, course)
	if n := len(m.own); n > 1 && result.Right > 0 {
		used := m.own[n-1].Own - m.own[0].Own
		run.Generator = float64(used) / float64(time.Microsecond) / float64(result.Right)
		if cores := used.Seconds() / max(result.Elapsed.Seconds(), 1e-9); cores > 0.8*float64(runtime.NumCPU()) {
			m.b.note("%s: the load generator took %.1f of %d processors: it may be the limit, not the server", name, cores, runtime.NumCPU())
		}
	}
	if len(m.allocs) == 2 && result.Right > 0 {
		n := float64(result.Right)
		run.Allocs = &benchreport.Allocs{Objects: (m.allocs[1].Objects - m.allocs[0].Objects) / n, Bytes: (m.allocs[1].Bytes - m.allocs[0].Bytes) / n}
	}
	return run
}

// Memory counts as settled once it has changed by less than one percent over some readings.
const (
	settleEvery = 200 * time.Millisecond
	settleReads = 4
	settleLimit = 6 * time.Second
)

// openSessions opens idle sessions, and reads the memory at each requested number.
func (b *bencher) openSessions(ctx context.Context, plan drive.Plan) (*drive.Idle, error) {
	idle, err := drive.NewIdle(ctx, plan)
	if err != nil {
		return nil, fmt.Errorf("bench: --sessions: %w; fix: --face legacy-http or --face sse, if the server has it", err)
	}
	if len(b.pids) == 0 {
		b.note("the memory by sessions is not known: add --pid-of-port, or name the process with --pid")
	}
	for _, n := range append([]int{0}, b.Sessions...) {
		b.progress.Say(fmt.Sprintf("opening %d idle sessions", n))
		if err := idle.Grow(n); err != nil {
			return idle, fmt.Errorf("bench: --sessions: %w", err)
		}
		if len(b.pids) == 0 {
			continue
		}
		use, err := b.settled(ctx)
		if err != nil {
			return idle, fmt.Errorf("bench: %w", err)
		}
		b.report.Sessions = append(b.report.Sessions, benchreport.Session{Open: n, RSS: use.RSS, Children: use.ChildrenRSS})
	}
	return idle, nil
}

// settled reads the memory once it has settled.
func (b *bencher) settled(ctx context.Context) (benchwatch.Use, error) {
	tick := time.NewTicker(settleEvery)
	defer tick.Stop()
	limit := time.Now().Add(settleLimit)
	var last benchwatch.Use
	for calm := 0; ; {
		use, err := benchwatch.Read(b.pids)
		if err != nil {
			return use, err
		}
		now, before := use.RSS+use.ChildrenRSS, last.RSS+last.ChildrenRSS
		if calm++; now-before > now/100 || before-now > now/100 {
			calm = 0
		}
		if last = use; calm >= settleReads || time.Now().After(limit) {
			return use, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return use, ctx.Err()
		}
	}
}
