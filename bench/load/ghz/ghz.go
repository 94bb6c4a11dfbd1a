// Package ghz measures gRPC servers by ghz, a load generator for gRPC. It sends the same request over and over, and looks at the status of answers only.
package ghz

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"time"

	"dragoman/bench/measure"
)

// Run describes a run of ghz.
type Run struct {
	Program     string // path of ghz
	Addr        string // of the server, which has reflection
	Method      string // /PACKAGE.SERVICE/METHOD
	Data        string // file of the request, JSON
	Connections int    // with one call in flight each
	Duration    time.Duration
}

// Result is the result of a run.
type Result struct {
	Report
	CPU time.Duration // of ghz itself
}

// Report is the part of ghz's own report that is read. Times are in nanoseconds.
type Report struct {
	Rate     float64           `json:"rps"`
	Slowest  float64           `json:"slowest"`
	Statuses map[string]uint64 `json:"statusCodeDistribution"`
	Errors   map[string]uint64 `json:"errorDistribution"`
	Latency  []struct {
		Percentage int     `json:"percentage"`
		Latency    float64 `json:"latency"`
	} `json:"latencyDistribution"`
}

// Do runs ghz until the end of the run or of ctx.
func (r *Run) Do(ctx context.Context) (*Result, error) {
	c := exec.CommandContext(ctx, r.Program, "--insecure", "--call", strings.TrimPrefix(r.Method, "/"), "--data-file", r.Data, "--format", "json",
		"--concurrency", fmt.Sprint(r.Connections), "--connections", fmt.Sprint(r.Connections), "--duration", r.Duration.String(), "--duration-stop", "wait", r.Addr)
	c.Env = measure.Environment()
	out, err := c.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("ghz: %w", err)
	}
	result := &Result{CPU: c.ProcessState.UserTime() + c.ProcessState.SystemTime()}
	if err := json.Unmarshal(out, &result.Report); err != nil {
		return nil, fmt.Errorf("ghz: %w", err)
	}
	return result, nil
}

// Right returns how many answers were good.
func (r *Report) Right() uint64 { return r.Statuses["OK"] }

// Wrong returns how many answers were errors, or missing.
func (r *Report) Wrong() (n uint64) {
	for _, some := range r.Errors {
		n += some
	}
	return n
}

// At returns a percentile of the latency; 0: ghz does not report it.
func (r *Report) At(percentage int) time.Duration {
	for _, l := range r.Latency {
		if l.Percentage == percentage {
			return time.Duration(l.Latency)
		}
	}
	return 0
}

// First describes the errors; empty: there were none.
func (r *Report) First() string { return strings.Join(slices.Sorted(maps.Keys(r.Errors)), "; ") }
