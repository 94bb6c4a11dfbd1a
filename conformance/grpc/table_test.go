package services

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// table collects what is written to RESULTS.md.
type table struct{ rigs []*rig }

func (o *table) add(r *rig) { o.rigs = append(o.rigs, r) }

const preface = `# gRPC services of others, called through Dragoman

Written by ` + "`make services ARGS=-update`" + `; every other run fails if it comes to another table.

Each server is a process with services that nobody here wrote, and a running Dragoman has all of them as upstreams. The Go SDK of MCP lists and
calls their methods in three ways: as a modern client (2026-07-28) and as a legacy one (2025-11-25) at the server, and as a modern client at all
servers as one. Every tool is called with the least arguments that its schema allows, and with arguments for a purpose or as many members as the
schema allows together; Qdrant's are called with ten requests each that have all that their type can have. A call counts once in this table, in
however many ways it was made.

The run has checked that

- every method of every service that the server offers is a tool, or is none because its client streams, which the log says;
- schemas are the same in every way, every result satisfies outputSchema, and its text is its structured content;
- a call that can be repeated is made with grpc-go before and after, with dynamic messages and protobuf's own JSON: the results are equal but
  for what differs between these two, and a status and its message are the same;
- a call that changes something has the result that is written in the test;
- a status of a service is the row of the error table, or the result with ` + "`isError`" + `, that [docs/grpc.md](../../docs/grpc.md) says;
- each message of a stream is a notification of progress, and a stream without end is ended by its tool's ` + "`timeout`" + `;
- Dragoman ends without an error in its log.

Three methods are called with arguments for a purpose only: RouteGuide.ListFeatures, as the route guide dies of a rectangle without corners, and
Lock.Lock and Election.Campaign, which wait while another caller has what they ask for.
`

// check compares RESULTS.md with the run, or writes it.
func (o *table) check(t *testing.T) {
	t.Helper()
	const file = "RESULTS.md"
	got := o.markdown()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	old, now := strings.Split(string(raw), "\n"), strings.Split(got, "\n")
	for i := range min(len(old), len(now)) {
		if old[i] != now[i] {
			t.Fatalf("%s:%d differs; fix: if it is right, make services ARGS=-update\nit has  %s\nnow is  %s", file, i+1, old[i], now[i])
		}
	}
	if len(old) != len(now) {
		t.Fatalf("%s has %d lines, now are %d; fix: if it is right, make services ARGS=-update", file, len(old), len(now))
	}
}

// sum is a row of the table.
type sum struct {
	methods, tools, calls, ok int
	statuses                  map[string]int
	none                      []string // methods that are no tools
}

func (s *sum) add(of *tool) {
	s.methods++
	if of.definition == nil {
		s.none = append(s.none, string(of.method.Name()))
		return
	}
	s.tools++
	s.calls += of.calls
	s.ok += of.ok
	if s.statuses == nil {
		s.statuses = map[string]int{}
	}
	for status, n := range of.statuses {
		s.statuses[status] += n
	}
}

func (s *sum) row(name string) string {
	var ended []string
	for status, n := range s.statuses {
		ended = append(ended, fmt.Sprintf("%s %d", status, n))
	}
	slices.Sort(ended)
	return fmt.Sprintf("| %s | %d | %d | %s | %d | %d | %s |\n", name, s.methods, s.tools, strings.Join(s.none, ", "), s.calls, s.ok, strings.Join(ended, ", "))
}

func (o *table) markdown() string {
	var b strings.Builder
	b.WriteString(preface)
	total := &sum{}
	for _, r := range o.rigs {
		fmt.Fprintf(&b, "\n## %s\n\n| service | methods | tools | no tool: %s | calls | answered | ended with the service's status |\n|---|---|---|---|---|---|---|\n",
			r.s.title, reason)
		var names []string
		sums := map[string]*sum{}
		for _, of := range r.tools {
			name := string(of.method.Parent().FullName())
			if sums[name] == nil {
				sums[name] = &sum{}
				names = append(names, name)
			}
			sums[name].add(of)
			total.add(of)
		}
		for _, name := range names {
			b.WriteString(sums[name].row("`" + name + "`"))
		}
	}
	fmt.Fprintf(&b, "\n**In all %d methods: %d tools, %d methods that are none; %d calls, of which %d were answered and %d ended with the service's status.**\n",
		total.methods, total.tools, len(total.none), total.calls, total.ok, total.calls-total.ok)
	return b.String()
}
