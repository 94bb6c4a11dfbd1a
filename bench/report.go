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

	"dragoman/bench/measure"
)

// summaryFile holds the last results. Its path is relative to the root of the repository.
const summaryFile = "bench/RESULTS.md"

// noteLimit is how many bytes of a note the table shows.
const noteLimit = 80

// report is the content of the JSON file. Times are in microseconds, memory in bytes.
type report struct {
	Started     time.Time         `json:"started"`
	Machine     map[string]string `json:"machine"`
	Versions    map[string]string `json:"versions"`
	RoundsAsked int               `json:"rounds"`
	Seconds     float64           `json:"seconds_per_round"`
	Connections int               `json:"connections"`
	SSE         bool              `json:"sse"`
	Baseline    string            `json:"baseline"`
	Rough       bool              `json:"rough,omitempty"` // too few rounds to quote the figures
	Sections    []ran             `json:"sections"`
	Targets     []verdict         `json:"targets"`
	Rows        []*row            `json:"cells"`
	Start       []*startRow       `json:"start,omitempty"`
	Memory      []*memoryRow      `json:"memory,omitempty"`
	Allocs      []*allocRow       `json:"allocations,omitempty"`
	Several     []verdict         `json:"several,omitempty"`
}

// ran is a section of the run.
type ran struct {
	Name    string  `json:"name"`
	What    string  `json:"what"`
	Seconds float64 `json:"seconds"`
	Failed  string  `json:"failed,omitempty"`
}

func newReport(ctx context.Context, s settings) *report {
	r := &report{
		Started: time.Now().UTC().Truncate(time.Second), Baseline: baseline, Rough: s.rounds < wholeRounds,
		RoundsAsked: s.rounds, Seconds: s.duration.Seconds(), Connections: s.connections, SSE: s.sse,
		Machine: map[string]string{
			"system": runtime.GOOS + "/" + runtime.GOARCH, "cpus": fmt.Sprint(runtime.NumCPU()),
			"kernel": measure.FileLine("/proc/sys/kernel/osrelease", ""), "cpu": measure.FileLine("/proc/cpuinfo", "model name"),
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

func (r *report) addRows(section string, cells []cell, size, connections int) []*row {
	from := len(r.Rows)
	for _, c := range cells {
		r.Rows = append(r.Rows, &row{Section: section, Name: c.name, What: c.what, Size: size, Connections: connections, Rounds: []round{}, cell: c})
	}
	return r.Rows[from:]
}

// row returns the row with this name that has rounds; nil if there is none.
func (r *report) row(section, name string, size int) *row {
	for _, one := range r.Rows {
		if one.Section == section && one.Name == name && one.Size == size && len(one.Rounds) > 0 {
			return one
		}
	}
	return nil
}

// sum computes the figures of every row from its rounds.
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

// failure returns an error if a figure is unreliable. A missed target is no failure.
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

// print prints the tables.
func (r *report) print(out io.Writer) {
	fmt.Fprintf(out, "\n%s, %s CPUs, %s; %d connections; medians of %d rounds of %gs; ratios to %q, round by round (lowest-highest)\n\n",
		r.Machine["cpu"], r.Machine["cpus"], r.Versions["go"], r.Connections, r.RoundsAsked, r.Seconds, r.Baseline)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "section\tbytes\tcell\treq/s\tratio\tCPU µs/req\tratio\tchildren µs\tp50 ms\tp99 ms\tRSS MB\terrors\t")
	for _, row := range r.Rows {
		if len(row.Rounds) == 0 {
			note, _, _ := strings.Cut(row.Note, "\n") // the file has all of it
			fmt.Fprintf(w, "%s\t%d\t%s\t%.*s\n", row.Section, row.Size, row.What, noteLimit, note)
			continue
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%.0f\t%s\t%.1f\t%s\t%.1f\t%.3f\t%.3f\t%.1f\t%d\t\n", row.Section, row.Size, row.What,
			row.PerSecond.Median, ratio(row.RateRatio), row.CPU.Median, ratio(row.CPURatio), row.Children.Median,
			row.P50.Median/1000, row.P99.Median/1000, row.RSS.Median/(1<<20), row.errors())
	}
	_ = w.Flush() // out may be closed; the figures are in the file
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

// summarise copies the targets of a report to the file of the last results.
func summarise(file string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	r := &report{}
	if err := json.Unmarshal(raw, r); err != nil || len(r.Targets) == 0 {
		return fmt.Errorf("bench: %s is not a report with targets: %w", file, err)
	}
	r.Targets = nil
	r.judge() // by the targets of today
	if err := r.summary().Summarise(summaryFile); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	return nil
}

// write writes the report to new files of dir, as JSON, HTML and Markdown, and returns the name of the JSON file.
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
