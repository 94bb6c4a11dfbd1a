package ledger

import (
	"slices"
	"strings"
	"testing"
)

func TestCompare(t *testing.T) {
	base := Reading{Children: 2, Goroutines: 20, FDs: 18, RSS: 100 << 20, HelperRSS: 20 << 20, Heap: 1 << 20, Threads: 8}
	f := func(change func(*Reading), want ...string) {
		t.Helper()
		after := base
		change(&after)
		got := Compare(&base, &after)
		for i := range got {
			got[i], _, _ = strings.Cut(got[i], ":")
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	f(func(*Reading) {})
	f(func(r *Reading) { r.Children, r.Goroutines, r.RSS = 0, 1, 1 }) // less is no leak
	f(func(r *Reading) { r.Children++ }, "children")
	f(func(r *Reading) { r.Zombies++ }, "zombies")
	f(func(r *Reading) { r.Goroutines++; r.FDs++ }, "goroutines", "open files")
	f(func(r *Reading) { r.HelperFDs++ }, "helpers' open files")
	f(func(r *Reading) { r.Sessions, r.Parked, r.LargeLines = 1, 1, 1 }, "sessions", "parked calls", "large lines")
	f(func(r *Reading) { r.RSS = 110 << 20 })
	f(func(r *Reading) { r.RSS = 110<<20 + 1 }, "memory (RSS)")
	f(func(r *Reading) { r.HelperRSS = 33 << 20 }, "with helpers'")
	f(func(r *Reading) { r.Heap, r.Threads, r.Starts = 1<<30, 1000, 1000 }) // shown, not judged
}

func TestSum(t *testing.T) {
	if got := Sum(nil); got != (Reading{}) {
		t.Error(got)
	}
	got := Sum([]Reading{{FDs: 3, RSS: 30, Goroutines: 9}, {FDs: 1, RSS: 10, Goroutines: 7}, {FDs: 2, RSS: 50, Goroutines: 8}, {FDs: 9, RSS: 40, Goroutines: 8},
		{FDs: 1, RSS: 10, Goroutines: 9}})
	if want := (Reading{FDs: 2, RSS: 30, Goroutines: 8}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestSame(t *testing.T) {
	a := Reading{Children: 1, Goroutines: 5, RSS: 1, Heap: 2}
	b := Reading{Children: 1, Goroutines: 6, RSS: 4, Heap: 5, Starts: 7, Crashes: 8, Threads: 9, HelperRSS: 10}
	if !a.Same(&b) {
		t.Error("what always changes counts")
	}
	if b.Zombies = 1; a.Same(&b) {
		t.Error("a zombie does not count")
	}
}

func TestAddMetrics(t *testing.T) {
	const text = `# HELP go_goroutines Number.
# TYPE go_goroutines gauge
go_goroutines 25
dragoman_sessions 3
dragoman_upstream_sessions{server="a"} 2
dragoman_upstream_sessions{server="b {c} "} 1
dragoman_listens{server="a"} 1
dragoman_watches{server="a"} 1
dragoman_large_lines 4
go_memstats_heap_inuse_bytes 4.5e+06
dragoman_request_duration_seconds_bucket{le="+Inf"} NaN
`
	r := Reading{FDs: 7}
	if err := r.AddMetrics(text); err != nil {
		t.Fatal(err)
	}
	if want := (Reading{FDs: 7, Goroutines: 25, Sessions: 3, Pooled: 3, Listens: 2, LargeLines: 4, Heap: 4_500_000}); r != want {
		t.Errorf("%+v, want %+v", r, want)
	}
	for _, bad := range []string{"", "go_goroutines 1\n", "dragoman_sessions 1\n", "<html>"} {
		if err := r.AddMetrics(bad); err == nil {
			t.Errorf("%q has no figures", bad)
		}
	}
}

func TestFormat(t *testing.T) {
	memory, count := Item{Bytes: true}, Item{}
	for got, want := range map[string]string{
		memory.Format(3 << 19): "1.5 MiB", count.Format(7): "7", memory.Delta(100, 110): "+10.0 %", memory.Delta(0, 1): "+1",
		count.Delta(3, 1): "-2", count.Delta(1, 1): "0",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := (&Reading{Children: 1, RSS: 2 << 20, Heap: 9}).String(); got != "children 1, memory (RSS) 2.0 MiB, with helpers' 2.0 MiB" {
		t.Error(got)
	}
}
