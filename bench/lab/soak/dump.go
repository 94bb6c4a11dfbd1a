//go:build linux

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	dumpLimit  = 20 * time.Second
	dumpGroups = 15
)

// dump ends a Dragoman by SIGQUIT and returns what its goroutines were doing, grouped by state and place. The full dump is in its log.
func (d *dragoman) dump() []string {
	d.log.keepAll()
	d.signal(syscall.SIGQUIT)
	if !d.gone(dumpLimit) {
		return []string{"it did not end at SIGQUIT"}
	}
	raw, err := os.ReadFile(d.log.path)
	if err != nil {
		return []string{err.Error()}
	}
	return groups(raw)
}

var (
	goroutine = regexp.MustCompile(`^goroutine \d+ .*\[([^],]*)`)
	call      = regexp.MustCompile(`^([^\s(][^\s]*)\(`)
)

// groups counts the goroutines of a dump by state and by place in Dragoman's own code.
func groups(dump []byte) []string {
	counts := map[string]int{}
	for part := range bytes.SplitSeq(dump, []byte("\n\n")) {
		if what := where(string(part)); what != "" {
			counts[what]++
		}
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(counts[b]-counts[a], strings.Compare(a, b))
	})
	var out []string
	for _, n := range names[:min(len(names), dumpGroups)] {
		out = append(out, fmt.Sprintf("%d × %s", counts[n], n))
	}
	return out
}

// where returns the state and place of one goroutine: its innermost functions in Dragoman's code.
func where(part string) string {
	state := ""
	var frames []string
	for line := range strings.Lines(part) {
		line = strings.TrimRight(line, "\n")
		if m := goroutine.FindStringSubmatch(line); m != nil {
			state, frames = m[1], nil
			continue
		}
		if m := call.FindStringSubmatch(line); m != nil && state != "" {
			frames = append(frames, m[1])
		}
	}
	if state == "" {
		return ""
	}
	var own []string
	for _, f := range frames {
		if strings.HasPrefix(f, "dragoman/") || strings.HasPrefix(f, "main.") {
			own = append(own, strings.TrimPrefix(f, "dragoman/"))
		}
	}
	if len(own) == 0 && !slices.ContainsFunc(frames, func(f string) bool { return !strings.HasPrefix(f, "runtime.") }) {
		return "" // a goroutine of the runtime
	}
	if len(own) == 0 {
		own = frames
	}
	return fmt.Sprintf("[%s] %s", state, strings.Join(own[:min(len(own), 4)], " < "))
}
