package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"time"

	"dragoman/bench/load/drive"
	"dragoman/bench/measure"
	"dragoman/bench/reference"
	"dragoman/bench/reference/special"
)

// Chaos: of several servers one is killed, one hangs, one is slow and one lies, while clients call all of them. Calls of the others must not
// become slower.
const (
	goodServers = 8
	chaosRate   = 1000.0 // calls a second of the good servers, due at a constant rate
	badRate     = 40.0   // of the bad ones
	badTimeout  = time.Second
	badConns    = 64  // calls of the bad ones at once
	mostP50     = 1.2 // times that of before
	mostP99     = 2.0
	mostRouting = 5.0 // milliseconds, a tenth of what seed 004 wants
	chaosLength = 3   // times as long as another measurement: a 99th percentile needs many calls
)

// The bad servers.
const (
	killed = "killed"
	hung   = "hung"
	slow   = "slow"
	lying  = "lying"
)

func badServers() []string { return []string{killed, hung, slow, lying} }

// chaos compares the calls of good servers while the others behave well and while they do not.
func (b *suite) chaos(ctx context.Context, t *targets) error {
	if runtime.GOOS != "linux" {
		return nil // see suspend
	}
	for _, era := range []reference.Era{reference.Modern, reference.Legacy} {
		m, err := t.moody(ctx, era)
		if err != nil {
			return err
		}
		err = b.chaosOf(ctx, m, era)
		m.stop()
		t.stop()
		if err != nil {
			return err
		}
	}
	return nil
}

// moody is a Dragoman in front of good servers and of those that turn bad.
type moody struct {
	t     *targets
	era   reference.Era
	under target
	bad   map[string]target
}

func (t *targets) moody(ctx context.Context, era reference.Era) (*moody, error) {
	good, err := t.listing(ctx, era, goodServers)
	if err != nil {
		return nil, err
	}
	m := &moody{t: t, era: era, bad: map[string]target{}}
	lines := members(&good, goodServers)
	for _, name := range badServers() {
		if m.bad[name], err = m.begin(ctx, name, "127.0.0.1:0"); err != nil {
			m.stop()
			return nil, err
		}
		one := m.bad[name]
		lines = append(lines, fmt.Sprintf("[upstreams.%s]\nurl = %q\n", name, one.url()))
	}
	m.under, err = t.configured(ctx, "dragoman-chaos-"+string(era), false, "catalogue.path = \"memory\"\n"+strings.Join(lines, ""))
	if err == nil {
		_, err = t.whole(ctx, &m.under, goodServers*goodServers+len(badServers()))
	}
	if err != nil {
		m.stop()
	}
	return m, err
}

// begin starts a server that may turn bad.
func (m *moody) begin(ctx context.Context, name, listen string) (target, error) {
	return m.t.role(ctx, name, roleMoody, "--era", string(m.era), "--listen", listen)
}

func (m *moody) stop() {
	if m.under.process != nil {
		m.under.process.Stop()
	}
	for _, one := range m.bad {
		if one.process != nil {
			_ = suspend(one.process.PID(), false) // it may have ended
			one.process.Stop()
		}
	}
}

// turn makes the bad servers bad, or good again.
func (m *moody) turn(ctx context.Context, bad bool) (err error) {
	manner := map[string]special.Manner{slow: special.Well, lying: special.Well}
	if bad {
		manner = map[string]special.Manner{slow: special.Slow, lying: special.Lying}
		err = m.bad[killed].process.Kill()
	} else {
		dead := m.bad[killed]
		dead.process.Stop()
		m.bad[killed], err = m.begin(ctx, killed, dead.addr)
	}
	for name, how := range manner {
		at := m.bad[name]
		resp, herr := http.Get("http://" + at.addr + "/manner/" + string(how)) //nolint:noctx // it is our own process, on the loopback
		if herr == nil {
			herr = resp.Body.Close()
		}
		err = errors.Join(err, herr)
	}
	return errors.Join(err, suspend(m.bad[hung].process.PID(), bad))
}

// chaosOf measures rounds of both kinds in turn.
func (b *suite) chaosOf(ctx context.Context, m *moody, era reference.Era) error {
	var p50, p95, p99, worst [2][]float64
	wrong := uint64(0)
	for i := range b.rounds {
		for _, bad := range [...]bool{false, true} {
			if err := m.turn(ctx, bad); err != nil {
				return fmt.Errorf("bench: chaos: %w", err)
			}
			got, err := b.chaosRound(ctx, m)
			if err != nil {
				return err
			}
			at := 0
			if bad {
				at = 1
			}
			if wrong += got.Errors + got.Unsent; got.Errors > 0 {
				fmt.Fprintf(b.progress, "chaos, %s, round %d, bad %v: %s\n", era, i+1, bad, firstOf(got))
			}
			quantile := func(percent float64) float64 { return float64(got.Latency.ValueAtQuantile(percent)) / 1000 }
			p50[at], p95[at] = append(p50[at], quantile(50)), append(p95[at], quantile(95))
			p99[at], worst[at] = append(p99[at], quantile(99)), append(worst[at], quantile(100))
		}
		if err := m.turn(ctx, false); err != nil {
			return fmt.Errorf("bench: chaos: %w", err)
		}
		fmt.Fprintf(b.progress, "chaos, %s: round %d of %d\n", era, i+1, b.rounds)
	}
	what := fmt.Sprintf("one server killed, one hung, one slow, one lying: calls of the %d others, %s clients: ", goodServers, era)
	beside := func(of [2][]float64) string {
		return fmt.Sprintf("%s µs, before %s µs", short(measure.Sum(of[1]).Median), short(measure.Sum(of[0]).Median))
	}
	b.found(verdict{What: what + "p50", Limit: mostP50, Figure: measure.Ratios(p50[1], p50[0]), Beside: beside(p50)})
	b.found(verdict{What: what + "p99", Limit: mostP99, Figure: measure.Ratios(p99[1], p99[0]), Beside: beside(p99) + "; the slowest " + beside(worst)})
	b.found(verdict{What: what + "wrong answers, or none", Figure: measure.Sum([]float64{float64(wrong)})})
	b.found(verdict{What: fmt.Sprintf("%g calls a second of %d servers, %s clients: p95, of all of it", chaosRate, goodServers, era), Limit: mostRouting, Unit: " ms",
		Figure: measure.Sum(scaled(p95[0], 1e-3)), Beside: "seed 004: 50 ms, 100 calls a second"})
	return nil
}

// scaled multiplies values.
func scaled(values []float64, by float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = v * by
	}
	return out
}

// chaosRound calls the good servers at a constant rate, while others call the bad ones.
func (b *suite) chaosRound(ctx context.Context, m *moody) (*drive.Result, error) {
	face := map[reference.Era]drive.Face{reference.Modern: drive.ModernHTTP, reference.Legacy: drive.LegacyHTTP}[m.era]
	calls := func(names []string) drive.Plan {
		plan := m.under.plan(face, smallSize, false)
		echo := plan.Calls[0]
		plan.Calls = nil
		for _, name := range names {
			plan.Calls = append(plan.Calls, at(echo, name+".echo"))
		}
		plan.Warmup, plan.Duration = b.warmup, chaosLength*b.duration
		return plan
	}
	var names []string
	for i := range goodServers {
		names = append(names, memberName(i))
	}
	good, bad := calls(names), calls(badServers())
	good.Connections, good.Rate = b.connections, chaosRate
	bad.Connections, bad.Rate, bad.Timeout = badConns, badRate, badTimeout
	beside, err := drive.Open(ctx, bad)
	if err != nil {
		return nil, err
	}
	defer beside.Close()
	runner, err := drive.Open(ctx, good)
	if err != nil {
		return nil, err
	}
	defer runner.Close()
	done := make(chan struct{})
	go func() { // ends with the plan's duration
		defer close(done)
		beside.Run()
	}()
	result := runner.Run()
	<-done
	if ended := m.under.process.Failed(); ended != nil {
		return nil, ended
	}
	return result, result.Broken
}
