package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"text/tabwriter"
	"time"

	"dragoman/bench/load/drive"
	"dragoman/bench/measure"
)

// summaryFile holds the last results, from the root of the repository.
const summaryFile = "bench/RESULTS.md"

// noteLimit is how much of a note the table shows.
const noteLimit = 80

// report is what the JSON file holds. Times are microseconds, memory is bytes.
type report struct {
	Started     time.Time         `json:"started"`
	Machine     map[string]string `json:"machine"`
	Versions    map[string]string `json:"versions"`
	RoundsAsked int               `json:"rounds"`
	Seconds     float64           `json:"seconds_per_round"`
	Connections int               `json:"connections"`
	SSE         bool              `json:"sse"`
	Baseline    string            `json:"baseline"`
	Rough       bool              `json:"rough,omitempty"` // too few rounds for figures to be quoted
	Sections    []ran             `json:"sections"`
	Targets     []verdict         `json:"targets"`
	Rows        []*row            `json:"cells"`
	Start       []*startRow       `json:"start,omitempty"`
	Memory      []*memoryRow      `json:"memory,omitempty"`
	Allocs      []*allocRow       `json:"allocations,omitempty"`
}

// ran is a section of the run.
type ran struct {
	Name    string  `json:"name"`
	What    string  `json:"what"`
	Seconds float64 `json:"seconds"`
	Failed  string  `json:"failed,omitempty"`
}

// row is one cell at one size, in one section.
type row struct {
	Section     string  `json:"section"`
	Name        string  `json:"name"`
	What        string  `json:"what"`
	Size        int     `json:"size"`
	Connections int     `json:"connections"`
	SSE         bool    `json:"sse,omitempty"`
	Note        string  `json:"note,omitempty"` // why it was left out, or given up
	Failed      bool    `json:"failed,omitempty"`
	FirstError  string  `json:"first_error,omitempty"`
	Rounds      []round `json:"rounds"`

	PerSecond measure.Spread `json:"requests_per_second"`
	P50       measure.Spread `json:"p50_us"`
	P90       measure.Spread `json:"p90_us"`
	P99       measure.Spread `json:"p99_us"`
	CPU       measure.Spread `json:"cpu_us_per_request"`
	Children  measure.Spread `json:"children_cpu_us_per_request"`
	Behind    measure.Spread `json:"upstream_cpu_us_per_request"`
	Load      measure.Spread `json:"load_cpu_us_per_request"`
	RSS       measure.Spread `json:"rss"`
	// Against the baseline of the same rounds: more requests are better, less CPU is.
	RateRatio measure.Spread `json:"requests_ratio"`
	CPURatio  measure.Spread `json:"cpu_ratio"`
	// LeastRatio is the least that a call took in any round, against the baseline's least: what else runs can only add to both.
	LeastRatio float64 `json:"cpu_ratio_of_least"`

	// Instructions are those of a call, in user mode, where they were counted.
	Instructions      uint64  `json:"instructions,omitempty"`
	InstructionsRatio float64 `json:"instructions_ratio,omitempty"`
	// Hottest are the functions that took most of them, with their part.
	Hottest []string `json:"hottest,omitempty"`

	cell cell
}

// round is one measurement.
type round struct {
	Requests  uint64  `json:"requests"`
	Errors    uint64  `json:"errors"`
	PerSecond float64 `json:"requests_per_second"`
	P50       float64 `json:"p50_us"`
	P90       float64 `json:"p90_us"`
	P99       float64 `json:"p99_us"`
	Max       float64 `json:"max_us"`
	CPU       float64 `json:"cpu_us_per_request"`
	Children  float64 `json:"children_cpu_us_per_request"`
	Behind    float64 `json:"upstream_cpu_us_per_request"`
	Load      float64 `json:"load_cpu_us_per_request"`
	RSS       float64 `json:"rss"`
}

// way is what a call takes of the processors on its whole way but for the client.
func (r *round) way() float64 { return r.CPU + r.Children + r.Behind }

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
		CPU: micro(cpu.Own) / calls, Children: micro(cpu.Children) / calls, Behind: micro(m.behind[1]-m.behind[0]) / calls,
		Load: micro(m.load[1]-m.load[0]) / calls, RSS: float64(rss),
	}
	if r.Elapsed > 0 {
		out.PerSecond = float64(r.Right) / r.Elapsed.Seconds()
	}
	return out
}

func micro(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func newReport(ctx context.Context, s settings) *report {
	r := &report{
		Started: time.Now().UTC().Truncate(time.Second), Baseline: baseline, Rough: s.rounds < wholeRounds,
		RoundsAsked: s.rounds, Seconds: s.duration.Seconds(), Connections: s.connections, SSE: s.sse,
		Machine: map[string]string{
			"system": runtime.GOOS + "/" + runtime.GOARCH, "cpus": fmt.Sprint(runtime.NumCPU()),
			"kernel": firstWords("/proc/sys/kernel/osrelease", ""), "cpu": firstWords("/proc/cpuinfo", "model name"),
		},
		Versions: map[string]string{
			"go": runtime.Version(), "nginx": measure.FirstLine(ctx, s.nginx, "-v"),
			"dragoman": measure.FirstLine(ctx, s.dragoman, "version"),
		},
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == "github.com/valyala/fasthttp" {
				r.Versions["fasthttp"] = dep.Version
			}
		}
	}
	return r
}

// firstWords gives the first line of a file, or what follows "key :" in it.
func firstWords(file, key string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		name, value, found := strings.Cut(line, ":")
		if key == "" {
			return strings.TrimSpace(line)
		}
		if found && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func (r *report) addRows(section string, cells []cell, size, connections int) []*row {
	from := len(r.Rows)
	for _, c := range cells {
		r.Rows = append(r.Rows, &row{Section: section, Name: c.name, What: c.what, Size: size, Connections: connections, Rounds: []round{}, cell: c})
	}
	return r.Rows[from:]
}

// row finds a row with rounds; nil: there is none.
func (r *report) row(section, name string, size int) *row {
	for _, one := range r.Rows {
		if one.Section == section && one.Name == name && one.Size == size && len(one.Rounds) > 0 {
			return one
		}
	}
	return nil
}

// where says what is measured, for people.
func (r *row) where() string { return fmt.Sprintf("%s, %d bytes", r.Section, r.Size) }

func (r *row) fail(err error) {
	r.Failed = true
	r.Note = "failed: " + err.Error()
}

// values gives one figure of every round.
func (r *row) values(f func(*round) float64) []float64 {
	values := make([]float64, len(r.Rounds))
	for i := range r.Rounds {
		values[i] = f(&r.Rounds[i])
	}
	return values
}

// Figures of rounds.
func perSecond(x *round) float64 { return x.PerSecond }
func ofCPU(x *round) float64     { return x.CPU }
func ofP50(x *round) float64     { return x.P50 }
func ofP99(x *round) float64     { return x.P99 }

// sum fills in what the rounds come to.
func (r *report) sum() {
	for _, row := range r.Rows {
		row.PerSecond = measure.Sum(row.values(perSecond))
		row.P50 = measure.Sum(row.values(ofP50))
		row.P90 = measure.Sum(row.values(func(x *round) float64 { return x.P90 }))
		row.P99 = measure.Sum(row.values(ofP99))
		row.CPU = measure.Sum(row.values(ofCPU))
		row.Children = measure.Sum(row.values(func(x *round) float64 { return x.Children }))
		row.Behind = measure.Sum(row.values(func(x *round) float64 { return x.Behind }))
		row.Load = measure.Sum(row.values(func(x *round) float64 { return x.Load }))
		row.RSS = measure.Sum(row.values(func(x *round) float64 { return x.RSS }))
		if base := r.row(row.Section, baseline, row.Size); base != nil {
			row.RateRatio = measure.Ratios(row.values(perSecond), base.values(perSecond))
			row.CPURatio = measure.Ratios(row.values(ofCPU), base.values(ofCPU))
			if least := measure.Sum(base.values(ofCPU)).Min; least > 0 {
				row.LeastRatio = row.CPU.Min / least
			}
		}
	}
}

// errors counts the wrong answers of a row.
func (r *row) errors() uint64 {
	var n uint64
	for i := range r.Rounds {
		n += r.Rounds[i].Errors
	}
	return n
}

// failure tells whether any figure must not be believed. A target that is missed is none.
func (r *report) failure() error {
	var errs []error
	for _, one := range r.Sections {
		if one.Failed != "" {
			errs = append(errs, fmt.Errorf("bench: %s: %s", one.Name, one.Failed))
		}
	}
	for _, row := range r.Rows {
		if row.Failed {
			errs = append(errs, fmt.Errorf("bench: %s, %s: %s", row.where(), row.Name, row.Note))
		}
		if n := row.errors(); n > 0 {
			errs = append(errs, fmt.Errorf("bench: %s, %s: %d wrong answers: %s", row.where(), row.Name, n, row.FirstError))
		}
	}
	return errors.Join(errs...)
}

// print writes the tables for people.
func (r *report) print(out io.Writer) {
	fmt.Fprintf(out, "\n%s, %s CPUs, %s; %d connections; medians of %d rounds of %gs; ratios to %q, round by round (lowest-highest)\n\n",
		r.Machine["cpu"], r.Machine["cpus"], r.Versions["go"], r.Connections, r.RoundsAsked, r.Seconds, r.Baseline)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "section\tbytes\tcell\treq/s\tratio\tCPU µs/req\tratio\tchildren µs\tp50 ms\tp99 ms\tRSS MB\terrors\t")
	for _, row := range r.Rows {
		if len(row.Rounds) == 0 {
			note, _, _ := strings.Cut(row.Note, "\n") // the whole stands in the file
			fmt.Fprintf(w, "%s\t%d\t%s\t%.*s\n", row.Section, row.Size, row.What, noteLimit, note)
			continue
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%.0f\t%s\t%.1f\t%s\t%.1f\t%.3f\t%.3f\t%.1f\t%d\t\n", row.Section, row.Size, row.What,
			row.PerSecond.Median, ratio(row.RateRatio), row.CPU.Median, ratio(row.CPURatio), row.Children.Median,
			row.P50.Median/1000, row.P99.Median/1000, row.RSS.Median/(1<<20), row.errors())
	}
	_ = w.Flush() // out is for people; what matters is in the file
	if len(r.Targets) == 0 {
		return
	}
	fmt.Fprintln(out)
	w = tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, v := range r.Targets {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t\n", v.word(), v.What, v.limit(), v.figure(), v.Beside)
	}
	_ = w.Flush()
}

func ratio(s measure.Spread) string {
	if s.Rounds == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f (%.2f-%.2f)", s.Median, s.Min, s.Max)
}

// summarize enters a report that was written before in the file of the last results.
func summarize(file string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	r := &report{}
	if err := json.Unmarshal(raw, r); err != nil || len(r.Targets) == 0 {
		return fmt.Errorf("bench: %s is not a report with targets: %w", file, err)
	}
	if err := r.summary().Summarize(summaryFile); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	return nil
}

// write puts the report into new files of dir, as JSON, as a page and as Markdown, and returns the first one's name.
func (r *report) write(dir string) (string, error) {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return "", fmt.Errorf("bench: %w", err)
	}
	if err = os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("bench: %w", err)
	}
	stem := filepath.Join(dir, r.Started.Format("20060102-150405"))
	if err = os.WriteFile(stem+".json", append(text, '\n'), 0o644); err != nil {
		return "", fmt.Errorf("bench: %w", err)
	}
	doc := r.document()
	for end, write := range map[string]func(io.Writer) error{".html": doc.HTML, ".md": doc.Markdown} {
		var b strings.Builder
		if err = write(&b); err == nil {
			err = os.WriteFile(stem+end, []byte(b.String()), 0o644)
		}
		if err != nil {
			return "", fmt.Errorf("bench: %w", err)
		}
	}
	return stem + ".json", nil
}
