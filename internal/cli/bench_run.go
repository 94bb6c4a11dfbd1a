package cli

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"dragoman/bench/load/drive"
	benchwatch "dragoman/bench/load/watch"
	benchreport "dragoman/bench/report"
	suitepeer "dragoman/conformance/peer"
	suitereport "dragoman/conformance/report"
	"dragoman/internal/app"
	"dragoman/internal/app/logging"
	"dragoman/internal/config/value"
	"dragoman/proxy"
)

var errBenchInterrupted = errors.New("bench: interrupted before anything was measured")

// runBench puts load on a server and reports the results.
func runBench(ctx context.Context, opt *BenchOptions, std app.Streams) error {
	live := logging.Terminal(std.Err)
	b := &bencher{BenchOptions: opt, std: std, progress: benchreport.NewProgress(std.Err, live), hide: suitereport.Hide{URLs: []string{opt.URL, opt.Metrics}}}
	for _, f := range opt.Headers {
		b.hide.Values = append(b.hide.Values, f.Value)
	}
	err := b.run(ctx)
	b.progress.End()
	switch {
	case ctx.Err() != nil && len(b.report.Runs) == 0:
		return failed(errBenchInterrupted)
	case ctx.Err() != nil:
		b.report.Ended = "interrupted"
	case err != nil:
		return b.fault(err)
	}
	return b.tell()
}

// fault returns an error with secrets hidden: it may quote the server.
func (b *bencher) fault(err error) error {
	if ee, ok := errors.AsType[*exitError](err); ok && ee.err != nil {
		return &exitError{ee.code, errors.New(b.hide.Text(ee.err.Error()))}
	}
	return failed(errors.New(b.hide.Text(err.Error())))
}

// bencher is one run of the command.
type bencher struct {
	*BenchOptions
	std      app.Streams
	progress *benchreport.Progress
	hide     suitereport.Hide
	report   benchreport.Report
	found    *found
	pids     []int // from --pid and --pid-of-port
}

// benchRun is one load of the run.
type benchRun struct {
	name  string
	calls []drive.Call
}

func (b *bencher) run(ctx context.Context) error {
	b.report = benchreport.Report{Format: benchreport.Format, Version: app.ReadVersion().Version, Began: time.Now(), Target: b.shown(),
		Machine: benchreport.Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version()}}
	b.warn()
	if err := b.watched(); err != nil {
		return err
	}
	b.progress.Say("looking at " + b.shown())
	var err error
	if b.found, err = b.find(ctx); err != nil {
		return err
	}
	b.report.Face, b.report.Revision, b.report.Server = string(b.found.face), b.found.revision, b.hide.Text(b.found.server)
	plan, err := b.plan()
	if err != nil {
		return err
	}
	runs, why, err := b.choose(ctx, plan)
	if err != nil {
		return err
	}
	b.describe(runs, why)
	if len(b.Sessions) > 0 {
		idle, err := b.openSessions(ctx, plan)
		if idle != nil {
			defer idle.Close()
		}
		if err != nil {
			return err
		}
	}
	for _, r := range runs {
		plan.Calls = r.calls
		if err := b.measure(ctx, plan, r.name); err != nil || ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// shown returns the target's name for display, without secrets.
func (b *bencher) shown() string {
	if b.URL != "" {
		return value.RedactURL(b.URL)
	}
	return suitereport.Arguments(b.Command)
}

// warn adds notes on what else influences the figures.
func (b *bencher) warn() {
	if b.URL == "" {
		return
	}
	u, err := url.Parse(b.URL)
	if err != nil {
		return
	}
	if !proxy.IsLoopbackHost(u.Hostname()) {
		b.note("the target is not on the loopback: the network is part of the figures; see to it that its owner knows of the load")
	}
	if !b.PIDOfPort && b.PID == 0 && runtime.GOOS == "linux" && proxy.IsLoopbackHost(u.Hostname()) {
		b.note("CPU and memory of the server are not read; add --pid-of-port")
	}
}

func (b *bencher) note(format string, args ...any) {
	b.report.Notes = append(b.report.Notes, b.hide.Text(fmt.Sprintf(format, args...)))
}

// watched finds the process that the flags name.
func (b *bencher) watched() error {
	pid := b.PID
	if b.PIDOfPort {
		u, err := url.Parse(b.URL)
		if err != nil {
			return err
		}
		if pid, err = benchwatch.PIDOfPort(portOf(u)); err != nil {
			return fmt.Errorf("bench: --pid-of-port: %w; fix: name the process with --pid", err)
		}
	}
	if pid == 0 {
		return nil
	}
	if _, err := benchwatch.Read([]int{pid}); err != nil {
		return fmt.Errorf("bench: %w; fix: name a process of yours that runs", err)
	}
	b.pids = []int{pid}
	return nil
}

func portOf(u *url.URL) int {
	if n, err := strconv.Atoi(u.Port()); err == nil {
		return n
	}
	if u.Scheme == "https" {
		return 443
	}
	return 80
}

// plan returns the generator's plan, without the calls.
func (b *bencher) plan() (drive.Plan, error) {
	p := drive.Plan{Face: drive.Face(b.found.face), Revision: b.found.revision, Command: b.Command, Env: os.Environ(), Connections: b.Connections, Processes: b.Processes,
		Rate: b.Rate, Queue: b.Queue, Warmup: b.Warmup, Duration: b.Duration, Requests: b.Requests, Rounds: b.Rounds, Timeout: b.Timeout}
	if b.Requests > 0 {
		p.Duration, p.Rounds = 0, 1
	}
	if b.URL == "" {
		p.Processes = min(p.Processes, p.Connections)
		return p, nil
	}
	u, err := url.Parse(b.URL)
	if err != nil {
		return p, fmt.Errorf("bench: %w", err)
	}
	p.Addr, p.Host, p.Path = net.JoinHostPort(u.Hostname(), strconv.Itoa(portOf(u))), u.Host, u.RequestURI()
	if u.Scheme == "https" {
		p.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
		if b.TLS != nil {
			p.TLS = b.TLS.Clone()
		}
		p.TLS.ServerName = u.Hostname()
	}
	var head strings.Builder
	if password, set := u.User.Password(); set {
		head.WriteString("Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password)) + "\r\n")
	}
	for _, f := range b.Headers {
		head.WriteString(f.Name + ": " + f.Value + "\r\n")
	}
	p.Header = head.String()
	return p, nil
}

// describe adds the description of the load to the report.
func (b *bencher) describe(runs []benchRun, why string) {
	us := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	l := benchreport.Load{Why: why, Connections: b.Connections, Rate: b.Rate, WarmupUs: us(b.Warmup), DurationUs: us(b.Duration), Requests: b.Requests, TimeoutUs: us(b.Timeout)}
	if b.URL == "" {
		l.Processes = b.Processes
	}
	if b.Rate > 0 {
		l.Queue = b.Queue
	}
	if b.Requests > 0 {
		l.DurationUs = 0
	}
	if len(b.Sessions) > 0 {
		l.Sessions = b.Sessions[len(b.Sessions)-1]
	}
	for _, r := range runs {
		total := 0
		for _, c := range r.calls {
			total += max(c.Weight, 1)
		}
		for _, c := range r.calls {
			text := c.Name
			if len(r.calls) > 1 {
				text += fmt.Sprintf(" (%d %%)", 100*max(c.Weight, 1)/total)
			}
			if !slices.Contains(l.Calls, text) {
				l.Calls = append(l.Calls, text)
			}
		}
	}
	b.report.Load = l
}

// tell writes the reports and returns the result as an error.
func (b *bencher) tell() error {
	r := &b.report
	r.Judge(b.Thresholds)
	people, err := writeReports(b.std, reportFile{b.JSON, r.JSON}, reportFile{b.HTML, func(w io.Writer) error { return r.HTML(w, b.Old) }})
	if err != nil {
		return err
	}
	if err := r.Terminal(people, b.Colour(people), b.Old); err != nil {
		return failed(err)
	}
	if !r.OK {
		return &exitError{code: ExitFailed}
	}
	return nil
}

// faces returns the faces to try, in order.
func (b *bencher) faces() (all []suitepeer.Face) {
	for _, f := range suitepeer.Faces() {
		if f.Stdio() == (b.URL == "") && (b.Face == "" || b.Face == string(f)) {
			all = append(all, f)
		}
	}
	return all
}

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
