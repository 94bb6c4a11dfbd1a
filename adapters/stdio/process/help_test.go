package process

import (
	"context"
	"sync"
	"testing"
	"time"
)

// waitContext closes waits when a Writer begins to wait for it.
type waitContext struct {
	context.Context
	once  sync.Once
	waits chan struct{}
}

func (w *waitContext) Done() <-chan struct{} {
	w.once.Do(func() { close(w.waits) })
	return w.Context.Done()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}
