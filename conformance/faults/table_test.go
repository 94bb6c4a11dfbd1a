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

// result is the outcome for a client.
type result struct {
	code, message   string
	ran             int
	took, recovered time.Duration
	state           string
	calls           int  // until one succeeded again
	loose           bool // only the outcome of the first call is the same in each run
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

// changing are the parts of a message that differ from run to run.
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

// cell returns a result as text that is the same in each run.
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

const preface = `# What clients see when the network to the server is bad

Written by ` + "`make faults`" + ` in its long form, with a time-out (` + "`tool_timeout`" + `) of 4 s.

Between Dragoman and a server is Toxiproxy, with a gate on each side for what Toxiproxy cannot do. Every case has its own Dragoman:
the client calls twice, then the network becomes bad, the client calls three times, the network recovers, and the client calls
until a call succeeds. In every case the run has checked that every call was answered in time, that the server ran no call twice,
that the upstream's state is CONNECTED again, that nothing is left (requests, leases, goroutines, files), and that Dragoman exits
without an error. Servers are named by era and transport: ` + "`sse`" + ` is
HTTP+SSE, ` + "`…-lines`" + ` is a TCP socket.

A cell has the outcome of the first call, whether the server ran it, the state of the upstream after three such calls if it is not
CONNECTED, and, if the first call after the fault failed, that a later one succeeded. "Session over" means that the server's session
ended with its connection and so did the client's, which then opens another one, as clients do: only a server that forgets sessions
with connections (` + "`sse`, `legacy-lines`" + `) may lead to that.
`

func (b *table) markdown() string {
	var out strings.Builder
	out.WriteString(preface)
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
	out.WriteString("\n## Messages to the clients\n\n")
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
