package main

import (
	"slices"
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

func TestHottest(t *testing.T) {
	const text = "version: 1\nevents: Ir\n\nfl=(1) a.go\nfn=(1) main.a\n16 400\n+3 100\ncfn=(2) main.b\ncalls=3 20\n* 9000\n\nfn=(2)\n20 1500\n\ntotals: 2000\n"
	if got := hottest(strings.NewReader(text), 5); !slices.Equal(got, []string{"main.b 75 %", "main.a 25 %"}) {
		t.Errorf("%q", got)
	}
	if got := hottest(strings.NewReader(text), 1); !slices.Equal(got, []string{"main.b 75 %"}) {
		t.Errorf("%q", got)
	}
	if got := hottest(strings.NewReader("totals: 1\n"), 5); len(got) > 0 {
		t.Errorf("%q", got)
	}
}
