package policies

import (
	"time"

	"dragoman/proxy"
)

// frame is what the policies around one request need of memory, in one piece: most requests pass all of them, once. Who comes a
// second time, with a retry, makes his own. A request is served by one goroutine at a time, which is what guards it.
type frame struct {
	clock time.Time // read once for all that begin at the same time; zero: not yet, or the request has waited since

	took     time.Duration // to the response, of what began at answered; 0: there is none yet
	answered time.Time

	logged   once[logged]
	observed once[observed]
	first    once[first]
	held     once[held]
	retried  once[retried]
	watched  once[watched]
	timed    once[timed]
}

// Clear implements proxy.Lent.
func (f *frame) Clear() { *f = frame{} }

// once is something that is given out once.
type once[T any] struct {
	it   T
	gone bool
}

func (o *once[T]) take() *T {
	if o.gone {
		return new(T)
	}
	o.gone = true
	return &o.it
}

// frameOf gives the frame of an exchange.
func frameOf(ex *proxy.Exchange) *frame {
	f, ok := ex.Frame.(*frame)
	if !ok {
		f = proxy.Lend[frame](ex, proxy.RoomPolicies)
		f.clock = ex.Began()
		ex.Frame = f
	}
	return f
}

// now is the time at which a request passes the policies. Whoever makes it wait, or makes it again, calls waited.
func (f *frame) now() time.Time {
	if f.clock.IsZero() {
		f.clock = time.Now()
	}
	return f.clock
}

func (f *frame) waited() { f.clock = time.Time{} }

// took is how long a request has taken that began when, and has just been answered: for the first of those that want to know, the clock
// is read.
func took(ex *proxy.Exchange, began time.Time) time.Duration {
	f := frameOf(ex)
	if f.took == 0 || !f.answered.Equal(began) {
		f.took, f.answered = time.Since(began), began
	}
	return f.took
}
