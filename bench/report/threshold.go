package report

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Threshold is a limit for a run, such as p99<20ms.
type Threshold struct {
	Text   string
	metric string
	above  bool // the figure must be above the limit, not below it
	equal  bool // the limit itself is allowed
	share  bool // the limit is a share, of errors
	limit  float64
}

// Verdict is the result of a threshold in a run.
type Verdict struct {
	Threshold string `json:"threshold"`
	Run       string `json:"run"`
	Got       string `json:"got"`
	OK        bool   `json:"ok"`
}

// Metrics lists the metrics of thresholds.
func Metrics() []string {
	return append(PercentileNames(), "mean", "max", "rps", "errors", "unsent", "cpu", "rss", "allocs", "bytes")
}

// ParseThreshold parses a metric, <, <=, > or >=, and a value with its unit: a time (20ms), a share (0.1%) or number of errors, a rate per
// second, or a size (64MiB).
func ParseThreshold(s string) (Threshold, error) {
	t := Threshold{Text: strings.ReplaceAll(s, " ", "")}
	at := strings.IndexAny(t.Text, "<>")
	if at <= 0 {
		return t, errors.New("no < or >; fix: write it like 'p99<20ms', 'errors<0.1%' or 'rps>1000'")
	}
	value := t.Text[at+1:]
	t.metric, t.above = t.Text[:at], t.Text[at] == '>'
	value, t.equal = strings.CutPrefix(value, "=")
	if !slices.Contains(Metrics(), t.metric) {
		return t, fmt.Errorf("there is no metric %q; fix: use one of %s", t.metric, strings.Join(Metrics(), ", "))
	}
	var err error
	switch t.metric {
	case "errors", "unsent":
		value, t.share = strings.CutSuffix(value, "%")
		if t.limit, err = strconv.ParseFloat(value, 64); t.share {
			t.limit /= 100
		}
	case "rps", "allocs":
		t.limit, err = strconv.ParseFloat(value, 64)
	case "rss", "bytes":
		t.limit, err = parseSize(value)
	default:
		var d time.Duration
		d, err = time.ParseDuration(value)
		t.limit = us(d)
	}
	if err != nil || t.limit < 0 {
		return t, fmt.Errorf("%q is not a limit for %s; fix: use a time such as 20ms, a share such as 0.1%%, a size such as 64MiB, or a number", t.Text[at+1:], t.metric)
	}
	return t, nil
}

func parseSize(s string) (float64, error) {
	factor := 1.0
	for _, unit := range []struct {
		name string
		size float64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}} {
		if rest, ok := strings.CutSuffix(s, unit.name); ok {
			s, factor = rest, unit.size
			break
		}
	}
	v, err := strconv.ParseFloat(s, 64)
	return v * factor, err
}

// AboutErrors reports whether the threshold limits errors. Without such a threshold no errors are allowed.
func (t Threshold) AboutErrors() bool { return t.metric == "errors" }

// judge compares a run with a threshold.
func (t Threshold) judge(r *Run) Verdict {
	v := Verdict{Threshold: t.Text, Run: r.Name}
	got, shown, known := t.figure(r)
	if v.Got = shown; !known {
		v.Got = "not measured"
		return v
	}
	switch {
	case got == t.limit:
		v.OK = t.equal
	default:
		v.OK = t.above == (got > t.limit)
	}
	return v
}

func (t Threshold) figure(r *Run) (got float64, shown string, known bool) {
	all := float64(r.Right + r.Errors + r.Unsent)
	timed := r.Right+r.Unsent > 0
	switch t.metric {
	case "errors", "unsent":
		n := float64(r.Errors)
		if t.metric == "unsent" {
			n = float64(r.Unsent)
		}
		if t.share {
			return per(n, all), share(n, all), all > 0
		}
		return n, number(n), true
	case "rps":
		return r.RPS, number(r.RPS), true
	case "mean":
		return r.Latency.Mean, text(r.Latency.Mean), timed
	case "max":
		return r.Latency.Max, text(r.Latency.Max), timed
	case "cpu", "rss":
		switch {
		case r.Process == nil:
			return 0, "", false
		case t.metric == "cpu":
			return r.Process.CPU + r.Process.Children, text(r.Process.CPU + r.Process.Children), true
		}
		return float64(r.Process.RSSPeak), size(float64(r.Process.RSSPeak)), true
	case "allocs", "bytes":
		switch {
		case r.Allocs == nil:
			return 0, "", false
		case t.metric == "allocs":
			return r.Allocs.Objects, digits(r.Allocs.Objects), true
		}
		return r.Allocs.Bytes, size(r.Allocs.Bytes), true
	}
	return r.Latency.Percentiles[t.metric], text(r.Latency.Percentiles[t.metric]), timed
}

// Judge compares all runs with all thresholds, and reports whether all are met and no answer was wrong, unless a threshold allows errors.
func (r *Report) Judge(thresholds []Threshold) {
	r.OK = true
	forgiving := false
	for _, t := range thresholds {
		forgiving = forgiving || t.AboutErrors()
		for i := range r.Runs {
			v := t.judge(&r.Runs[i])
			r.OK = r.OK && v.OK
			r.Verdicts = append(r.Verdicts, v)
		}
	}
	for _, one := range r.Runs {
		if one.Broken != "" || (one.Errors > 0 || one.Warmup > 0) && !forgiving {
			r.OK = false
		}
	}
}
