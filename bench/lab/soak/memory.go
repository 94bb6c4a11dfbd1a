//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// shownMapping is the private memory in KiB from which a mapping is shown.
const shownMapping = 128

// memory describes a Dragoman's memory for the evidence of a failure: the runtime's figures and the mappings with much private memory.
func (d *dragoman) memory(ctx context.Context, when string) []string {
	var out []string
	text, err := d.metrics(ctx)
	if err != nil {
		return []string{when + ": " + err.Error()}
	}
	var runtime []string
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if short, ok := strings.CutPrefix(name, "go_memstats_"); ok && strings.HasSuffix(short, "_bytes") {
			if n, err := strconv.ParseFloat(value, 64); err == nil {
				runtime = append(runtime, fmt.Sprintf("%s %.1f MiB", strings.TrimSuffix(short, "_bytes"), n/(1<<20)))
			}
		}
	}
	out = append(out, when+", the runtime: "+strings.Join(runtime, ", "))
	maps, err := mappings(d.pid)
	if err != nil {
		return append(out, when+": "+err.Error())
	}
	return append(out, when+", private memory: "+strings.Join(maps, ", "))
}

// mappings lists the mappings of a process with much private memory.
func mappings(pid int) ([]string, error) {
	file, err := os.Open(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	var out []string
	var at string
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) >= 5 && strings.Contains(fields[0], "-"):
			at = fields[0]
			if len(fields) > 5 {
				at = fields[5]
			}
		case len(fields) >= 2 && fields[0] == "Anonymous:":
			if n, err := strconv.Atoi(fields[1]); err == nil && n >= shownMapping {
				out = append(out, fmt.Sprintf("%d KiB at %s", n, at))
			}
		}
	}
	return out, lines.Err()
}
