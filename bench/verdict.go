package main

import (
	"fmt"
	"math"
	"strings"

	"dragoman/bench/measure"
)

// verdict is a target and its result.
type verdict struct {
	Section string         `json:"section"`
	What    string         `json:"what"`
	Limit   float64        `json:"limit"`
	AtLeast bool           `json:"at_least"` // the limit is a minimum; otherwise a maximum
	Unit    string         `json:"unit,omitempty"`
	Figure  measure.Spread `json:"figure"`
	Beside  string         `json:"beside,omitempty"` // further figures
	Met     bool           `json:"met"`
	Unknown bool           `json:"not_measured,omitempty"`
}

func (v *verdict) word() string {
	switch {
	case v.Unknown:
		return "not measured"
	case v.Met:
		return "met"
	}
	return "missed"
}

func (v *verdict) limit() string {
	sign := "≤"
	if v.AtLeast {
		sign = "≥"
	}
	return fmt.Sprintf("%s %s%s", sign, short(v.Limit), v.Unit)
}

func (v *verdict) figure() string {
	switch {
	case v.Unknown:
		return "-"
	case v.Figure.Rounds < 2:
		return short(v.Figure.Median) + v.Unit
	}
	return fmt.Sprintf("%s%s (%s–%s)", short(v.Figure.Median), v.Unit, short(v.Figure.Min), short(v.Figure.Max))
}

// short writes a number with at most two decimals.
func short(v float64) string {
	if v >= 100 || v <= -100 {
		return fmt.Sprintf("%.0f", v)
	}
	s := fmt.Sprintf("%.2f", v)
	if strings.Contains(s, ".") {
		s = strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// The targets. CPU time decides; requests per second are shown beside it.
const (
	mostBare      = 1.15 // times the bare proxy's CPU time, 300 bytes
	leastRate     = 0.9  // of the bare proxy's requests per second
	leastNginx    = 0.85 // of nginx's speed by CPU time
	leastLarge    = 0.90 // of the bare proxy's, larger messages
	leastSSE      = 0.95 // likewise, event streams
	leastCross    = 0.80 // of the speed of the same client at a server of its own era
	mostAdded50   = 1.1  // times the latency that the bare proxy adds
	mostAdded99   = 1.3
	leastPolicies = 0.85 // of the speed without policies
	mostClosed    = 2 << 10
	mostStream    = 4 << 10
	mostGrown     = 2.0 // percent over the time that sessions are held
	mostStart     = 10.0
	mostWork      = 1.10 // times the cost with few tools, servers or sessions
	// Through several servers as one, of the speed through one server.
	leastMergedModern = 0.95
	leastMergedLegacy = 0.90
	leastMergedCross  = 0.85
	leastGRPC         = 0.9 // of the speed of the better transcoder
)

// leastStdio is the target of the stdio cell, which has one hop fewer to pay for at small messages.
func leastStdio(size int) float64 {
	switch {
	case size <= smallSize:
		return 1.3
	case size < 100<<10:
		return 0.9
	}
	return 0.8
}

// judge compares the figures with the targets.
func (r *report) judge() {
	for _, size := range r.sizesOf(secCalls) {
		r.judgeCalls(size)
	}
	for _, size := range r.sizesOf(secSSE) {
		for _, name := range []string{cellModern, cellLegacy} {
			r.compare(secSSE, fmt.Sprintf("event streams, %s, %d bytes, against the bare proxy", name, size), leastSSE, r.row(secSSE, baseline, size), r.row(secSSE, name, size), ofCPU)
		}
	}
	for _, name := range []string{cellModern, cellLegacy} {
		r.judgeAdded(name, "p50", mostAdded50, ofP50)
		r.judgeAdded(name, "p99", mostAdded99, ofP99)
	}
	r.compare(secPolicies, "all policies on against all off", leastPolicies, r.row(secPolicies, cellOff, smallSize), r.row(secPolicies, cellOn, smallSize), ofCPU)
	for _, a := range r.Allocs {
		if a.Name == cellModern {
			r.single(secAllocs, "allocations of a call, modern to modern", "", 0, a.Objects+0.0, fmt.Sprintf("%.0f bytes", a.Bytes))
		}
	}
	for _, s := range r.Start {
		if s.Name == startFigure {
			v := verdict{Section: secStart, What: "start to first answer, without the child's time", Limit: mostStart, Unit: " ms", Figure: s.Sum, Met: s.Sum.Median <= mostStart,
				Beside: fmt.Sprintf("a Go program that listens and answers: %s ms", short(r.Start[0].Sum.Median))}
			r.Targets = append(r.Targets, v)
		}
	}
	for _, of := range []string{"tools", "servers", "sessions"} {
		r.judgeGrowth(of)
	}
	r.Targets = append(r.Targets, r.Several...)
	for _, size := range r.sizesOf(secGRPC) {
		r.judgeGRPC(size)
	}
	r.judgeMemory()
}

// judgeCalls judges the calls of one size.
func (r *report) judgeCalls(size int) {
	row := func(name string) *row { return r.row(secCalls, name, size) }
	bare, bytes := row(baseline), fmt.Sprintf("%d bytes", size)
	for _, name := range []string{cellModern, cellLegacy} {
		switch {
		case size <= smallSize:
			if one := row(name); one != nil && bare != nil {
				v := verdict{Section: secCalls, What: fmt.Sprintf("same era, %s, %s: CPU against the bare proxy", name, bytes), Limit: mostBare, Figure: one.CPURatio,
					Beside: fmt.Sprintf("requests/s %s, wanted ≥ %s", ratio(one.RateRatio), short(leastRate))}
				v.Met = v.Figure.Median <= mostBare && one.RateRatio.Median >= leastRate
				r.Targets = append(r.Targets, v)
			}
			r.compare(secCalls, fmt.Sprintf("same era, %s, %s, against nginx", name, bytes), leastNginx, row(cellNginx), row(name), ofCPU)
		default:
			r.compare(secCalls, fmt.Sprintf("same era, %s, %s, against the bare proxy", name, bytes), leastLarge, bare, row(name), ofCPU)
		}
	}
	r.compare(secCalls, "modern client, legacy server, "+bytes+", against modern", leastCross, row(cellModern), row(cellModernLegacy), ofCPU)
	r.compare(secCalls, "legacy client, modern server, "+bytes+", against legacy", leastCross, row(cellLegacy), row(cellLegacyModern), ofCPU)
	if size <= smallSize {
		r.judgeMerged(row)
	}
	r.compare(secCalls, "to a child, "+bytes+", the whole way against the bare proxy's with its server", leastStdio(size), bare, row(cellStdio), (*round).way)
}

// judgeMerged judges calls through several servers as one against the same calls through one server.
func (r *report) judgeMerged(row func(name string) *row) {
	of := fmt.Sprintf("through %d servers of %d tools as one, against one server: ", mergedServers, mergedTools)
	r.compare(secCalls, of+"modern", leastMergedModern, row(cellModern), row(cellMergeModern), ofCPU)
	r.compare(secCalls, of+"legacy", leastMergedLegacy, row(cellLegacy), row(cellMergeLegacy), ofCPU)
	r.compare(secCalls, of+"legacy child, the whole way", leastMergedLegacy, row(cellAloneStdio), row(cellMergeStdio), (*round).way)
	r.compare(secCalls, of+"modern client, legacy server", leastMergedCross, row(cellModernLegacy), row(cellMergeModernLegacy), ofCPU)
	r.compare(secCalls, of+"legacy client, modern server", leastMergedCross, row(cellLegacyModern), row(cellMergeLegacyModern), ofCPU)
}

// compare judges the speed of one row against a base by their CPU times, if both were measured.
func (r *report) compare(section, what string, least float64, base, one *row, of func(*round) float64) {
	if base == nil || one == nil {
		return
	}
	speed := measure.Ratios(base.values(of), one.values(of))
	rate := measure.Ratios(one.values(perSecond), base.values(perSecond))
	v := verdict{Section: section, What: what, Limit: least, AtLeast: true, Figure: speed, Met: speed.Median >= least, Beside: "requests/s " + ratio(rate)}
	if one.Size >= 1<<20 {
		v.Beside += fmt.Sprintf("; %.0f MiB in memory, the other %.0f", one.RSS.Median/(1<<20), base.RSS.Median/(1<<20))
	}
	r.Targets = append(r.Targets, v)
}

// judgeGRPC judges calls at gRPC servers of one size against the transcoder that takes less CPU time. The rate of
// ghz, which has no hop, stands beside.
func (r *report) judgeGRPC(size int) {
	better := r.row(secGRPC, cellVanguard, size)
	if other := r.row(secGRPC, cellGateway, size); better == nil || other != nil && other.CPU.Median < better.CPU.Median {
		better = other
	}
	for _, one := range []struct{ name, what, ghz string }{{cellProvider, "a gRPC provider", cellGhzProvider}, {cellService, "a gRPC service", cellGhzService}} {
		ours := r.row(secGRPC, one.name, size)
		if better == nil || ours == nil {
			continue
		}
		r.compare(secGRPC, fmt.Sprintf("HTTP to %s, %d bytes, against %s", one.what, size, better.Name), leastGRPC, better, ours, ofCPU)
		if direct := r.row(secGRPC, one.ghz, size); direct != nil {
			r.Targets[len(r.Targets)-1].Beside += "; of ghz's without a hop " + ratio(measure.Ratios(ours.values(perSecond), direct.values(perSecond)))
		}
	}
}

// judgeAdded judges the latency that a hop adds against what the bare proxy adds.
func (r *report) judgeAdded(name, what string, most float64, of func(*round) float64) {
	row := func(name string) *row { return r.row(secLatency, name, smallSize) }
	direct, bare, one := row(cellDirect), row(baseline), row(name)
	if direct == nil || bare == nil || one == nil {
		return
	}
	ours, theirs := added(one, direct, of), added(bare, direct, of)
	for i, v := range theirs {
		if v <= 0 {
			theirs[i] = math.NaN() // other load has distorted this round
		}
	}
	v := verdict{Section: secLatency, What: fmt.Sprintf("added latency at %s, %s, against the bare proxy's", what, name), Limit: most, Figure: measure.Ratios(ours, theirs),
		Beside: fmt.Sprintf("%s µs, the bare proxy %s µs, no hop %s µs", short(measure.Sum(ours).Median), short(measure.Sum(theirs).Median), short(measure.Sum(direct.values(of)).Median))}
	v.Met, v.Unknown = v.Figure.Rounds > 0 && v.Figure.Median <= most, v.Figure.Rounds == 0
	r.Targets = append(r.Targets, v)
}

// added returns what a hop adds, round by round.
func added(one, direct *row, of func(*round) float64) []float64 {
	a, b := one.values(of), direct.values(of)
	n := min(len(a), len(b))
	out := make([]float64, n)
	for i := range n {
		out[i] = a[i] - b[i]
	}
	return out
}

// judgeGrowth compares many of something with few. Neither CPU time nor latency may grow.
func (r *report) judgeGrowth(of string) {
	var rows []*row
	for _, one := range r.Rows {
		if one.Section == secGrowth && strings.HasPrefix(one.Name, of+"-") && len(one.Rounds) > 0 {
			rows = append(rows, one)
		}
	}
	if len(rows) != 2 {
		return
	}
	p50 := measure.Ratios(rows[1].values(ofP50), rows[0].values(ofP50))
	cpu := measure.Ratios(rows[1].values(ofCPU), rows[0].values(ofCPU))
	v := verdict{Section: secGrowth, What: fmt.Sprintf("%s against %s: p50 of a call", strings.TrimPrefix(rows[1].What, "dragoman, "), strings.TrimPrefix(rows[0].What, "dragoman, ")),
		Limit: mostWork, Figure: p50, Met: p50.Median <= mostWork && cpu.Median <= mostWork, Beside: "CPU " + ratio(cpu) + ", likewise"}
	r.Targets = append(r.Targets, v)
}

func (r *report) judgeMemory() {
	for _, m := range r.Memory {
		total := fmt.Sprintf("%d sessions, %.1f MiB", m.More, float64(m.MoreRSS)/(1<<20))
		switch m.Name {
		case memoryClosed:
			r.single(secMemory, m.What+", idempotency off", " B", mostClosed, m.PerSession, total)
		case memoryStream:
			r.single(secMemory, m.What, " B", mostStream, m.PerSession, total)
		case memoryBoth:
			r.single(secMemory, fmt.Sprintf("%d sessions, half with open streams, held %.0f s: growth", m.More, m.Held), " %", mostGrown, 100*m.Growth, total)
		}
	}
}

// single judges a figure that was measured once.
func (r *report) single(section, what, unit string, most, got float64, beside string) {
	r.Targets = append(r.Targets, verdict{Section: section, What: what, Limit: most, Unit: unit, Figure: measure.Spread{Median: got, Min: got, Max: got, Rounds: 1},
		Met: got <= most+0.005, Beside: beside})
}

// sizesOf returns the sizes of a section's rows.
func (r *report) sizesOf(section string) (all []int) {
	for _, one := range r.Rows {
		if one.Section == section && (len(all) == 0 || all[len(all)-1] != one.Size) {
			all = append(all, one.Size)
		}
	}
	return all
}
