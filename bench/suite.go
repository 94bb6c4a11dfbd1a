package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"dragoman/bench/load/drive"
	"dragoman/bench/load/ghz"
	"dragoman/bench/measure"
	"dragoman/proxy/wire"
)

// suite is one run.
type suite struct {
	settings
	self, dir string
	progress  io.Writer
	report    *report
}

// interleave measures rows in turn, round by round.
func (b *suite) interleave(ctx context.Context, t *targets, rows []*row) {
	for round := range b.rounds {
		for i := range rows {
			// Each round begins with another row, so that no row always follows the slowest one.
			row := rows[(i+round)%len(rows)]
			if row.Note != "" {
				continue
			}
			b.measureRow(ctx, t, row)
			if ctx.Err() != nil {
				return
			}
		}
		fmt.Fprintf(b.progress, "%s: round %d of %d\n", rows[0].where(), round+1, b.rounds)
	}
}

// measureRow adds one round to a row, or a note that ends it.
func (b *suite) measureRow(ctx context.Context, t *targets, row *row) {
	under, err := t.get(ctx, row.cell.target)
	var got round
	switch {
	case err != nil:
	case row.cell.method != "":
		got, err = b.ghzOnce(ctx, &under, row)
	default:
		got, err = b.measureOnce(ctx, &under, row)
	}
	if errors.Is(err, errAbsent) {
		row.Note = err.Error()
		return
	}
	if err != nil {
		row.fail(err)
		return
	}
	row.Rounds = append(row.Rounds, got)
}

// load is the plan of the calls of a row.
func (b *suite) load(under *target, row *row) drive.Plan {
	plan := under.plan(row.cell.face, row.Size, row.SSE)
	if row.cell.lists {
		plan.Calls = []drive.Call{{Name: "list", Method: "tools/list"}}
	}
	plan.Connections, plan.Warmup, plan.Duration = row.Connections, b.warmup, b.duration
	return plan
}

func (b *suite) measureOnce(ctx context.Context, under *target, row *row) (round, error) {
	plan := b.load(under, row)
	if len(row.Rounds) == 0 {
		if err := under.await(ctx, plan); err != nil {
			return round{}, err
		}
	}
	meter := meter{under: under}
	plan.Mark = meter.mark
	runner, err := drive.Open(ctx, plan)
	if err != nil {
		return round{}, err
	}
	result := runner.Run()
	runner.Close()
	if ended := under.process.Failed(); ended != nil {
		return round{}, ended
	}
	if result.Broken != nil {
		return round{}, fmt.Errorf("%w: %s", result.Broken, firstOf(result))
	}
	rss, err := measure.ReadRSS(under.process.PID())
	if err = errors.Join(meter.err, err); err != nil && runtime.GOOS == "linux" {
		return round{}, err
	}
	if row.FirstError == "" {
		row.FirstError = firstOf(result)
	}
	return newRound(result, &meter, rss), nil
}

// ghzOnce measures a round by ghz.
func (b *suite) ghzOnce(ctx context.Context, under *target, row *row) (round, error) {
	program, err := exec.LookPath(b.settings.ghz)
	if err != nil {
		return round{}, fmt.Errorf("ghz is %w", errAbsent)
	}
	run := ghz.Run{Program: program, Addr: under.addr, Method: row.cell.method, Data: filepath.Join(b.dir, fmt.Sprintf("%s-%d.json", row.Name, row.Size)),
		Connections: row.Connections, Duration: b.warmup}
	if err := os.WriteFile(run.Data, ghzData(row), 0o600); err != nil {
		return round{}, fmt.Errorf("bench: %w", err)
	}
	if run.Duration > 0 {
		if _, err := run.Do(ctx); err != nil {
			return round{}, err
		}
	}
	run.Duration = b.duration
	from, err := measure.ReadCPU(under.process.PID())
	if err != nil && runtime.GOOS == "linux" {
		return round{}, err
	}
	got, err := run.Do(ctx)
	if err != nil {
		return round{}, err
	}
	to, err := measure.ReadCPU(under.process.PID())
	rss, rerr := measure.ReadRSS(under.process.PID())
	if err = errors.Join(err, rerr); err != nil && runtime.GOOS == "linux" {
		return round{}, err
	}
	if row.FirstError == "" {
		row.FirstError = wire.Visible(got.First())
	}
	calls := float64(max(got.Right(), 1))
	return round{Requests: got.Right(), Errors: got.Wrong(), PerSecond: got.Rate, P50: measure.Micro(got.At(50)), P90: measure.Micro(got.At(90)), P99: measure.Micro(got.At(99)),
		Max: got.Slowest / 1000, CPU: measure.Micro(to.Sub(from).Own) / calls, Load: measure.Micro(got.CPU) / calls, RSS: float64(rss)}, nil
}

// ghzData returns the request of a row as JSON: what the other cells' clients send, with one number.
func ghzData(row *row) []byte {
	call := drive.EchoCall(drive.Plain, row.Size, row.Size, false)
	arguments := strings.ReplaceAll(call.Params, drive.Number, strings.Repeat("0", 10))
	if row.cell.method == sayMethod {
		return []byte(arguments)
	}
	data, _ := json.Marshal(map[string]string{"name": providerTool, "arguments": arguments}) // texts cannot fail
	return data
}

// firstOf gives an example of each kind of wrong answer; empty if there was none.
func firstOf(r *drive.Result) string {
	var all []string
	for _, w := range r.Wrong {
		all = append(all, w.Kind+": "+w.Example)
	}
	return wire.Visible(strings.Join(all, "; ")) // examples are the server's
}

// meter reads the CPU time of the process under test, its children, the server behind it and the load generator at the two marks of a plan.
type meter struct {
	under        *target
	from, to     measure.CPU
	behind, load [2]time.Duration
	err          error
}

func (m *meter) mark(i int) {
	i = min(i, 1)
	into := [2]*measure.CPU{&m.from, &m.to}[i]
	var err error
	*into, err = measure.ReadCPU(m.under.process.PID())
	m.err = errors.Join(m.err, err)
	if m.under.behind != nil {
		m.behind[i], err = measure.ReadOwn(m.under.behind.PID())
		m.err = errors.Join(m.err, err)
	}
	m.load[i], err = measure.ReadOwn(os.Getpid())
	m.err = errors.Join(m.err, err)
}

func newRound(r *drive.Result, m *meter, rss int64) round {
	calls := float64(max(r.Right, 1))
	at := func(percent float64) float64 {
		if r.Right == 0 {
			return 0
		}
		return float64(r.Latency.ValueAtQuantile(percent)) / 1000
	}
	cpu := m.to.Sub(m.from)
	out := round{
		Requests: r.Right, Errors: r.Errors + r.Warmup, P50: at(50), P90: at(90), P99: at(99), Max: at(100),
		CPU: measure.Micro(cpu.Own) / calls, Children: measure.Micro(cpu.Children) / calls, Behind: measure.Micro(m.behind[1]-m.behind[0]) / calls,
		Load: measure.Micro(m.load[1]-m.load[0]) / calls, RSS: float64(rss),
	}
	if r.Elapsed > 0 {
		out.PerSecond = float64(r.Right) / r.Elapsed.Seconds()
	}
	return out
}
