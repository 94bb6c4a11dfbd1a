package faults

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// result is what a client saw.
type result struct {
	code, message   string
	ran             int
	took, recovered time.Duration
	state           string
	calls           int  // until one succeeded again
	loose           bool // only what became of the first call is the same in each run
	over            bool // the client's session has ended with it
	last            string
}

// table gathers results.
type table struct {
	mu  sync.Mutex
	all map[[3]string]result
}

func newTable() *table { return &table{all: map[[3]string]result{}} }

func (b *table) put(fault, server, client string, r result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all[[3]string{fault, server, client}] = r
}

// changing is what differs from run to run in a message.
var changing = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`since \S+ \(\d+s\)`), "since TIME"},
	{regexp.MustCompile(`under way for [0-9.a-zµ]+`), "under way for TIME"},
	{regexp.MustCompile(`(peer|server) after [0-9.a-zµ]+;`), "$1 after TIME;"},
	{regexp.MustCompile(`tried again in \S+`), "tried again in TIME"},
}

// cell is a result, coarsely enough to be the same in each run.
func (r result) cell() string {
	text := "answered"
	if r.code != "" {
		text = "`" + r.code + "`"
		switch {
		case r.took < toolTimeout-100*time.Millisecond:
			text += " at once"
		default:
			text += fmt.Sprintf(" in %d s", toolTimeout/time.Second)
		}
		text += map[int]string{0: ", did not run", 1: ", ran once"}[r.ran]
	}
	if r.over {
		text += ", session over"
	}
	if r.loose {
		return text
	}
	if r.state != "CONNECTED" {
		text += ", " + r.state
	}
	if r.calls > 1 {
		text += ", again within 10 s"
	}
	return text
}

const head = `# What clients see when the network to the server is bad

Written by ` + "`make faults`" + ` in its long form, with a time-out (` + "`tool_timeout`" + `) of 4 s.

Between Dragoman and a server lies Toxiproxy, with a gate on each side for what it does not do. Every case is a Dragoman of its
own: the client calls twice, then the network goes bad, the client calls three times, the network is healed, and the client calls
until it is answered. Whatever a cell says, the run has made sure that every call was answered within its
time, that no call was run twice by the server, that the upstream's state is CONNECTED again, that nothing is left behind
(requests, leases, goroutines, files), and that Dragoman ends in order. Servers are named by era and transport: ` + "`sse`" + ` is
HTTP+SSE, ` + "`…-lines`" + ` is a TCP socket.

A cell says what the first call got, whether the server ran it, in which state the upstream was after three such calls if not
CONNECTED, and, if the first call after the fault was not answered well, that a later one was. "Session over" is that the server's
session ended with its connection and so did the client's, who opens another one by himself, as clients do: only a server that
forgets sessions with connections (` + "`sse`, `legacy-lines`" + `) may lead to that.
`

func (b *table) markdown() string {
	var out strings.Builder
	out.WriteString(head)
	messages := map[string]bool{}
	for _, server := range serverKinds {
		fmt.Fprintf(&out, "\n## Server: %s\n\n| fault | %s |\n|---|%s\n", server, strings.Join(clientKinds, " | "), strings.Repeat("---|", len(clientKinds)))
		for _, f := range faults() {
			fmt.Fprintf(&out, "| %s: %s |", f.name, f.what)
			for _, client := range clientKinds {
				r, ok := b.all[[3]string{f.name, server, client}]
				if !ok {
					out.WriteString(" - |")
					continue
				}
				fmt.Fprintf(&out, " %s |", r.cell())
				if r.code != "" && !strings.Contains(r.code, " ") {
					messages["`"+r.code+"`: "+stable(r.message)] = true
				}
			}
			out.WriteString("\n")
		}
	}
	out.WriteString("\n## What they were told\n\n")
	for _, m := range slices.Sorted(maps.Keys(messages)) {
		fmt.Fprintf(&out, "- %s\n", m)
	}
	return out.String()
}

func stable(text string) string {
	for _, c := range changing {
		text = c.what.ReplaceAllString(text, c.with)
	}
	return text
}
