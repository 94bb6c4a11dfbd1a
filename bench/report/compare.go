package report

import (
	"fmt"
	"math"

	"dragoman/bench/measure"
)

// Difference is one figure of a run, before and now.
type Difference struct {
	Run, Figure string
	Old, New    measure.Spread
	show        func(float64) string
	more        bool // a higher value is better
}

// Change returns the relative increase; 0 if the old value is 0.
func (d *Difference) Change() float64 { return per(d.New.Median-d.Old.Median, d.Old.Median) }

// Within reports whether the rounds of both overlap: then the difference may be chance.
func (d *Difference) Within() bool { return d.New.Min <= d.Old.Max && d.Old.Min <= d.New.Max }

// Word returns the verdict on the difference.
func (d *Difference) Word() string {
	switch {
	case math.Abs(d.Change()) < 0.001:
		return "the same"
	case d.Old.Rounds < 2 && d.New.Rounds < 2:
		return "spread unknown"
	case d.Within():
		return "within the spread"
	case d.Change() > 0 == d.more:
		return "better"
	}
	return "worse"
}

// Comparison compares a report with an earlier one.
type Comparison struct {
	Differences []Difference
	Notes       []string // differences that make the reports hard to compare
	loops       bool     // one is of a closed loop, the other of an open one
}

// Compare compares the runs of the same name by the medians of their rounds.
func Compare(before, now *Report) *Comparison {
	c := &Comparison{}
	note := func(what, a, b string) {
		if a != b {
			c.Notes = append(c.Notes, fmt.Sprintf("%s differs: %s, now %s", what, a, b))
		}
	}
	note("the machine", fmt.Sprint(before.Machine), fmt.Sprint(now.Machine))
	note("the way to the server", before.Face+" "+before.Revision, now.Face+" "+now.Revision)
	note("the load", before.Load.line(), now.Load.line())
	if (before.Load.Rate > 0) != (now.Load.Rate > 0) {
		c.Notes = append(c.Notes, "one was measured in a closed loop, the other in an open loop (--rate): only memory and allocations are compared. Throughput "+
			"is the server's in one and the load's in the other, and latency counts from when a call was sent in one and from when it was due in the other")
		c.loops = true
	}
	for i := range now.Runs {
		found := false
		for j := range before.Runs {
			if before.Runs[j].Name == now.Runs[i].Name {
				c.add(&before.Runs[j], &now.Runs[i])
				found = true
				break
			}
		}
		if !found {
			c.Notes = append(c.Notes, "the earlier report has no run "+now.Runs[i].Name)
		}
	}
	return c
}

func (c *Comparison) add(before, now *Run) {
	figure := func(name string, more bool, show func(float64) string, of func(Round) float64) {
		d := Difference{Run: now.Name, Figure: name, Old: before.Spread(of), New: now.Spread(of), show: show, more: more}
		if d.Old.Rounds > 0 && d.New.Rounds > 0 && !c.loops {
			c.Differences = append(c.Differences, d)
		}
	}
	figure("answers/s", true, number, func(r Round) float64 { return r.RPS })
	figure("p50", false, text, func(r Round) float64 { return r.P50 })
	figure("p99", false, text, func(r Round) float64 { return r.P99 })
	figure("p99.9", false, text, func(r Round) float64 { return r.P999 })
	figure("CPU/answer", false, text, func(r Round) float64 {
		if r.CPU == nil {
			return math.NaN()
		}
		return *r.CPU
	})
	single := func(name string, show func(float64) string, a, b float64) {
		one := func(v float64) measure.Spread { return measure.Spread{Median: v, Min: v, Max: v, Rounds: 1} }
		c.Differences = append(c.Differences, Difference{Run: now.Name, Figure: name, Old: one(a), New: one(b), show: show})
	}
	if before.Process != nil && now.Process != nil {
		single("RSS at most", size, float64(before.Process.RSSPeak), float64(now.Process.RSSPeak))
	}
	if before.Allocs != nil && now.Allocs != nil {
		single("allocations", digits, before.Allocs.Objects, now.Allocs.Objects)
	}
}

func (d *Difference) shown(s measure.Spread) string {
	if s.Rounds < 2 {
		return d.show(s.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", d.show(s.Median), d.show(s.Min), d.show(s.Max))
}

func (d *Difference) percent() string { return fmt.Sprintf("%+.1f %%", 100*d.Change()) }

// compare prints the differences.
func (t *terminal) compare(c *Comparison) {
	t.printf("\nAgainst the earlier report, medians (min–max) of rounds:\n")
	widths := [5]int{}
	rows := make([][5]string, 0, len(c.Differences))
	for i := range c.Differences {
		d := &c.Differences[i]
		rows = append(rows, [5]string{clean(d.Run), d.Figure, d.shown(d.Old), d.shown(d.New), d.percent()})
		for j, cell := range rows[i] {
			widths[j] = max(widths[j], len([]rune(cell)))
		}
	}
	for i, row := range rows {
		for j, cell := range row {
			t.printf("  %s%*s", cell, widths[j]-len([]rune(cell)), "")
		}
		word := c.Differences[i].Word()
		colour := dim
		switch word {
		case "better":
			colour = green
		case "worse":
			colour = red
		}
		t.printf("  %s\n", t.paint(colour, word))
	}
	for _, n := range c.Notes {
		t.printf("  %s %s\n", t.paint(yellow, "note:"), clean(n))
	}
	t.printf("\n")
}
