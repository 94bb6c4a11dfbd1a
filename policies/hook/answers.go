package hook

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// answers keeps answers, and lets equal questions at a time share one.
type answers struct {
	mu      sync.Mutex
	kept    *simplelru.LRU[key, keptAnswer]
	flights map[key]*flight
}

// key is the sum of all of a question that an answer depends on.
type key [sha256.Size]byte

type keptAnswer struct {
	answer
	until time.Time
}

// flight is a question that is being asked.
type flight struct {
	done   chan struct{} // closed once the rest is set
	got    answer
	err    error
	left   bool // its client has left: it has no outcome
	shared bool // the outcome may be that of others
}

// newAnswers returns the memory of so many answers; nil for 0.
func newAnswers(most int) *answers {
	if most <= 0 {
		return nil
	}
	kept, _ := simplelru.NewLRU[key, keptAnswer](most, nil) // fails only for a size below 1
	return &answers{kept: kept, flights: make(map[key]*flight)}
}

// get returns the answer to a question. Of equal questions at a time one is asked, in its own time. The others take its answer if that may be
// kept, or its failure; otherwise they are asked, too.
func (a *answers) get(ctx context.Context, k key, now func() time.Time, ask func(context.Context) (answer, error)) (answer, error) {
	for {
		a.mu.Lock()
		if known, ok := a.kept.Get(k); ok {
			if now().Before(known.until) {
				a.mu.Unlock()
				return known.answer, nil
			}
			a.kept.Remove(k)
		}
		f := a.flights[k]
		if f == nil {
			f = &flight{done: make(chan struct{})}
			a.flights[k] = f
			a.mu.Unlock()
			f.got, f.err = ask(ctx)
			a.land(ctx, k, f, now)
			return f.got, f.err
		}
		a.mu.Unlock()
		select {
		case <-f.done:
		case <-ctx.Done():
			return answer{}, ctx.Err()
		}
		switch {
		case f.left:
		case f.shared:
			return f.got, f.err
		default:
			return ask(ctx)
		}
	}
}

// land ends a flight, and keeps its answer for as long as that says.
func (a *answers) land(ctx context.Context, k key, f *flight, now func() time.Time) {
	a.mu.Lock()
	delete(a.flights, k)
	switch {
	case f.err == nil && f.got.ttl > 0:
		a.kept.Add(k, keptAnswer{f.got, now().Add(f.got.ttl)})
		f.shared = true
	case f.err != nil:
		f.left = ctx.Err() == context.Canceled //nolint:errorlint // a context's own error
		f.shared = !f.left
	}
	a.mu.Unlock()
	close(f.done)
}
