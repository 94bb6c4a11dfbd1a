//go:build linux

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"dragoman/bench/measure"
	page "dragoman/bench/report"
)

// Colours of the page.
const (
	colourOurs = 0
	colourPeer = 7
)

// summary is the section of the report in the file of the last results.
func (r *report) summary() *page.Document {
	d := page.NewDocument("Beside other bridges and gateways")
	r.preface(d)
	r.verdictTable(d)
	return d
}

// document is the report as a document.
func (r *report) document() *page.Document {
	d := page.NewDocument("Dragoman beside its peers")
	if r.Short {
		d.Text("Short form, which tests the comparison: the figures are rough.")
	}
	r.preface(d)
	if len(r.Verdicts) > 0 {
		d.Heading("Dragoman against the best of the peers")
	}
	r.verdictTable(d)
	r.ratePlots(d)
	r.rateTable(d)
	r.startTable(d)
	r.sessionTable(d)
	r.idleTable(d)
	r.abandonedTable(d)
	return d
}

// preface names the machine and the versions.
func (r *report) preface(d *page.Document) {
	d.Text("%s to %s UTC. %s, %s CPUs, %s of memory, Linux %s; load average %s at the start, %s at the end.",
		r.Started.Format("2006-01-02 15:04"), r.Ended.Format("15:04"), r.Machine["cpu"], r.Machine["cpus"], r.Machine["memory"], r.Machine["kernel"],
		r.LoadAt[0], r.LoadAt[1])
	var versions []string
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		if version := r.Versions[name]; version != "" {
			versions = append(versions, name+" "+strings.TrimPrefix(strings.TrimPrefix(version, name+" "), "Python "))
		}
	}
	d.Text("%s.", strings.Join(versions, "; "))
	for _, name := range slices.Sorted(maps.Keys(r.Absent)) {
		d.Text("Left out: %s: %s", name, cut(r.Absent[name], noteLimit))
	}
	d.Text("All run in front of the same child, a small echo server, or, where stated, the same HTTP server. Every answer is checked. " +
		"Medians are followed by (minimum–maximum).")
}

func (r *report) verdictTable(d *page.Document) {
	if len(r.Verdicts) == 0 {
		return
	}
	d.Text("Ratios are formed round by round. CPU is that of the proxy's own processes for each call: " +
		"that of the leanest peer, divided by Dragoman's. Clients, children and proxies share the processors: the bound is what the first ratio could be " +
		"at most if Dragoman's own work took no time. Rivals are all peers with the same clients, however they start children; if the best of " +
		"them starts children in another way than Dragoman, the best of those that start them alike follows.")
	rows := make([][]string, len(r.Verdicts))
	for i := range r.Verdicts {
		v := &r.Verdicts[i]
		rows[i] = []string{v.Size.String(), string(v.Face), v.Contender, v.rivals(), spread(v.Rate, "%.1f"), v.wanted(), v.word(), fmt.Sprintf("%.1f", v.Bound), v.Best,
			spread(v.CPU, "%.1f"), v.Lean}
	}
	d.Table([]string{"call", "clients", "Dragoman", "rivals", "answers/s, times the best peer's", "target", "", "bound", "best peer", "CPU, times less", "leanest peer"}, rows)
}

func (v *verdict) rivals() string {
	if v.Like {
		return "children alike"
	}
	return "all"
}

func (v *verdict) wanted() string {
	if v.Target == 0 {
		return ""
	}
	return fmt.Sprintf("≥ %g", v.Target)
}

// word is the result of the comparison with the target.
func (v *verdict) word() string {
	switch {
	case v.Target == 0:
		return ""
	case v.Met:
		return "met"
	case v.Bound < v.Target:
		return "missed; the bound is below it"
	}
	return "missed"
}

// ratePlots writes two charts for each size and kind of client.
func (r *report) ratePlots(d *page.Document) {
	var sizes []size
	var faces []faceKind
	for i := range r.Rates {
		row := &r.Rates[i]
		if !slices.Contains(sizes, row.Size) {
			sizes = append(sizes, row.Size)
		}
		if !slices.Contains(faces, row.Face) {
			faces = append(faces, row.Face)
		}
	}
	for _, s := range sizes {
		for _, kind := range faces {
			var answers, cpu []page.Bar
			for i := range r.Rates {
				if row := &r.Rates[i]; row.Size == s && row.Face == kind && len(row.Rounds) > 0 {
					answers = append(answers, row.bar(row.PerSecond))
					cpu = append(cpu, row.bar(row.Own))
				}
			}
			d.Bars(fmt.Sprintf("Answers a second: %s, %s", s, kind), "", 0, answers)
			d.Bars(fmt.Sprintf("The proxy's CPU for a call: %s, %s", s, kind), " µs", 0, cpu)
		}
	}
}

func (row *rateRow) bar(s measure.Spread) page.Bar {
	b := page.Bar{Name: row.Contender, Value: s.Median, Min: s.Min, Max: s.Max, Colour: colourPeer}
	if row.contender.ours {
		b.Colour = colourOurs
	}
	return b
}

func (r *report) rateTable(d *page.Document) {
	if len(r.Rates) == 0 {
		return
	}
	d.Heading("Calls")
	d.Text("%d connections (%d to several servers as one) with a session each, one call under way at a time; %d interleaved rounds of %g s. Times in µs are CPU for a call. "+
		"Strays are answers that a session got to calls of other sessions.", r.Connections, mergedConnections, r.Rounds, r.Seconds)
	rows := make([][]string, len(r.Rates))
	for i := range r.Rates {
		row := &r.Rates[i]
		note := row.Note
		if note == "" {
			note = row.First
		}
		rows[i] = []string{row.Contender + ": " + row.What, row.Size.String(), string(row.Face), spread(row.PerSecond, "%.0f"), spread(row.Own, "%.0f"), spread(row.All, "%.0f"),
			fmt.Sprintf("%.0f", row.Generator.Median), fmt.Sprintf("%.2f", row.P50.Median/1000), fmt.Sprintf("%.2f", row.P99.Median/1000), fmt.Sprint(row.Errors),
			fmt.Sprint(row.Strays), cut(note, noteLimit)}
	}
	d.Table([]string{"contender", "call", "clients", "answers/s", "proxy, µs", "with children, µs", "clients, µs", "p50 ms", "p99 ms", "wrong", "strays", ""}, rows)
}

func (r *report) startTable(d *page.Document) {
	if len(r.Starts) == 0 {
		return
	}
	d.Heading("From start to first answer")
	d.Text("From exec to the correct answers to initialize and a call, in ms. The peers from npm are started as `node FILE`, without npx; ContextForge creates its database.")
	var rows [][]string
	var bars []page.Bar
	for _, row := range r.Starts {
		rows = append(rows, []string{row.Contender + ": " + row.What, spread(row.Sum, "%.0f"), fmt.Sprint(len(row.Starts)), cut(row.Note, noteLimit)})
		if row.Sum.Rounds > 0 {
			colour := colourPeer
			if ours(row.Contender) {
				colour = colourOurs
			}
			bars = append(bars, page.Bar{Name: row.Contender, Value: row.Sum.Median, Min: row.Sum.Min, Max: row.Sum.Max, Colour: colour})
		}
	}
	d.Table([]string{"contender", "ms", "starts", ""}, rows)
	d.Bars("From start to first answer", " ms", 0, bars)
}

func (r *report) sessionTable(d *page.Document) {
	if len(r.Sessions) == 0 {
		return
	}
	d.Heading("Open sessions")
	d.Text("Each has made a call and keeps its connection. PSS counts a share of what processes share, USS nothing of it; both in MiB. " +
		"Without session ids a session is a client with its connection. An HTTP server counts as a child.")
	var rows [][]string
	var bars []page.Bar
	most := 0
	for _, row := range r.Sessions {
		most = max(most, row.Wanted)
	}
	var base sessionRow
	for _, row := range r.Sessions {
		if row.Wanted == 0 {
			base = row
		}
		rows = append(rows, row.cells(&base))
		if row.Wanted == most {
			colour := colourPeer
			if ours(row.Contender) {
				colour = colourOurs
			}
			bars = append(bars, page.Bar{Name: row.Contender + ", " + string(row.Face), Value: mib(row.Census.Own.PSS), Colour: colour})
		}
	}
	d.Table([]string{"contender", "clients", "sessions", "failed", "proxy's processes", "children", "proxy PSS", "USS", "children PSS", "USS", "all PSS",
		"proxy KiB a session", "opened in s", ""}, rows)
	d.Bars(fmt.Sprintf("The proxy's memory with %d sessions", most), " MiB", 0, bars)
}

// cells returns the cells of a row. base is the row without sessions.
func (row *sessionRow) cells(base *sessionRow) []string {
	own, children := row.Census.Own, row.Census.Children
	each := ""
	if row.Open > base.Open {
		each = fmt.Sprintf("%.1f", float64(own.PSS-base.Census.Own.PSS)/1024/float64(row.Open))
	}
	note := row.Note
	if note == "" {
		note = row.First
	}
	one := func(n int64) string { return fmt.Sprintf("%.1f", mib(n)) }
	return []string{row.Contender + ": " + row.What, string(row.Face), fmt.Sprint(row.Open), fmt.Sprint(row.Failed), fmt.Sprint(own.Processes), fmt.Sprint(children.Processes),
		one(own.PSS), one(own.USS), one(children.PSS), one(children.USS), one(own.PSS + children.PSS), each, fmt.Sprintf("%.1f", row.Seconds), cut(note, noteLimit)}
}

func (r *report) idleTable(d *page.Document) {
	if len(r.Idle) == 0 {
		return
	}
	d.Heading("Idle sessions of Dragoman, without their children")
	d.Text("Connections closed. The growth of the process since before its sessions, divided by their number: "+
		"one-time costs of the first sessions (code that had not run, the minimum size of the heap) are included. A further session is the cost of those that "+
		"were opened on top of the row before. Target: at most %d KiB without a child.", idleTarget>>10)
	var rows [][]string
	for _, row := range r.Idle {
		further, target, each := "", "missed", row.PerSession
		if row.Further != 0 {
			further, each = fmt.Sprintf("%.1f", row.Further/1024), row.Further
		}
		if each <= idleTarget {
			target = "met"
		}
		rows = append(rows, []string{row.What, fmt.Sprint(row.Sessions), fmt.Sprint(row.Failed), fmt.Sprint(row.Children), fmt.Sprintf("%.1f", mib(row.PSS)),
			fmt.Sprintf("%.1f", row.PerSession/1024), further, target, fmt.Sprintf("%.1f", mib(row.Reaper))})
	}
	d.Table([]string{"", "sessions", "failed", "children", "process PSS MiB", "KiB a session", "KiB a further session", "target", "reaper PSS MiB"}, rows)
}

func (r *report) abandonedTable(d *page.Document) {
	if len(r.Abandoned) > 0 {
		d.Heading("Abandoned sessions")
		d.Text("Connections closed without DELETE. Processes are the proxy's + children.")
		var rows [][]string
		for _, row := range r.Abandoned {
			idle := row.IdleTTL
			if idle == "" {
				idle = "its default"
			}
			rows = append(rows, []string{row.Contender + ": " + row.What, string(row.Face), idle, fmt.Sprint(row.Sessions), fmt.Sprint(row.Failed),
				heads(row.Before), heads(row.Then), heads(row.Later), fmt.Sprintf("%.0f", row.Seconds)})
		}
		d.Table([]string{"contender", "clients", "idle time", "sessions", "failed", "before", "with them", "later", "after s"}, rows)
	}
	if len(r.Leftover) > 0 {
		d.Heading("Left behind after SIGTERM")
		var rows [][]string
		for _, l := range r.Leftover {
			rows = append(rows, []string{l.Contender, fmt.Sprint(l.Processes), cut(l.Example, noteLimit)})
		}
		d.Table([]string{"contender", "processes", "for example"}, rows)
	}
}

func heads(c census) string {
	text := fmt.Sprintf("%d + %d", c.Own.Processes, c.Children.Processes)
	if c.Zombies > 0 {
		text += fmt.Sprintf(", %d zombies", c.Zombies)
	}
	return text
}
