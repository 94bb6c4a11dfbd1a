package measure

import (
	"math"
	"testing"
)

func TestSum(t *testing.T) {
	f := func(want Spread, values ...float64) {
		t.Helper()
		if got := Sum(values); got != want {
			t.Errorf("Sum(%v) = %+v, want %+v", values, got, want)
		}
	}
	f(Spread{})
	f(Spread{}, math.NaN(), math.Inf(1))
	f(Spread{Median: 3, Min: 3, Max: 3, Rounds: 1}, 3)
	f(Spread{Median: 2, Min: 1, Max: 3, Rounds: 2}, 3, 1)
	f(Spread{Median: 2, Min: 1, Max: 9, Rounds: 3}, 9, 1, 2)
	f(Spread{Median: 2, Min: 1, Max: 9, Rounds: 3}, 9, math.NaN(), 1, 2)
	f(Spread{Median: 2.5, Min: 1, Max: 4, Rounds: 4}, 4, 3, 2, 1)
}

func TestSumLeavesItsArgumentAlone(t *testing.T) {
	values := []float64{3, 1, 2}
	if Sum(values); values[0] != 3 {
		t.Errorf("rounds were reordered: %v", values)
	}
}

func TestRatios(t *testing.T) {
	f := func(want Spread, values, base []float64) {
		t.Helper()
		if got := Ratios(values, base); got != want {
			t.Errorf("Ratios(%v, %v) = %+v, want %+v", values, base, got, want)
		}
	}
	f(Spread{}, nil, nil)
	f(Spread{}, []float64{1}, nil)
	f(Spread{}, []float64{1, 0}, []float64{0, 0})
	// Paired by round: the median of the ratios, not the ratio of the medians.
	f(Spread{Median: 0.5, Min: 0.5, Max: 0.5, Rounds: 3}, []float64{50, 10, 30}, []float64{100, 20, 60})
	f(Spread{Median: 1, Min: 0.5, Max: 2, Rounds: 3}, []float64{1, 4, 3, 8}, []float64{2, 2, 3})
}
