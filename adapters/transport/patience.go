package transport

import (
	"sync/atomic"
	"time"
)

// Patience decides whether a message waits for something that most servers do at once and others late or never: to answer the request for
// a stream, or to acknowledge a notification. Waiting keeps the order of what travels over several connections. A server that was late
// once is not waited for until it has been in time again. The zero value is ready; the methods may be called at any time.
type Patience struct{ late atomic.Bool }

// For returns how long to wait: up to most, or not at all if the server was late.
func (p *Patience) For(most time.Duration) time.Duration {
	if p.late.Load() {
		return 0
	}
	return most
}

// Note records how long the server took. It is late beyond most.
func (p *Patience) Note(took, most time.Duration) { p.late.Store(took > most) }
