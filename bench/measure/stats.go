// Package measure holds the arithmetic of the benchmark (medians, ratios with
// their spread) and what it asks of the processes under test: starting and
// stopping them, CPU time and memory.
//
// It knows nothing of MCP, of HTTP, or of what the figures stand for.
package measure

import (
	"math"
	"slices"
	"time"
)

// Spread sums up the same quantity over several rounds. The zero value means
// that there was nothing to sum up.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Rounds int     `json:"rounds"`
}

// Sum gives the median and the extremes of values, NaN and infinities left out.
// The median of an even number of values is the mean of the middle two.
func Sum(values []float64) Spread {
	sorted := make([]float64, 0, len(values))
	for _, v := range values {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			sorted = append(sorted, v)
		}
	}
	if len(sorted) == 0 {
		return Spread{}
	}
	slices.Sort(sorted)
	middle := len(sorted) / 2
	median := sorted[middle]
	if len(sorted)%2 == 0 {
		median = (sorted[middle-1] + median) / 2
	}
	return Spread{Median: median, Min: sorted[0], Max: sorted[len(sorted)-1], Rounds: len(sorted)}
}

// Ratios divides values by base, round by round: both were measured within the
// same seconds, so that a busy machine weighs on both. Rounds that only one of
// them has, and a base of zero, give no ratio.
func Ratios(values, base []float64) Spread {
	n := min(len(values), len(base))
	ratios := make([]float64, n)
	for i := range n {
		ratios[i] = values[i] / base[i]
	}
	return Sum(ratios)
}

// Values gives one figure of every round.
func Values[T any](rounds []T, figure func(*T) float64) []float64 {
	values := make([]float64, len(rounds))
	for i := range rounds {
		values[i] = figure(&rounds[i])
	}
	return values
}

// Micro gives a duration in microseconds.
func Micro(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
