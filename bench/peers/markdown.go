//go:build linux

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"dragoman/bench/measure"
)

const noteLimit = 160

// markdown writes the report for people.
func (r *report) markdown(w io.Writer) {
	fmt.Fprintf(w, "# Dragoman beside its peers\n\n")
	if r.Short {
		fmt.Fprintf(w, "**Short form**: it shows that the comparison works, its figures are rough.\n\n")
	}
	fmt.Fprintf(w, "%s to %s UTC. %s, %s CPUs, %s of memory, Linux %s; load average %s at the start, %s at the end.\n\n",
		r.Started.Format("2006-01-02 15:04"), r.Ended.Format("15:04"), r.Machine["cpu"], r.Machine["cpus"], r.Machine["memory"], r.Machine["kernel"],
		r.LoadAt[0], r.LoadAt[1])
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		if version := r.Versions[name]; version != "" {
			fmt.Fprintf(w, "- %s %s\n", name, strings.TrimPrefix(version, name+" "))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Absent)) {
		fmt.Fprintf(w, "- **left out:** %s: %s\n", name, cut(r.Absent[name], noteLimit))
	}
	fmt.Fprintf(w, "\nAll stand in front of the same child, a small echo server. Every answer is checked. (lowest–highest) stands behind medians.\n")
	r.verdictTable(w)
	r.rateTable(w)
	r.startTable(w)
	r.sessionTable(w)
	r.idleTable(w)
	r.abandonedTable(w)
}

func (r *report) verdictTable(w io.Writer) {
	if len(r.Verdicts) == 0 {
		return
	}
	fmt.Fprintf(w, "\n## Dragoman against the best of the peers\n\nRatios are formed round by round. CPU is that of the proxy's own processes for each call: "+
		"the peer's that needs least, by Dragoman's. Clients, children and proxies share the processors: the bound is what the first ratio could be "+
		"at most if Dragoman's own work took no time.\n\n")
	fmt.Fprintf(w, "| call | clients | Dragoman | answers/s, times the best peer's | bound | target | best peer | CPU, times less | leanest peer |\n|---|---|---|--:|--:|--:|---|--:|---|\n")
	for _, v := range r.Verdicts {
		target := ""
		if v.Size.Target > 0 && v.Face == streamable {
			verdict := "missed"
			if v.Rate.Median >= v.Size.Target {
				verdict = "met"
			}
			target = fmt.Sprintf("≥ %g: %s", v.Size.Target, verdict)
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %.1f | %s | %s | %s | %s |\n", v.Size, v.Face, v.Contender, spread(v.Rate, "%.1f"), v.Bound, target, v.Best, spread(v.CPU, "%.1f"), v.Lean)
	}
}

func (r *report) rateTable(w io.Writer) {
	if len(r.Rates) == 0 {
		return
	}
	fmt.Fprintf(w, "\n## Calls\n\n%d connections with a session each, one call under way at a time; %d interleaved rounds of %g s. "+
		"Strays are answers to other sessions' calls that came to a session.\n\n", r.Connections, r.Rounds, r.Seconds)
	fmt.Fprintf(w, "| call | clients | contender | answers/s | proxy's CPU, µs a call | with children, µs | clients', µs | p50 ms | p99 ms | wrong | strays | |\n|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|---|\n")
	for i := range r.Rates {
		row := &r.Rates[i]
		note := row.Note
		if note == "" {
			note = row.First
		}
		fmt.Fprintf(w, "| %s | %s | %s: %s | %s | %s | %s | %.0f | %.2f | %.2f | %d | %d | %s |\n", row.Size, row.Face, row.Contender, row.What,
			spread(row.PerSecond, "%.0f"), spread(row.Own, "%.0f"), spread(row.All, "%.0f"), row.Generator.Median, row.P50.Median/1000, row.P99.Median/1000,
			row.Errors, row.Strays, cut(note, noteLimit))
	}
}

func (r *report) startTable(w io.Writer) {
	if len(r.Starts) == 0 {
		return
	}
	fmt.Fprintf(w, "\n## From start to first answer\n\nFrom exec to the right answers to initialize and a call, in ms. The peers from npm are started as `node FILE`, without npx.\n\n")
	fmt.Fprintf(w, "| contender | ms | starts | |\n|---|--:|--:|---|\n")
	for _, row := range r.Starts {
		fmt.Fprintf(w, "| %s: %s | %s | %d | %s |\n", row.Contender, row.What, spread(row.Sum, "%.0f"), len(row.Starts), cut(row.Note, noteLimit))
	}
}

func (r *report) sessionTable(w io.Writer) {
	if len(r.Sessions) == 0 {
		return
	}
	fmt.Fprintf(w, "\n## Open sessions\n\nEach has made a call and keeps its connection. PSS counts a share of what processes share, USS nothing of it. "+
		"Where no sessions are given out, a session is a client with its connection.\n\n")
	fmt.Fprintf(w, "| contender | clients | sessions | failed | proxy's processes | children | proxy PSS MiB | USS | children PSS MiB | USS | all PSS MiB | "+
		"proxy KiB a session | opened in s | |\n|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|\n")
	var base sessionRow
	for _, row := range r.Sessions {
		if row.Wanted == 0 {
			base = row
		}
		own, children := row.Census.Own, row.Census.Children
		each := ""
		if row.Open > base.Open {
			each = fmt.Sprintf("%.1f", float64(own.PSS-base.Census.Own.PSS)/1024/float64(row.Open))
		}
		note := row.Note
		if note == "" {
			note = row.First
		}
		fmt.Fprintf(w, "| %s: %s | %s | %d | %d | %d | %d | %.1f | %.1f | %.1f | %.1f | %.1f | %s | %.1f | %s |\n", row.Contender, row.What, row.Face,
			row.Open, row.Failed, own.Processes, children.Processes, mib(own.PSS), mib(own.USS), mib(children.PSS), mib(children.USS),
			mib(own.PSS+children.PSS), each, row.Seconds, cut(note, noteLimit))
	}
}

func (r *report) idleTable(w io.Writer) {
	if len(r.Idle) == 0 {
		return
	}
	fmt.Fprintf(w, "\n## Idle sessions of Dragoman, without their children\n\nConnections closed. What the process has more than before its sessions, by their number: "+
		"nothing is taken off for what the first sessions need once (code that had not run, the heap's least size). A further session is what those cost that "+
		"were opened on top of the row before. Target: at most %d KiB without a child.\n\n", idleTarget>>10)
	fmt.Fprintf(w, "| | sessions | failed | children | process PSS MiB | KiB a session | KiB a further session | target | guardian PSS MiB |\n|---|--:|--:|--:|--:|--:|--:|---|--:|\n")
	for _, row := range r.Idle {
		further, target, each := "", "missed", row.PerSession
		if row.Further != 0 {
			further, each = fmt.Sprintf("%.1f", row.Further/1024), row.Further
		}
		if each <= idleTarget {
			target = "met"
		}
		fmt.Fprintf(w, "| %s | %d | %d | %d | %.1f | %.1f | %s | %s | %.1f |\n", row.What, row.Sessions, row.Failed, row.Children, mib(row.PSS),
			row.PerSession/1024, further, target, mib(row.Guardian))
	}
}

func (r *report) abandonedTable(w io.Writer) {
	if len(r.Abandoned) > 0 {
		fmt.Fprintf(w, "\n## Sessions that nobody ends\n\nConnections closed without DELETE. Processes are the proxy's + children.\n\n")
		fmt.Fprintf(w, "| contender | clients | idle time | sessions | failed | before | with them | later | after s |\n|---|---|---|--:|--:|--:|--:|--:|--:|\n")
		for _, row := range r.Abandoned {
			idle := row.IdleTTL
			if idle == "" {
				idle = "its default"
			}
			fmt.Fprintf(w, "| %s: %s | %s | %s | %d | %d | %s | %s | %s | %.0f |\n", row.Contender, row.What, row.Face, idle, row.Sessions, row.Failed,
				heads(row.Before), heads(row.Then), heads(row.Later), row.Seconds)
		}
	}
	if len(r.Leftover) > 0 {
		fmt.Fprintf(w, "\n## Left behind after SIGTERM\n\n| contender | processes | for example |\n|---|--:|---|\n")
		for _, l := range r.Leftover {
			fmt.Fprintf(w, "| %s | %d | %s |\n", l.Contender, l.Processes, cut(l.Example, noteLimit))
		}
	}
}

func heads(c census) string {
	text := fmt.Sprintf("%d + %d", c.Own.Processes, c.Children.Processes)
	if c.Zombies > 0 {
		text += fmt.Sprintf(", %d zombies", c.Zombies)
	}
	return text
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

func spread(s measure.Spread, format string) string {
	if s.Rounds == 0 {
		return "–"
	}
	return fmt.Sprintf(format+" ("+format+"–"+format+")", s.Median, s.Min, s.Max)
}
