// Package report writes what `dragoman bench` has measured: on a terminal, as a page with charts, as JSON, and compared with an earlier
// report.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"dragoman/bench/load/drive"
	"dragoman/bench/load/watch"
	"dragoman/bench/measure"
)

// Format is the format of the JSON of a Report. Its number grows when a member changes its meaning.
const Format = "dragoman-bench/1"

// Report holds the measurements. Times are in microseconds, sizes in bytes, shares from 0 to 1.
type Report struct {
	Format   string    `json:"format"`
	Version  string    `json:"version"` // of Dragoman
	Began    time.Time `json:"began"`
	Machine  Machine   `json:"machine"`
	Target   string    `json:"target"` // without credentials
	Face     string    `json:"face"`
	Revision string    `json:"revision,omitempty"`
	Server   string    `json:"server,omitempty"`
	Load     Load      `json:"load"`
	Runs     []Run     `json:"runs"`
	Sessions []Session `json:"sessions,omitempty"` // memory of idle sessions
	Notes    []string  `json:"notes,omitempty"`
	Ended    string    `json:"ended,omitempty"` // why it ended early
	Verdicts []Verdict `json:"verdicts,omitempty"`
	OK       bool      `json:"ok"`
}

// Machine describes the machine on which the load ran.
type Machine struct {
	OS   string `json:"os"`
	Arch string `json:"arch"`
	CPUs int    `json:"cpus"`
	Go   string `json:"go"`
}

// Load describes the load.
type Load struct {
	Calls       []string `json:"calls"` // what was called, with shares
	Why         string   `json:"why"`   // why these calls were chosen
	Connections int      `json:"connections"`
	Processes   int      `json:"processes,omitempty"`
	Rate        float64  `json:"rate,omitempty"` // 0: a closed loop
	Queue       int      `json:"queue,omitempty"`
	WarmupUs    float64  `json:"warmupUs"`
	DurationUs  float64  `json:"durationUs,omitempty"`
	Requests    uint64   `json:"requests,omitempty"`
	TimeoutUs   float64  `json:"timeoutUs"`
	Sessions    int      `json:"sessions,omitempty"` // idle sessions that were open meanwhile
}

// Run is one load.
type Run struct {
	Name      string  `json:"name"`
	ElapsedUs float64 `json:"elapsedUs"`
	Right     uint64  `json:"right"`
	Errors    uint64  `json:"errors"`
	Warmup    uint64  `json:"warmupErrors,omitempty"`
	Unsent    uint64  `json:"unsent,omitempty"`
	Anew      uint64  `json:"reconnects,omitempty"`
	Strays    uint64  `json:"strays,omitempty"`
	RPS       float64 `json:"rps"`
	BytesIn   uint64  `json:"bytesIn"`

	Latency Latency  `json:"latency"`
	Service *Latency `json:"service,omitempty"` // open loop: from when calls were sent
	Wrong   []Wrong  `json:"wrong,omitempty"`
	Rounds  []Round  `json:"rounds"`
	Seconds []Second `json:"seconds"`

	Process *Process `json:"process,omitempty"`
	// Generator is the CPU time of the load generator in microseconds per correct answer; 0 if unknown.
	Generator float64 `json:"generator,omitempty"`
	Allocs    *Allocs `json:"allocs,omitempty"`
	Broken    string  `json:"broken,omitempty"`
}

// Wrong is a kind of wrong answer.
type Wrong struct {
	Kind    string `json:"kind"`
	Count   uint64 `json:"count"`
	Example string `json:"example"`
}

// Latency is the distribution of latencies.
type Latency struct {
	Mean   float64 `json:"mean"`
	StdDev float64 `json:"stddev"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	// Percentiles by names such as "p99.9".
	Percentiles map[string]float64 `json:"percentiles"`
	// Curve is the whole distribution: pairs of percentile and microseconds.
	Curve [][2]float64 `json:"curve"`
}

// Round is a part of a run. The spread of a figure is that of its rounds.
type Round struct {
	RPS    float64  `json:"rps"`
	P50    float64  `json:"p50"`
	P99    float64  `json:"p99"`
	P999   float64  `json:"p999"`
	Max    float64  `json:"max"`
	Mean   float64  `json:"mean"`
	Errors uint64   `json:"errors"`
	CPU    *float64 `json:"cpu,omitempty"` // microseconds per correct answer, of the process and its children
}

// Second is one second of a run.
type Second struct {
	Right  uint64  `json:"right"`
	Errors uint64  `json:"errors,omitempty"`
	Mean   float64 `json:"mean"`
	Max    float64 `json:"max"`
}

// Process holds the resources of the process under test.
type Process struct {
	PIDs       []int    `json:"pids"`
	CPU        float64  `json:"cpu"`        // microseconds per correct answer, user and system
	Children   float64  `json:"children"`   // of its descendants
	Cores      float64  `json:"cores"`      // kept busy, with its descendants
	RSSBefore  int64    `json:"rssBefore"`  // with its descendants
	RSSPeak    int64    `json:"rssPeak"`    // with its descendants, highest reading
	RSSAfter   int64    `json:"rssAfter"`   // with its descendants
	FilesPeak  int      `json:"filesPeak"`  // without descendants
	ThreadPeak int      `json:"threadPeak"` // without descendants
	Below      int      `json:"below"`      // highest number of descendants
	Course     []Memory `json:"course"`
}

// Memory is one reading.
type Memory struct {
	AtUs     float64 `json:"atUs"`
	RSS      int64   `json:"rss"`
	Children int64   `json:"children,omitempty"`
	Files    int     `json:"files"`
	Threads  int     `json:"threads"`
}

// Allocs holds the allocations of a Go program per correct answer.
type Allocs struct {
	Objects float64 `json:"objects"`
	Bytes   float64 `json:"bytes"`
}

// Session holds the memory with a number of idle sessions open.
type Session struct {
	Open     int   `json:"open"`
	RSS      int64 `json:"rss"`
	Children int64 `json:"children"`
}

// PercentileNames lists the percentiles of every report.
func PercentileNames() []string {
	return []string{"p50", "p75", "p90", "p95", "p99", "p99.9", "p99.99"}
}

// NewRun makes a run of the result of a load and, if the process under test was watched, of its resources at the ends of rounds.
func NewRun(name string, r *drive.Result, pids []int, marks []watch.Use, course []watch.Sample) Run {
	out := Run{Name: name, ElapsedUs: us(r.Elapsed), Right: r.Right, Errors: r.Errors, Warmup: r.Warmup, Unsent: r.Unsent, Anew: r.Anew, Strays: r.Strays,
		RPS: per(float64(r.Right), r.Elapsed.Seconds()), BytesIn: r.BytesIn, Latency: latencyOf(r.Latency)}
	if r.Service != nil {
		s := latencyOf(r.Service)
		out.Service = &s
	}
	if r.Broken != nil {
		out.Broken = r.Broken.Error()
	}
	for _, w := range r.Wrong {
		out.Wrong = append(out.Wrong, Wrong(w))
	}
	for i, one := range r.Rounds {
		if one.Elapsed <= 0 {
			continue // the run was interrupted before
		}
		l := latencyOf(one.Latency)
		round := Round{RPS: per(float64(one.Right), one.Elapsed.Seconds()), P50: l.Percentiles["p50"], P99: l.Percentiles["p99"], P999: l.Percentiles["p99.9"],
			Max: l.Max, Mean: l.Mean, Errors: one.Errors}
		if i+1 < len(marks) && one.Right > 0 {
			cpu := us(busy(marks[i+1])-busy(marks[i])) / float64(one.Right)
			round.CPU = &cpu
		}
		out.Rounds = append(out.Rounds, round)
	}
	for _, s := range r.Seconds {
		out.Seconds = append(out.Seconds, Second{Right: s.Right, Errors: s.Errors, Mean: per(us(s.Sum), float64(s.Right)), Max: us(s.Max)})
	}
	if len(marks) > 1 {
		out.Process = processOf(r, pids, marks, course)
	}
	return out
}

func busy(u watch.Use) time.Duration { return u.Own + u.Children }

func processOf(r *drive.Result, pids []int, marks []watch.Use, course []watch.Sample) *Process {
	first, last := marks[0], marks[len(marks)-1]
	p := &Process{PIDs: pids, CPU: per(us(last.Own-first.Own), float64(r.Right)), Children: per(us(last.Children-first.Children), float64(r.Right)),
		Cores: per((busy(last) - busy(first)).Seconds(), r.Elapsed.Seconds()), RSSBefore: first.RSS + first.ChildrenRSS, RSSAfter: last.RSS + last.ChildrenRSS}
	for _, s := range course {
		p.RSSPeak = max(p.RSSPeak, s.RSS+s.ChildrenRSS)
		p.FilesPeak, p.ThreadPeak, p.Below = max(p.FilesPeak, s.Files), max(p.ThreadPeak, s.Threads), max(p.Below, s.Below)
		p.Course = append(p.Course, Memory{us(s.At), s.RSS, s.ChildrenRSS, s.Files, s.Threads})
	}
	return p
}

func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// per divides a by b; 0 if b is 0.
func per(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// Spread returns the median, minimum and maximum of a figure over the rounds.
func (r *Run) Spread(of func(Round) float64) measure.Spread {
	var values []float64
	for _, one := range r.Rounds {
		values = append(values, of(one))
	}
	return measure.Sum(values)
}

// JSON writes the report.
func (r *Report) JSON(w io.Writer) error {
	out, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	_, err = w.Write(append(out, '\n'))
	return err
}

// maxReport limits the size of a report to read.
const maxReport = 256 << 20

// Read reads the output of JSON.
func Read(in io.Reader) (*Report, error) {
	raw, err := io.ReadAll(io.LimitReader(in, maxReport+1))
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	if len(raw) > maxReport {
		return nil, fmt.Errorf("report: it has more than %d bytes", maxReport)
	}
	r := &Report{}
	if err := json.Unmarshal(raw, r); err != nil || r.Format != Format {
		return nil, errors.New("report: not a report of `dragoman bench --json`")
	}
	return r, nil
}
