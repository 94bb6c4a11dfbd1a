package classification

import (
	"sync/atomic"

	"dragoman/adapters/catalogue"
)

// Stats tells what an Engine has done, and what is left to do.
type Stats struct {
	// States has the number of tools in each state.
	States map[catalogue.ClassState]int
	// Done, StoodIn and Failed count batches: those that the classifier has classified, those that the fallback has in its place, and those that
	// nothing has.
	Done, StoodIn, Failed int64
}

// counts counts batches.
type counts struct{ done, stoodIn, failed atomic.Int64 }

// add counts a batch. left means that the classifier was not asked.
func (c *counts) add(o *outcome, left bool) {
	switch {
	case o.standIn:
		c.stoodIn.Add(1)
	case o.err == nil:
		c.done.Add(1)
	case !left:
		c.failed.Add(1)
	}
}

// Stats returns what was done so far. It may be called on a nil Engine.
func (e *Engine) Stats() Stats {
	s := Stats{States: map[catalogue.ClassState]int{}}
	if e == nil {
		return s
	}
	s.Done, s.StoodIn, s.Failed = e.counts.done.Load(), e.counts.stoodIn.Load(), e.counts.failed.Load()
	e.mu.Lock()
	defer e.mu.Unlock()
	for key := range e.tools {
		s.States[e.classification(key).State]++
	}
	return s
}
