//go:build linux

package main

import (
	"fmt"
	"strings"

	"dragoman/bench/measure"
)

// cut keeps a text short enough for a table.
func cut(text string, n int) string {
	line, _, _ := strings.Cut(text, "\n")
	line = strings.ReplaceAll(line, "|", "/")
	if len(line) > n {
		line = line[:n] + "…"
	}
	return strings.ToValidUTF8(line, "")
}

const noteLimit = 160

func mib(n int64) float64 { return float64(n) / (1 << 20) }

func spread(s measure.Spread, format string) string {
	if s.Rounds == 0 {
		return "–"
	}
	return fmt.Sprintf(format+" ("+format+"–"+format+")", s.Median, s.Min, s.Max)
}

func ours(name string) bool { return strings.HasPrefix(name, "dragoman") }
