package stdio

import (
	"context"
	"sync"
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
