//go:build linux

package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"text/tabwriter"

	"dragoman/bench/lab/soak/ledger"
)

// report is the result of a run.
type report struct {
	Seed     uint64    `json:"seed"`
	Duration string    `json:"duration"` // of the load
	Took     string    `json:"took"`     // in total
	Dragoman string    `json:"dragoman"`
	Results  []*result `json:"scenarios"`
	Kills    []*killed `json:"kills"`
}

// result is the result of one scenario. It has failed if Failures is not empty.
type result struct {
	Name string `json:"name"`
	counts
	Before   *ledger.Reading `json:"before"`
	After    *ledger.Reading `json:"after"`
	Settled  string          `json:"settled"` // how long that took
	Drain    string          `json:"drain"`   // how long that took
	Failures []string        `json:"failures"`
	Evidence []string        `json:"evidence"`

	load *tally
	step *atomic.Value // string: the current step
}

func (r *result) fail(why string) { r.Failures = append(r.Failures, why) }

// close adds the clients' counts to the result.
func (r *result) close() {
	var wrongs []string
	r.counts, wrongs = r.load.snapshot()
	if r.Wrong > 0 {
		r.fail(fmt.Sprintf("%d of %d clients got a wrong answer, the first of %s", r.Wrong, r.Clients, wrongs[0]))
		for _, w := range wrongs {
			r.Evidence = append(r.Evidence, "client of "+w)
		}
	}
}

// killed is the result of a kill: what became of the Dragoman's descendants.
type killed struct {
	Name        string   `json:"name"`
	Calls       int      `json:"calls"`       // in flight, or so far
	Descendants int      `json:"descendants"` // when it was killed
	Took        string   `json:"took"`        // until none was left
	Failures    []string `json:"failures"`
	Notes       []string `json:"notes"`

	both bool // its reaper is killed with it
}

func (k *killed) fail(why string) { k.Failures = append(k.Failures, why) }

// failure returns an error with the first failure; nil if there is none.
func (r *report) failure() error {
	var first string
	n := 0
	note := func(name string, failures []string) {
		if n += len(failures); first == "" && len(failures) > 0 {
			first = name + ": " + failures[0]
		}
	}
	for _, res := range r.Results {
		note(res.Name, res.Failures)
	}
	for _, k := range r.Kills {
		note(k.Name, k.Failures)
	}
	switch {
	case len(r.Results)+len(r.Kills) == 0:
		return errors.New("soak: FAILED: there is no such scenario")
	case n > 0:
		return fmt.Errorf("soak: FAILED: %s (%d failures in total, see above; seed %d)", first, n, r.Seed)
	}
	return nil
}

func (r *report) write(file string) error {
	if file == "" {
		return nil
	}
	raw, err := json.MarshalIndent(r, "", "\t")
	if err == nil {
		err = os.WriteFile(file, append(raw, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("soak: %w", err)
	}
	return nil
}

// print prints the report, with the first failure at the top.
func (r *report) print(out io.Writer) {
	if err := r.failure(); err != nil {
		fmt.Fprintf(out, "%v\n", err)
	}
	fmt.Fprintf(out, "\nsoak of %s: load for %s, %s in total, seed %d\n", r.Dragoman, r.Duration, r.Took, r.Seed)
	for _, res := range r.Results {
		res.print(out)
	}
	if len(r.Kills) > 0 {
		fmt.Fprintln(out, "\nkilled by SIGKILL")
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "  \tdescendants\tcalls\tnone left after\tverdict")
		for _, k := range r.Kills {
			fmt.Fprintf(w, "  %s\t%d\t%d\t%s\t%s\n", k.Name, k.Descendants, k.Calls, k.Took, verdict(k.Failures))
		}
		_ = w.Flush() // out may be closed
		for _, k := range r.Kills {
			indent(out, k.Name+": ", k.Failures)
			indent(out, k.Name+": ", k.Notes)
		}
	}
}

func (r *result) print(out io.Writer) {
	fmt.Fprintf(out, "\n%s: %s\n", r.Name, paint(out, verdict(r.Failures)))
	fmt.Fprintf(out, "  %d clients, %d legacy sessions, %d correct answers, %d wrong; settled in %s, drained in %s\n",
		r.Clients, r.Sessions, r.Calls, r.Wrong, cmp.Or(r.Settled, "?"), cmp.Or(r.Drain, "?"))
	if len(r.Errors) > 0 {
		fmt.Fprintf(out, "  expected errors: %s\n", list(r.Errors))
	}
	if r.Before != nil && r.After != nil {
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(w, "\tbefore\tafter\tdelta\t\t")
		for _, i := range ledger.Items() {
			b, a := i.Get(r.Before), i.Get(r.After)
			if b == 0 && a == 0 {
				continue
			}
			word := passed
			switch {
			case i.Shown:
				word = ""
			case i.More(b, a):
				word = "MORE"
			}
			fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\t\n", i.Name, i.Format(b), i.Format(a), i.Delta(b, a), word)
		}
		_ = w.Flush() // out may be closed
	}
	indent(out, "", r.Failures)
	indent(out, "  ", r.Evidence)
}

func verdict(failures []string) string {
	if len(failures) > 0 {
		return failed
	}
	return passed
}

const (
	passed = "ok"
	failed = "FAILED"
)

// paint colours a verdict on a terminal, unless NO_COLOR is set (no-color.org).
func paint(out io.Writer, word string) string {
	f, ok := out.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" {
		return word
	}
	info, err := f.Stat()
	switch {
	case err != nil || info.Mode()&os.ModeCharDevice == 0:
		return word
	case word == failed:
		return "\x1b[31m" + word + "\x1b[0m"
	}
	return "\x1b[32m" + word + "\x1b[0m"
}

func indent(out io.Writer, head string, lines []string) {
	for _, line := range lines {
		fmt.Fprintf(out, "  %s%s\n", head, strings.ReplaceAll(line, "\n", "\n    "))
	}
}
