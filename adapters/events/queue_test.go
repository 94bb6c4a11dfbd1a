package events_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/adapters/events"
)

func number(n int) string { return strconv.Itoa(n) }

// recorder is a sink and a place for dead letters. Its fail, if not nil, is called for each attempt, the first being 1.
type recorder struct {
	mu       sync.Mutex
	got      []*events.Event
	dead     []*events.Letter
	attempts int
	times    []time.Time
	closed   bool
	full     bool // there is no room for dead letters
	fail     func(ctx context.Context, attempt int, all []*events.Event) error
}

func (r *recorder) Deliver(ctx context.Context, all []*events.Event) error {
	r.mu.Lock()
	r.attempts++
	attempt := r.attempts
	r.times = append(r.times, time.Now())
	r.mu.Unlock()
	if r.fail != nil {
		if err := r.fail(ctx, attempt, all); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, all...)
	return nil
}

func (r *recorder) Close() error { r.closed = true; return nil }

func (r *recorder) Put(_ context.Context, l *events.Letter) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full {
		return false
	}
	r.dead = append(r.dead, l)
	return true
}

func (r *recorder) all() []*events.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got
}

func newQueue(t *testing.T, r *recorder, change func(*events.QueueOptions)) *events.Queue {
	t.Helper()
	opt := events.QueueOptions{Name: "s", Sink: r, Dead: r, Bytes: 1 << 20, Attempts: 5, Timeout: time.Second, Backoff: 100 * time.Millisecond, GiveUp: time.Minute, AtATime: 4, Batch: 1}
	if change != nil {
		change(&opt)
	}
	q := events.NewQueue(opt)
	t.Cleanup(q.Close)
	return q
}

func check(t *testing.T, q *events.Queue, want events.QueueStats) {
	t.Helper()
	got := q.Stats()
	if want.Bytes == 0 && want.Queued > 0 {
		want.Bytes = got.Bytes
	}
	if got != want {
		t.Errorf("%+v, not %+v", got, want)
	}
}

// failsUntil returns a function that fails all attempts before the n-th.
func failsUntil(n int, err error) func(context.Context, int, []*events.Event) error {
	return func(_ context.Context, attempt int, _ []*events.Event) error {
		if attempt < n {
			return err
		}
		return nil
	}
}

var errDown = errors.New("down")

// Attempts are made with growing pauses until one succeeds, none is left, time is up, or the receiver refuses for good.
func TestAttempts(t *testing.T) {
	for name, x := range map[string]struct {
		fail        func(context.Context, int, []*events.Event) error
		change      func(*events.QueueOptions)
		attempts    int
		delivered   bool
		least, most time.Duration // from the first to the last attempt
		reason      string
	}{
		"at once":             {nil, nil, 1, true, 0, 0, ""},
		"the third":           {failsUntil(3, errDown), nil, 3, true, 150 * time.Millisecond, 300 * time.Millisecond, ""},
		"none":                {failsUntil(100, errDown), nil, 5, false, 750 * time.Millisecond, 1500 * time.Millisecond, "down (attempt 5)"},
		"refused for good":    {failsUntil(100, &events.Refusal{Err: errDown, Final: true}), nil, 1, false, 0, 0, "down (attempt 1)"},
		"not before":          {failsUntil(2, &events.Refusal{Err: errDown, After: 20 * time.Second}), nil, 2, true, 20 * time.Second, 20 * time.Second, ""},
		"not before too long": {failsUntil(2, &events.Refusal{Err: errDown, After: time.Hour}), func(o *events.QueueOptions) { o.GiveUp = time.Hour }, 2, true, 5 * time.Minute, 5 * time.Minute, ""},
		"too old": {failsUntil(100, errDown), func(o *events.QueueOptions) { o.Attempts, o.GiveUp = 100, 10*time.Second }, -1, false,
			10 * time.Second, 30 * time.Second, ""},
		"hangs": {func(ctx context.Context, attempt int, _ []*events.Event) error {
			if attempt == 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}, nil, 2, true, time.Second + 50*time.Millisecond, time.Second + 100*time.Millisecond, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &recorder{fail: x.fail}
				q := newQueue(t, r, x.change)
				if !q.Put(event("a", 1)) {
					t.Fatal("it is not taken")
				}
				for q.Stats().Queued > 0 {
					time.Sleep(time.Second) // of the bubble
				}
				took := r.times[len(r.times)-1].Sub(r.times[0])
				if x.attempts >= 0 && r.attempts != x.attempts || took < x.least || took > x.most || (len(r.got) == 1) != x.delivered || (len(r.dead) == 1) == x.delivered {
					t.Errorf("%d attempts in %s, %d delivered, %d dead", r.attempts, took, len(r.got), len(r.dead))
				}
				if x.reason != "" && r.dead[0].Reason != x.reason {
					t.Errorf("reason %q", r.dead[0].Reason)
				}
			})
		})
	}
}

// Events of a source keep their order over failures; other sources do not wait for them.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := 0
		r := &recorder{}
		r.fail = func(_ context.Context, _ int, all []*events.Event) error {
			if all[0].Source == "urn:test:slow" {
				if slow++; slow%2 == 1 {
					return errDown
				}
			}
			return nil
		}
		q := newQueue(t, r, nil)
		for n := range 20 {
			q.Put(event("slow", n))
			q.Put(event("quick", n))
		}
		synctest.Wait()
		if got := r.all(); len(got) != 20 || got[19].Source != "urn:test:quick" {
			t.Errorf("%d events at once", len(got))
		}
		time.Sleep(time.Minute) // of the bubble
		next := map[string]int{}
		for _, e := range r.all() {
			if e.ID != number(next[e.Source]) {
				t.Fatalf("%s of %s, not %d", e.ID, e.Source, next[e.Source])
			}
			next[e.Source]++
		}
		check(t, q, events.QueueStats{Accepted: 40, Delivered: 40, Retried: 20})
	})
}

// A queue has at most so many bytes; what has no room is a dead letter, and refused if there is no room for that either.
func TestFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{fail: failsUntil(1000, errDown)}
		size := event("a", 1).Size()
		q := newQueue(t, r, func(o *events.QueueOptions) { o.Bytes = 3 * size })
		for n := range 5 {
			if !q.Put(event("a", n)) {
				t.Errorf("%d is not taken", n)
			}
		}
		synctest.Wait() // the first has failed, and waits for its next attempt
		check(t, q, events.QueueStats{Accepted: 3, Retried: 1, Dead: 2, Queued: 3})
		if r.dead[0].Reason != "events.queue was full" || r.dead[0].Event.ID != "3" {
			t.Errorf("%+v", r.dead[0])
		}
		r.full = true
		if q.Put(event("a", 5)) {
			t.Error("it is taken without room")
		}
		check(t, q, events.QueueStats{Accepted: 3, Retried: 1, Dead: 2, Lost: 1, Queued: 3})
		r.full = false
	})
}

// A batch that is refused for good is delivered one by one, so that only the event that is the reason becomes a dead letter.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		var sizes []int
		hold := make(chan struct{})
		r.fail = func(_ context.Context, attempt int, all []*events.Event) error {
			if attempt == 1 {
				<-hold
			}
			sizes = append(sizes, len(all))
			for _, e := range all {
				if e.ID == "3" {
					return &events.Refusal{Err: errDown, Final: true}
				}
			}
			return nil
		}
		q := newQueue(t, r, func(o *events.QueueOptions) { o.Batch = 4; o.Timeout = time.Hour })
		q.Put(event("a", 0))
		synctest.Wait() // the first goes alone
		for n := 1; n < 7; n++ {
			q.Put(event("a", n))
		}
		close(hold)
		synctest.Wait()
		if fmt.Sprint(sizes) != "[1 4 1 1 1 1 2]" || len(r.dead) != 1 || r.dead[0].Event.ID != "3" || len(r.got) != 6 {
			t.Errorf("attempts of %v events, %d dead", sizes, len(r.dead))
		}
	})
}

// A batch has at most 1 MiB, in which exactly four events of a quarter fit.
func TestBatchBytes(t *testing.T) {
	for more, want := range map[int]string{0: "[1 4 2]", 1: "[1 3 3]"} {
		synctest.Test(t, func(t *testing.T) {
			var sizes []int
			hold := make(chan struct{})
			r := &recorder{fail: func(_ context.Context, attempt int, all []*events.Event) error {
				if attempt == 1 {
					<-hold
				}
				sizes = append(sizes, len(all))
				return nil
			}}
			q := newQueue(t, r, func(o *events.QueueOptions) { o.Batch, o.Timeout, o.Bytes = 100, time.Hour, 1<<30 })
			for n := range 7 {
				e := event("a", 0)
				e.Data = append(append([]byte{'"'}, make([]byte, 256<<10-e.Size()+len(e.Data)-2)...), '"')
				if n == 1 {
					e.Data = append(e.Data, make([]byte, more)...)
				}
				if q.Put(e); n == 0 {
					synctest.Wait() // the first goes alone
				}
			}
			close(hold)
			synctest.Wait()
			if fmt.Sprint(sizes) != want {
				t.Errorf("attempts of %v events, want %s", sizes, want)
			}
		})
	}
}

// What is queued at the end is delivered if that takes no longer than 3 s, and else becomes dead letters.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{fail: failsUntil(1<<30, errDown)}
		q := newQueue(t, r, func(o *events.QueueOptions) { o.Attempts = 1000 })
		for n := range 10 {
			q.Put(event("a", n))
		}
		began := time.Now()
		q.Close()
		if took := time.Since(began); took != 3*time.Second || !r.closed {
			t.Errorf("closed in %s", took)
		}
		if !q.Put(event("a", 10)) {
			t.Error("a late event is no dead letter")
		}
		for n, l := range r.dead {
			if l.Event.ID != number(n) {
				t.Errorf("%s at %d", l.Event.ID, n)
			}
		}
		if len(r.dead) != 11 {
			t.Errorf("%d dead", len(r.dead))
		}
	})
}

// A queue that takes over from another has its events, in order, before its own.
func TestHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, after := &recorder{}, &recorder{}
		before.fail = func(ctx context.Context, attempt int, _ []*events.Event) error {
			if attempt <= 2 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}
		left, heir := newQueue(t, before, nil), newQueue(t, after, nil)
		for n := range 6 {
			left.Put(event("a", n))
		}
		synctest.Wait()
		left.HandOver(heir)
		heir.Put(event("a", 6))
		left.Put(event("a", 7))
		left.Close()
		synctest.Wait()
		heir.Close()
		if len(before.got) != 2 || len(after.got) != 6 || len(before.dead)+len(after.dead) != 0 {
			t.Fatalf("%d and %d delivered", len(before.got), len(after.got))
		}
		for n, e := range after.got {
			if e.ID != number(n+2) {
				t.Errorf("%s at %d", e.ID, n)
			}
		}
	})
}

// Whatever fails and whenever queues are replaced, each event that is taken is delivered or a dead letter, and what is delivered has the order of its
// source.
func TestAccounts(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(number(int(seed)), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { accounts(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func accounts(t *testing.T, random *rand.Rand) {
	r := &recorder{}
	r.fail = func(ctx context.Context, _ int, _ []*events.Event) error {
		r.mu.Lock()
		kind := random.IntN(10)
		r.mu.Unlock()
		switch {
		case kind == 0:
			return &events.Refusal{Err: errDown, Final: true}
		case kind == 1:
			<-ctx.Done()
			return ctx.Err()
		case kind < 5:
			return errDown
		}
		return nil
	}
	queue := func() *events.Queue {
		return newQueue(t, r, func(o *events.QueueOptions) { o.Bytes, o.Attempts, o.Batch = 64<<10, 3, 3 })
	}
	q, taken := queue(), 0
	for n := range 2000 {
		if q.Put(event(number(n%7), n)) {
			taken++
		}
		if n%400 == 399 {
			next := queue()
			q.HandOver(next)
			q.Close()
			q = next
		}
		if n%50 == 0 {
			time.Sleep(time.Second) // of the bubble
		}
	}
	q.Close()
	seen, last := map[string]bool{}, map[string]int{}
	for _, e := range r.got {
		n, _ := strconv.Atoi(e.ID)
		if before, any := last[e.Source]; any && n <= before {
			t.Fatalf("%d of %s after %d", n, e.Source, before)
		}
		last[e.Source], seen[e.ID] = n, true
	}
	for _, l := range r.dead {
		seen[l.Event.ID] = true
	}
	if taken != 2000 || len(seen) != taken {
		t.Errorf("%d taken, %d delivered or dead", taken, len(seen))
	}
}
