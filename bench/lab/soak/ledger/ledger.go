// Package ledger compares what a Dragoman has before and after the load, and says what must not have grown.
package ledger

import (
	"fmt"
	"slices"
	"strings"
)

// Reading holds the counts of one Dragoman at one time. Figures of memory are in bytes.
type Reading struct {
	Children   int   `json:"children"`     // living descendants and marked processes that are not Dragoman's own program
	Helpers    int   `json:"helpers"`      // living descendants that run Dragoman's program
	Zombies    int   `json:"zombies"`      // descendants that were not reaped
	Goroutines int   `json:"goroutines"`   // of Dragoman itself
	FDs        int   `json:"fds"`          // open files of Dragoman itself
	HelperFDs  int   `json:"helper_fds"`   // of its helpers
	Sessions   int   `json:"sessions"`     // of legacy clients
	Pooled     int   `json:"pooled"`       // sessions or children for modern clients
	Leases     int   `json:"leases"`       // of the pooled ones, leased
	Parked     int   `json:"parked"`       // suspended calls
	InFlight   int   `json:"in_flight"`    // requests
	Listens    int   `json:"listens"`      // of modern clients, and bridges for legacy ones
	Streams    int   `json:"streams"`      // kept for legacy clients that may resume
	LargeLines int   `json:"large_lines"`  // messages held outside the heap
	RSS        int64 `json:"rss"`          // of Dragoman itself
	Code       int64 `json:"rss_of_files"` // of RSS, pages of the program's file, which are shared
	HelperRSS  int64 `json:"helper_rss"`   // of its helpers
	Heap       int64 `json:"heap_in_use"`  // of Dragoman itself, garbage included
	Threads    int   `json:"threads"`      // of Dragoman itself
	Starts     int   `json:"starts"`       // of children so far
	Crashes    int   `json:"crashes"`      // of children so far, as Dragoman counts them
}

// Item is one figure of the comparison.
type Item struct {
	Name string
	// Get returns the figure.
	Get func(*Reading) int64
	// Slack is the growth in percent that is no leak.
	Slack int64
	// Bytes means that it is an amount of memory.
	Bytes bool
	// Shown means that it is not judged, but explains others.
	Shown bool
}

// memorySlack is the growth of memory in percent that is no leak.
const memorySlack = 10

// Items lists the figures.
func Items() []Item {
	count := func(get func(*Reading) int) func(*Reading) int64 {
		return func(r *Reading) int64 { return int64(get(r)) }
	}
	return []Item{
		{Name: "children", Get: count(func(r *Reading) int { return r.Children })},
		{Name: "zombies", Get: count(func(r *Reading) int { return r.Zombies })},
		{Name: "goroutines", Get: count(func(r *Reading) int { return r.Goroutines })},
		{Name: "open files", Get: count(func(r *Reading) int { return r.FDs })},
		{Name: "helpers", Get: count(func(r *Reading) int { return r.Helpers })},
		{Name: "helpers' open files", Get: count(func(r *Reading) int { return r.HelperFDs })},
		{Name: "sessions", Get: count(func(r *Reading) int { return r.Sessions })},
		{Name: "pooled sessions", Get: count(func(r *Reading) int { return r.Pooled })},
		{Name: "leases", Get: count(func(r *Reading) int { return r.Leases })},
		{Name: "parked calls", Get: count(func(r *Reading) int { return r.Parked })},
		{Name: "requests in flight", Get: count(func(r *Reading) int { return r.InFlight })},
		{Name: "listens", Get: count(func(r *Reading) int { return r.Listens })},
		{Name: "resumable streams", Get: count(func(r *Reading) int { return r.Streams })},
		{Name: "large lines", Get: count(func(r *Reading) int { return r.LargeLines })},
		{Name: "memory (RSS)", Get: func(r *Reading) int64 { return r.RSS }, Slack: memorySlack, Bytes: true},
		{Name: "with helpers'", Get: func(r *Reading) int64 { return r.RSS + r.HelperRSS }, Slack: memorySlack, Bytes: true},
		{Name: "its program's pages", Get: func(r *Reading) int64 { return r.Code }, Bytes: true, Shown: true},
		{Name: "heap in use", Get: func(r *Reading) int64 { return r.Heap }, Bytes: true, Shown: true},
		{Name: "threads", Get: count(func(r *Reading) int { return r.Threads }), Shown: true},
		{Name: "children started", Get: count(func(r *Reading) int { return r.Starts }), Shown: true},
		{Name: "crashes counted", Get: count(func(r *Reading) int { return r.Crashes }), Shown: true},
	}
}

// More reports whether after is more than before allows.
func (i Item) More(before, after int64) bool {
	return !i.Shown && after*100 > before*(100+i.Slack)
}

// Format writes a figure.
func (i Item) Format(n int64) string {
	if !i.Bytes {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// Delta writes a difference.
func (i Item) Delta(before, after int64) string {
	switch d := after - before; {
	case d == 0:
		return "0"
	case i.Bytes && before > 0:
		return fmt.Sprintf("%+.1f %%", 100*float64(d)/float64(before))
	default:
		return fmt.Sprintf("%+d", d)
	}
}

// Compare lists the figures that have grown; empty if none has.
func Compare(before, after *Reading) []string {
	var more []string
	for _, i := range Items() {
		b, a := i.Get(before), i.Get(after)
		if i.More(b, a) {
			more = append(more, fmt.Sprintf("%s: %s before, %s after (%s)", i.Name, i.Format(b), i.Format(a), i.Delta(b, a)))
		}
	}
	return more
}

// Sum combines readings of an idle Dragoman into one: the median of each figure, the lower one of two. For goroutines it is the value that
// a fifth of the readings do not exceed: answering a scrape takes a varying number of them, and the minimum of all would be a matter of
// luck.
func Sum(readings []Reading) Reading {
	var sum Reading
	n := len(readings)
	if n == 0 {
		return sum
	}
	counts := func(at func(*Reading) *int) {
		values := make([]int, n)
		for i := range readings {
			values[i] = *at(&readings[i])
		}
		slices.Sort(values)
		*at(&sum) = values[(n-1)/2]
	}
	sizes := func(at func(*Reading) *int64) {
		values := make([]int64, n)
		for i := range readings {
			values[i] = *at(&readings[i])
		}
		slices.Sort(values)
		*at(&sum) = values[(n-1)/2]
	}
	for _, at := range []func(*Reading) *int{
		func(r *Reading) *int { return &r.Children }, func(r *Reading) *int { return &r.Helpers }, func(r *Reading) *int { return &r.Zombies },
		func(r *Reading) *int { return &r.Goroutines }, func(r *Reading) *int { return &r.FDs }, func(r *Reading) *int { return &r.HelperFDs },
		func(r *Reading) *int { return &r.Sessions }, func(r *Reading) *int { return &r.Pooled }, func(r *Reading) *int { return &r.Leases },
		func(r *Reading) *int { return &r.Parked }, func(r *Reading) *int { return &r.InFlight }, func(r *Reading) *int { return &r.Listens },
		func(r *Reading) *int { return &r.Streams }, func(r *Reading) *int { return &r.LargeLines }, func(r *Reading) *int { return &r.Threads },
		func(r *Reading) *int { return &r.Starts }, func(r *Reading) *int { return &r.Crashes },
	} {
		counts(at)
	}
	for _, at := range []func(*Reading) *int64{
		func(r *Reading) *int64 { return &r.RSS }, func(r *Reading) *int64 { return &r.Code }, func(r *Reading) *int64 { return &r.HelperRSS }, func(r *Reading) *int64 { return &r.Heap },
	} {
		sizes(at)
	}
	all := make([]int, n)
	for i := range readings {
		all[i] = readings[i].Goroutines
	}
	slices.Sort(all)
	sum.Goroutines = all[n/5]
	return sum
}

// Idle reports whether nothing is in progress that ends by itself.
func (r *Reading) Idle() bool {
	return r.Zombies == 0 && r.Sessions == 0 && r.Pooled == 0 && r.Leases == 0 && r.Parked == 0 && r.InFlight == 0 &&
		r.Listens == 0 && r.Streams == 0
}

// Same reports whether two readings have the same counts, except for those that change without load.
func (r *Reading) Same(other *Reading) bool {
	a, b := *r, *other
	for _, x := range []*Reading{&a, &b} {
		x.RSS, x.Code, x.HelperRSS, x.Heap, x.Threads, x.Goroutines, x.Starts, x.Crashes = 0, 0, 0, 0, 0, 0, 0, 0
	}
	return a == b
}

// String lists the counts that are not zero on one line.
func (r *Reading) String() string {
	var parts []string
	for _, i := range Items() {
		if n := i.Get(r); n != 0 && !i.Shown {
			parts = append(parts, i.Name+" "+i.Format(n))
		}
	}
	return strings.Join(parts, ", ")
}
