package main

import (
	"fmt"
	"strings"

	"dragoman/bench/measure"
	page "dragoman/bench/report"
)

// summary is the section of the report in the file of the last results.
func (r *report) summary() *page.Document {
	d := page.NewDocument("What a hop costs")
	r.preface(d)
	r.targetTable(d)
	return d
}

// document is the report as a document.
func (r *report) document() *page.Document {
	d := page.NewDocument("Dragoman: what a hop costs")
	r.preface(d)
	if len(r.Targets) > 0 {
		d.Heading("Targets")
	}
	r.targetTable(d)
	for _, s := range r.Sections {
		d.Heading(s.Name + ": " + s.What)
		if s.Failed != "" {
			d.Text("Failed: %s", s.Failed)
		}
		switch s.Name {
		case secStart:
			r.startTable(d)
		case secAllocs:
			r.allocTable(d)
		case secMemory:
			r.memoryTable(d)
		default:
			r.callTables(d, s.Name)
		}
	}
	return d
}

// preface names the machine, the versions and the method.
func (r *report) preface(d *page.Document) {
	d.Text("%s, %s processors, %s, Linux %s. %s; %s; fasthttp %s; %s. %s.", r.Machine["cpu"], r.Machine["cpus"], r.Machine["system"], r.Machine["kernel"],
		r.Versions["dragoman"], r.Versions["go"], r.Versions["fasthttp"], r.Versions["nginx"], r.Started.Format("2006-01-02 15:04 UTC"))
	d.Text("Medians of %d interleaved rounds of %g s, with minimum and maximum. The load generator, the process under test and the server behind it share the processors. "+
		"Ratios are formed within each round.", r.RoundsAsked, r.Seconds)
	if r.Rough {
		d.Text("Rough figures from few rounds: do not quote them.")
	}
}

func (r *report) targetTable(d *page.Document) {
	if len(r.Targets) == 0 {
		return
	}
	var rows [][]string
	for i := range r.Targets {
		v := &r.Targets[i]
		rows = append(rows, []string{v.What, v.limit(), v.figure(), v.word(), v.Beside})
	}
	d.Table([]string{"what", "target", "figure", "", "also"}, rows)
	d.Text("A minimum without a unit is a speed: the other's CPU time divided by Dragoman's. `make peers` compares Dragoman with other bridges from stdio to HTTP.")
}

// spread writes a figure with its extremes.
func spread(s measure.Spread) string {
	if s.Rounds < 2 {
		return short(s.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", short(s.Median), short(s.Min), short(s.Max))
}

// callTables writes a table and two charts for each size of a section.
func (r *report) callTables(d *page.Document, section string) {
	for _, size := range r.sizesOf(section) {
		var rows [][]string
		var cpu, p50 []page.Bar
		connections := 0
		for _, one := range r.Rows {
			if one.Section != section || one.Size != size {
				continue
			}
			if len(one.Rounds) == 0 {
				note, _, _ := strings.Cut(one.Note, "\n")
				rows = append(rows, []string{one.What, note, "", "", "", "", "", "", "", ""})
				continue
			}
			connections = one.Connections
			rows = append(rows, []string{one.What, spread(one.CPU), ratio(one.CPURatio), short(one.Children.Median), short(one.Behind.Median), spread(one.PerSecond), ratio(one.RateRatio),
				short(one.P50.Median), short(one.P99.Median), short(one.RSS.Median / (1 << 20)), fmt.Sprint(one.errors())})
			colour := 0
			if one.Name == baseline || one.Name == cellDirect || one.Name == cellNginx {
				colour = 7
			}
			name := strings.TrimPrefix(one.What, "dragoman, ")
			if one.Name != cellDirect {
				cpu = append(cpu, page.Bar{Name: name, Value: one.CPU.Median, Min: one.CPU.Min, Max: one.CPU.Max, Colour: colour})
			}
			p50 = append(p50, page.Bar{Name: name, Value: one.P50.Median, Min: one.P50.Min, Max: one.P50.Max, Colour: colour})
		}
		d.Text("%d bytes, %d connections. CPU times per call in µs: of the process under test, of its children and of the server behind it. Latencies in µs, memory in MiB.", size, connections)
		d.Table([]string{"", "CPU", "against bare", "children", "server", "calls/s", "against bare", "p50", "p99", "memory", "errors"}, rows)
		d.Bars(fmt.Sprintf("CPU of a call, %d bytes (%s)", size, section), " µs", 0, cpu)
		d.Bars(fmt.Sprintf("Latency at p50, %d bytes (%s)", size, section), " µs", 0, p50)
	}
}

func (r *report) startTable(d *page.Document) {
	var rows [][]string
	var bars []page.Bar
	for i, s := range r.Start {
		cpu := ""
		if s.CPU.Median > 0 {
			cpu = spread(s.CPU)
		}
		rows = append(rows, []string{s.What, spread(s.Sum), cpu, fmt.Sprint(len(s.Times))})
		bars = append(bars, page.Bar{Name: s.What, Value: s.Sum.Median, Min: s.Sum.Min, Max: s.Sum.Max, Colour: map[bool]int{true: 0, false: 7}[i == 1 || i > 2]})
	}
	d.Table([]string{"", "ms", "own CPU time until then, ms", "starts"}, rows)
	d.Bars("From fork to the first correct answer", " ms", mostStart, bars)
}

func (r *report) allocTable(d *page.Document) {
	var rows [][]string
	for _, a := range r.Allocs {
		rows = append(rows, []string{a.What, short(a.Objects), short(a.Bytes), fmt.Sprint(a.Calls)})
	}
	d.Table([]string{"", "allocations", "bytes", "calls"}, rows)
}

func (r *report) memoryTable(d *page.Document) {
	var rows [][]string
	var lines []page.Line
	for _, m := range r.Memory {
		each, grown := "", ""
		if m.Less > 0 {
			each = short(m.PerSession)
		}
		if m.Held > 0 {
			grown = fmt.Sprintf("%+.2f %% in %.0f s", 100*m.Growth, m.Held)
			lines = append(lines, page.Line{Name: m.What, Points: m.Course})
		}
		rows = append(rows, []string{m.What, fmt.Sprint(m.More), short(float64(m.MoreRSS) / (1 << 20)), each, grown})
	}
	d.Table([]string{"", "sessions", "MiB in total", "bytes per additional session", "growth"}, rows)
	if len(lines) > 0 {
		d.Memory("Memory while sessions are held", "No requests are made; open streams get keep-alive comments.", lines)
	}
}
