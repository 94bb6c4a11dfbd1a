package proxy

import (
	"sync"
	"sync/atomic"
	"time"
)

// Aborter is stopped when its exchange is cancelled. Abort does not block, and may be called more than once and at any time.
type Aborter interface{ Abort() }

// lifecycle is the part of an Exchange that begins, times out, is cancelled and ends. It is safe for concurrent use.
type lifecycle struct {
	mu          sync.Mutex
	life        uint64 // incremented with each reuse of the memory
	over        bool   // it must not be used any more; checked under the race detector
	done        chan struct{}
	cause       error
	began       time.Time // GiveUp
	end         time.Time // when it times out; zero: never, or it has ended
	limit       time.Duration
	timer       *deadline // set by the first Done
	aborts      []Aborter
	aborting    bool          // they are being called
	aborted     chan struct{} // closed when all were called; nil while nothing waits for that
	firstAborts [2]Aborter    // the first elements of aborts
}

// Cancel ends the exchange: all attached Aborters are aborted, and Err returns cause. Only the first call has an effect.
func (l *lifecycle) Cancel(cause error) { l.cancel(cause, anyLife) }

// anyLife is the life for callers that hold the exchange itself.
const anyLife = ^uint64(0)

func (l *lifecycle) cancel(cause error, life uint64) {
	l.mu.Lock()
	if l.cause != nil || life != anyLife && life != l.life {
		l.mu.Unlock()
		return
	}
	l.alive()
	l.cause = cause
	aborts := l.aborts
	l.aborts, l.aborting = nil, true
	if l.done != nil {
		close(l.done)
	}
	l.mu.Unlock()
	for _, a := range aborts {
		a.Abort()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.aborting = false
	if l.aborted != nil {
		close(l.aborted)
	}
}

// Attach registers a to be aborted when the exchange is cancelled. If it is already, a is aborted at once.
func (l *lifecycle) Attach(a Aborter) {
	l.mu.Lock()
	l.alive()
	if l.cause == nil {
		if l.aborts == nil {
			l.aborts = l.firstAborts[:0]
		}
		l.aborts = append(l.aborts, a)
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	a.Abort()
}

// Detach undoes Attach.
func (l *lifecycle) Detach(a Aborter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.aborts {
		if l.aborts[i] == a {
			l.aborts = append(l.aborts[:i], l.aborts[i+1:]...)
			return
		}
	}
}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Done implements context.Context.
func (l *lifecycle) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.alive()
	if l.done == nil {
		if l.cause != nil {
			return closed
		}
		l.done = make(chan struct{})
		l.arm()
	}
	return l.done
}

// Err implements context.Context. It returns the cause given to Cancel.
func (l *lifecycle) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.alive()
	return l.cause
}

// alive panics under the race detector if an exchange is used after its end. The caller holds mu.
func (l *lifecycle) alive() {
	if Poison && l.over {
		panic("proxy: an exchange is used after its end") //nolint:forbidigo // in tests only, see Poison
	}
}

// begin sets the deadline to limit from now, and returns it.
func (l *lifecycle) begin(limit time.Duration) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.began = time.Now()
	l.end, l.limit = l.began.Add(limit), limit
	if l.done != nil {
		l.arm()
	}
	return l.end
}

// Began returns when GiveUp was called; the zero time if it was not. Only the goroutine that owns the exchange may call it.
func (l *lifecycle) Began() time.Time { return l.began }

// arm starts the timer that cancels the exchange at its deadline, for those that wait for anything but a reply. Only they call Done,
// so an exchange that is served at once has no timer. The caller holds mu.
func (l *lifecycle) arm() {
	if l.timer == nil && !l.end.IsZero() && l.cause == nil {
		late, limit := new(deadline), l.limit
		late.of.Store(l)
		late.timer = time.AfterFunc(time.Until(l.end), func() {
			if l := late.of.Load(); l != nil {
				l.Cancel(Overdue(limit))
			}
		})
		l.timer = late
	}
}

// deadline is the timer of an exchange. It lets go of it when it is stopped: the runtime may keep a stopped timer until its
// time, and with it would keep a request of many megabytes.
type deadline struct {
	timer *time.Timer
	of    atomic.Pointer[lifecycle]
}

// Late reports whether the deadline of GiveUp has passed.
func (l *lifecycle) Late() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.end.IsZero() && !time.Now().Before(l.end)
}

// Limit returns the limit of GiveUp.
func (l *lifecycle) Limit() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limit
}

// Release ends the exchange and stops its timer. If it is being cancelled, Release returns when all Aborters were called: they may read
// the message, which its owner reuses afterwards. An Aborter must not call it.
func (l *lifecycle) Release() {
	l.mu.Lock()
	l.end = time.Time{}
	if l.timer != nil {
		l.timer.timer.Stop()
		l.timer.of.Store(nil)
	}
	if !l.aborting {
		l.mu.Unlock()
		return
	}
	if l.aborted == nil {
		l.aborted = make(chan struct{})
	}
	aborted := l.aborted
	l.mu.Unlock()
	<-aborted
}

// Overdue is the error of a request without a response within limits.request_time.
func Overdue(limit time.Duration) *Error {
	return Errf(UpstreamTimeout, "no response in %s, the most that limits.request_time allows", limit)
}
