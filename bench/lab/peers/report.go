//go:build linux

package main

import (
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"dragoman/bench/measure"
)

// summaryFile holds the last results. Its path is relative to the root of the repository.
const summaryFile = "bench/RESULTS.md"

// report is the content of the JSON file. Memory is in bytes.
type report struct {
	Started  time.Time         `json:"started"`
	Ended    time.Time         `json:"ended"`
	Short    bool              `json:"short"`
	Machine  map[string]string `json:"machine"`
	LoadAt   [2]string         `json:"load_average"` // at the start and at the end
	Versions map[string]string `json:"versions"`
	Absent   map[string]string `json:"left_out,omitempty"`

	Rounds      int     `json:"rounds"`
	Seconds     float64 `json:"seconds_per_round"`
	Connections int     `json:"connections"`

	Starts    []startRow     `json:"startup,omitempty"`
	Rates     []rateRow      `json:"rates,omitempty"`
	Verdicts  []verdict      `json:"verdicts,omitempty"`
	Sessions  []sessionRow   `json:"sessions,omitempty"`
	Idle      []idleRow      `json:"idle,omitempty"`
	Abandoned []abandonedRow `json:"abandoned,omitempty"`
	Leftover  []leftover     `json:"left_after_sigterm,omitempty"`
}

// verdict compares a row of Dragoman with the best peer.
type verdict struct {
	Contender string   `json:"contender"`
	Face      faceKind `json:"face"`
	Size      size     `json:"size"`
	// Like: only peers that start as many children are compared; otherwise all with the same clients.
	Like   bool           `json:"children_alike"`
	Target float64        `json:"target,omitempty"`
	Met    bool           `json:"met"`
	Best   string         `json:"best_peer"`
	Rate   measure.Spread `json:"requests_ratio"` // round by round
	// Bound is the highest possible Rate if CPU time is the limit and Dragoman's own work took none: child and clients need theirs.
	Bound float64        `json:"requests_ratio_bound"`
	Lean  string         `json:"leanest_peer"`
	CPU   measure.Spread `json:"proxy_cpu_ratio"` // the leanest peer's own CPU time per call divided by Dragoman's
}

func newReport(ctx context.Context, s *settings) *report {
	return &report{
		Started: time.Now().UTC().Truncate(time.Second), Short: s.short,
		Rounds: s.rounds, Seconds: s.duration.Seconds(), Connections: connections,
		Machine: map[string]string{
			"system": runtime.GOOS + "/" + runtime.GOARCH, "cpus": fmt.Sprint(runtime.NumCPU()),
			"kernel": measure.FileLine("/proc/sys/kernel/osrelease", ""), "cpu": measure.FileLine("/proc/cpuinfo", "model name"),
			"memory": measure.FileLine("/proc/meminfo", "MemTotal"),
		},
		LoadAt: [2]string{loadAverage()},
		Versions: map[string]string{
			"go": runtime.Version(), "node": measure.FirstLine(ctx, s.node, "--version"),
			"dragoman":         measure.FirstLine(ctx, s.dragoman, "version"),
			"supergateway":     packageVersion(s.npm, "supergateway"),
			"mcp-proxy":        packageVersion(s.npm, "mcp-proxy"),
			"TBXark/mcp-proxy": moduleVersion(s.tbxark),

			"python":                   measure.FirstLine(ctx, filepath.Join(s.python, kitMCPProxyPy, "bin", "python"), "--version"),
			"mcp-proxy (PyPI)":         wheelVersion(s.python, kitMCPProxyPy, "mcp_proxy"),
			"mcpo":                     wheelVersion(s.python, kitMCPO, "mcpo"),
			"mcp-contextforge-gateway": wheelVersion(s.python, kitContextForge, "mcp_contextforge_gateway"),
			"fastmcp":                  wheelVersion(s.python, kitFastMCP, "fastmcp"),
		},
	}
}

// wheelVersion returns the version that pip has installed; empty: none.
func wheelVersion(python, kit, name string) string {
	found, err := filepath.Glob(filepath.Join(python, kit, "lib/python*/site-packages", name+"-*.dist-info"))
	if err != nil || len(found) != 1 {
		return ""
	}
	return strings.TrimSuffix(strings.TrimPrefix(filepath.Base(found[0]), name+"-"), ".dist-info")
}

// packageVersion returns the version that npm has installed; empty: none.
func packageVersion(modules, name string) string {
	var is struct{ Version string }
	raw, err := os.ReadFile(filepath.Join(modules, name, "package.json"))
	if err != nil || json.Unmarshal(raw, &is) != nil {
		return ""
	}
	return is.Version
}

// moduleVersion returns the version of TBXark's module in a Go program.
func moduleVersion(program string) string {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return ""
	}
	for _, m := range append(info.Deps, &info.Main) {
		if strings.HasSuffix(m.Path, "/mcp-proxy") {
			return m.Version
		}
	}
	return ""
}

func loadAverage() string {
	words := strings.Fields(measure.FileLine("/proc/loadavg", ""))
	return strings.Join(words[:min(3, len(words))], " ")
}

// finish compares the rows after all measurements.
func (r *report) finish(absent map[string]string, left []leftover) {
	r.Ended = time.Now().UTC().Truncate(time.Second)
	r.LoadAt[1] = loadAverage()
	r.Absent, r.Leftover = absent, left
	for i := range r.Rates {
		row := &r.Rates[i]
		if !row.contender.ours || len(row.Rounds) == 0 {
			continue
		}
		all, like := r.judge(row, false), r.judge(row, true)
		if all != nil {
			r.Verdicts = append(r.Verdicts, *all)
		}
		if like != nil && like.Best != all.Best {
			r.Verdicts = append(r.Verdicts, *like)
		}
	}
}

// judge compares a row with its best rival; nil: there is none.
func (r *report) judge(row *rateRow, like bool) *verdict {
	v := &verdict{Contender: row.Contender, Face: row.Face, Size: row.Size, Like: like, Target: row.Size.target(row.Face)}
	best := r.best(row, like, func(a, b *rateRow) bool { return a.PerSecond.Median > b.PerSecond.Median })
	if best == nil {
		return nil
	}
	v.Best, v.Rate = best.Contender, measure.Ratios(row.values(perSecond), best.values(perSecond))
	v.Met = v.Rate.Median >= v.Target
	if rest := row.All.Median - row.Own.Median + row.Generator.Median; rest > 0 {
		v.Bound = (best.All.Median + best.Generator.Median) / rest
	}
	lean := r.best(row, like, func(a, b *rateRow) bool { return a.Own.Median < b.Own.Median })
	v.Lean, v.CPU = lean.Contender, measure.Ratios(lean.values(ownCPU), row.values(ownCPU))
	return v
}

// best returns the best peer with the same face and size. A peer with wrong answers does not count.
func (r *report) best(of *rateRow, like bool, before func(a, b *rateRow) bool) *rateRow {
	var best *rateRow
	for i := range r.Rates {
		row := &r.Rates[i]
		if row.contender.ours || row.Face != of.Face || row.Size != of.Size || len(row.Rounds) == 0 || row.Errors > 0 ||
			like && row.contender.isolates != of.contender.isolates {
			continue
		}
		if best == nil || before(row, best) {
			best = row
		}
	}
	return best
}

// failure returns an error if Dragoman's figures are unreliable: wrong answers, failed sessions, or processes left behind. Failures of
// peers are part of the report.
func (r *report) failure() error {
	var errs []error
	for _, row := range r.Rates {
		if row.contender.ours && (row.Errors > 0 || row.Note != "") {
			errs = append(errs, fmt.Errorf("peers: %s, %s, %s: %d wrong answers: %s %s", row.Contender, row.Face, row.Size, row.Errors, row.First, row.Note))
		}
	}
	for _, row := range r.Sessions {
		if ours(row.Contender) && (row.Failed > 0 || row.Note != "") {
			errs = append(errs, fmt.Errorf("peers: %s, %s: %d of %d sessions failed: %s %s", row.Contender, row.Face, row.Failed, row.Wanted, row.First, row.Note))
		}
	}
	for _, row := range r.Idle {
		if row.Failed > 0 {
			errs = append(errs, fmt.Errorf("peers: idle sessions, %s: %d failed: %s", row.What, row.Failed, row.First))
		}
	}
	for _, l := range r.Leftover {
		if ours(l.Contender) {
			errs = append(errs, fmt.Errorf("peers: %s has left %d processes behind: %s", l.Contender, l.Processes, l.Example))
		}
	}
	for name, why := range r.Absent {
		if ours(name) {
			errs = append(errs, fmt.Errorf("peers: %s: %s", name, why))
		}
	}
	return errors.Join(errs...)
}

// summarise copies the verdicts of a report to the file of the last results.
func summarise(file string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("peers: %w", err)
	}
	r := &report{}
	if err := json.Unmarshal(raw, r); err != nil || len(r.Verdicts) == 0 {
		return fmt.Errorf("peers: %s is not a report with verdicts: %w", file, err)
	}
	if err := r.summary().Summarise(summaryFile); err != nil {
		return fmt.Errorf("peers: %w", err)
	}
	return nil
}

// write writes the report to new files of dir, as JSON, Markdown and HTML, and returns their names.
func (r *report) write(dir string) ([]string, error) {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("peers: %w", err)
	}
	var text, web strings.Builder
	d := r.document()
	if err = errors.Join(d.Markdown(&text), d.HTML(&web)); err != nil {
		return nil, fmt.Errorf("peers: %w", err)
	}
	if err = os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("peers: %w", err)
	}
	name := filepath.Join(dir, "peers-"+r.Started.Format("20060102-150405"))
	if r.Short {
		name += "-short"
	}
	names := []string{name + ".json", name + ".md", name + ".html"}
	for i, content := range []string{string(raw) + "\n", text.String(), web.String()} {
		if err = os.WriteFile(names[i], []byte(content), 0o644); err != nil {
			return nil, fmt.Errorf("peers: %w", err)
		}
	}
	return names, nil
}
