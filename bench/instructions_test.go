package main

import (
	"strings"
	"testing"
)

func TestTotals(t *testing.T) {
	for text, want := range map[string]uint64{
		"version: 1\nfn=(1) a\n16 400\n\ntotals: 1234567\n": 1234567,
		"summary: 12\ntotals: 12":                           12,
	} {
		if got, err := totals(strings.NewReader(text)); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "summary: 12\n", "totals: many\n"} {
		if got, err := totals(strings.NewReader(text)); err == nil {
			t.Errorf("%q: %d", text, got)
		}
	}
}
