package report

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// latencyOf reads a histogram of nanoseconds.
func latencyOf(h *hdrhistogram.Histogram) Latency {
	l := Latency{Percentiles: map[string]float64{}}
	if h.TotalCount() == 0 {
		return l
	}
	l.Mean, l.StdDev, l.Min, l.Max = h.Mean()/1000, h.StdDev()/1000, float64(h.Min())/1000, float64(h.Max())/1000
	for _, name := range PercentileNames() {
		p, _ := strconv.ParseFloat(strings.TrimPrefix(name, "p"), 64)
		l.Percentiles[name] = float64(h.ValueAtQuantile(p)) / 1000
	}
	for _, p := range curvePercentiles(h.TotalCount()) {
		at := float64(h.ValueAtQuantile(p)) / 1000
		if p == 0 {
			at = l.Min
		}
		l.Curve = append(l.Curve, [2]float64{p, at})
	}
	return l
}

// curvePercentiles returns the percentiles of the curve: the same number for each nine, as far as the number of values allows.
func curvePercentiles(total int64) (all []float64) {
	const steps = 12 // for each nine
	last := math.Log10(float64(max(total, 1)))
	for i := 0; float64(i)/steps < last && i < 7*steps; i++ {
		all = append(all, 100*(1-math.Pow(10, -float64(i)/steps)))
	}
	return append(all, 100*(1-math.Pow(10, -min(last, 7))))
}

// text writes a time with three digits.
func text(us float64) string {
	switch {
	case us == 0:
		return "0"
	case us < 1000:
		return digits(us) + " µs"
	case us < 1e6:
		return digits(us/1000) + " ms"
	case us < 120e6:
		return digits(us/1e6) + " s"
	}
	return time.Duration(us * float64(time.Microsecond)).Round(time.Second).String()
}

// digits writes a number with three significant digits.
func digits(v float64) string {
	switch a := math.Abs(v); {
	case a >= 100 || v == math.Trunc(v):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 0.01:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

// number writes a large number in groups.
func number(v float64) string {
	if math.Abs(v) < 1000 {
		return digits(v)
	}
	s := strconv.FormatFloat(v, 'f', 0, 64)
	for at := len(s) - 3; at > 0 && s[at-1] != '-'; at -= 3 {
		s = s[:at] + " " + s[at:]
	}
	return s
}

// size writes bytes.
func size(b float64) string {
	switch a := math.Abs(b); {
	case a < 1<<10:
		return digits(b) + " B"
	case a < 1<<20:
		return digits(b/(1<<10)) + " KiB"
	case a < 1<<30:
		return digits(b/(1<<20)) + " MiB"
	}
	return digits(b/(1<<30)) + " GiB"
}

// share writes a part of a whole in percent.
func share(part, whole float64) string { return digits(100*per(part, whole)) + " %" }
