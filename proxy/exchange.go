package proxy

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"dragoman/proxy/wire"
)

// Exchange is one request or notification with everything that belongs to it. It is the context of all work for it, which Cancel
// ends. Its Done channel is made on the first call of Done.
type Exchange struct {
	Msg         wire.Message // borrowed from the downstream until Replies.Close
	Client      Client
	Session     *Session // the legacy client's session; nil for modern clients
	Caller      Caller
	Server      string      // the server that the path names; empty: the only one, or all
	Below       string      // the part of the path after /servers/NAME/, for errors; empty: mcp
	Target      string      // the name of its target, set by the Router
	UpstreamEra UpstreamEra // the era in which it was sent to the server, once that is known
	RefusedBy   string      // the policy that has refused it, if its error does not tell; for the audit log
	Headers     []Header    // Mcp-Param-* of a modern client, as sent
	Mirrors     bool        // the client mirrors parameters into headers: modern HTTP
	// RequestID correlates log lines, answers and servers' logs; empty: not determined yet, see ID.
	RequestID string
	Arrival   *Arrival // how it arrived over HTTP; nil: it arrived otherwise
	// Trace is the span in which it is served; nil: there is no tracing. An exchange that serves another one has it from that.
	Trace *Trace
	// Continues is the span of the server's call that this one continues; nil: none.
	Continues *Trace
	// Polls means that the client may be disconnected before its response and polls for it. Replies of a server that disconnects
	// its clients (2025-11-25 transports, polling) then set Polled, and return ErrNotYet early.
	Polls  bool
	Polled atomic.Bool
	// Key identifies repetitions of this request: the Idempotency-Key header, or what the endpoint has in its place, unchecked;
	// empty: none.
	Key string
	// Replayed means that the response is the answer to an earlier request. It is set before Next returns that, or before a Handler
	// or Next fails, on the goroutine that called it.
	Replayed bool
	// NotProcessed means that the server has not processed the request, because it no longer knows the session: it may be sent in
	// another session. It is set before a Handler or Next fails with SessionLost, on the goroutine that called it.
	NotProcessed bool

	// Own means that Dragoman sends this to serve another request, which is counted: limits on clients do not count it.
	Own bool
	// Allowance is one more than the number of requests that the rate limit still allows; 0: there is no limit.
	Allowance int
	// Lasting means that the server runs the call as a task: its silence is no failure.
	Lasting atomic.Bool

	// Clock is the time that the policies of the exchange share.
	Clock Clock

	slots    [slots]slot // Lend
	borrowed *sync.Pool  // the pool of Recycle; nil: it is not reused

	outgoing atomic.Pointer[Trace] // Onward

	older, newer *Exchange // neighbours in flight under the same id; owned by the Session
	unique       bool      // no other may be in flight under its id; owned by the Session

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

// Aborter is stopped when its exchange is cancelled. Abort does not block, and may be called more than once and at any time.
type Aborter interface{ Abort() }

// Cancel ends the exchange: all attached Aborters are aborted, and Err returns cause. Only the first call has an effect.
func (ex *Exchange) Cancel(cause error) { ex.cancel(cause, anyLife) }

// anyLife is the life for callers that hold the exchange itself.
const anyLife = ^uint64(0)

func (ex *Exchange) cancel(cause error, life uint64) {
	ex.mu.Lock()
	if ex.cause != nil || life != anyLife && life != ex.life {
		ex.mu.Unlock()
		return
	}
	ex.alive()
	ex.cause = cause
	aborts := ex.aborts
	ex.aborts, ex.aborting = nil, true
	if ex.done != nil {
		close(ex.done)
	}
	ex.mu.Unlock()
	for _, a := range aborts {
		a.Abort()
	}
	ex.mu.Lock()
	defer ex.mu.Unlock()
	ex.aborting = false
	if ex.aborted != nil {
		close(ex.aborted)
	}
}

// Leave implements httpd.Leaver: the client of a modern exchange has left.
func (ex *Exchange) Leave() { ex.Cancel(ErrCancelled) }

// Attach registers a to be aborted when the exchange is cancelled. If it is already, a is aborted at once.
func (ex *Exchange) Attach(a Aborter) {
	ex.mu.Lock()
	ex.alive()
	if ex.cause == nil {
		if ex.aborts == nil {
			ex.aborts = ex.firstAborts[:0]
		}
		ex.aborts = append(ex.aborts, a)
		ex.mu.Unlock()
		return
	}
	ex.mu.Unlock()
	a.Abort()
}

// Detach undoes Attach.
func (ex *Exchange) Detach(a Aborter) {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	for i := range ex.aborts {
		if ex.aborts[i] == a {
			ex.aborts = append(ex.aborts[:i], ex.aborts[i+1:]...)
			return
		}
	}
}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Done implements context.Context.
func (ex *Exchange) Done() <-chan struct{} {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	ex.alive()
	if ex.done == nil {
		if ex.cause != nil {
			return closed
		}
		ex.done = make(chan struct{})
		ex.arm()
	}
	return ex.done
}

// Err implements context.Context. It returns the cause given to Cancel.
func (ex *Exchange) Err() error {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	ex.alive()
	return ex.cause
}

// alive panics under the race detector if an exchange is used after its end. The caller holds ex.mu.
func (ex *Exchange) alive() {
	if Poison && ex.over {
		panic("proxy: an exchange is used after its end")
	}
}

// Deadline implements context.Context: an exchange has none of its own.
func (ex *Exchange) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value implements context.Context. An exchange has only the forwarded fields of its caller (ForwardedFrom) and its outgoing trace
// (TraceIn).
func (ex *Exchange) Value(key any) any {
	if _, ok := key.(traceKey); ok {
		return ex.outgoing.Load()
	}
	if _, ok := key.(forwardedKey); ok && ex.Caller.Forwarded != nil {
		return ex.Caller.Forwarded
	}
	return nil
}

var _ context.Context = (*Exchange)(nil)

// Follow cancels the exchange when ctx ends. The returned function undoes that and must be called.
func (ex *Exchange) Follow(ctx context.Context) func() bool {
	return context.AfterFunc(ctx, func() { ex.Cancel(context.Cause(ctx)) })
}

// never is the limit of requests without one.
const never = 100 * 365 * 24 * time.Hour

// GiveUp sets the deadline of a request that begins now, and returns it. A listen, which has no response while it lasts, has no
// deadline.
func (ex *Exchange) GiveUp(limit time.Duration) time.Time {
	if ex.Msg.Is("subscriptions/listen") {
		limit = never
	}
	ex.mu.Lock()
	defer ex.mu.Unlock()
	ex.began = time.Now()
	ex.Clock.passing = ex.began
	ex.end, ex.limit = ex.began.Add(limit), limit
	if ex.done != nil {
		ex.arm()
	}
	return ex.end
}

// Began returns when GiveUp was called; the zero time if it was not. Only the goroutine that owns the exchange may call it.
func (ex *Exchange) Began() time.Time { return ex.began }

// arm starts the timer that cancels the exchange at its deadline, for those that wait for anything but a reply. Only they call Done,
// so an exchange that is served at once has no timer. The caller holds ex.mu.
func (ex *Exchange) arm() {
	if ex.timer == nil && !ex.end.IsZero() && ex.cause == nil {
		late, limit := new(deadline), ex.limit
		late.of.Store(ex)
		late.timer = time.AfterFunc(time.Until(ex.end), func() {
			if ex := late.of.Load(); ex != nil {
				ex.Cancel(Overdue(limit))
			}
		})
		ex.timer = late
	}
}

// deadline is the timer of an exchange. It lets go of it when it is stopped: the runtime may keep a stopped timer until its
// time, and with it would keep a request of many megabytes.
type deadline struct {
	timer *time.Timer
	of    atomic.Pointer[Exchange]
}

// Late reports whether the deadline of GiveUp has passed.
func (ex *Exchange) Late() bool {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	return !ex.end.IsZero() && !time.Now().Before(ex.end)
}

// Limit returns the limit of GiveUp.
func (ex *Exchange) Limit() time.Duration {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	return ex.limit
}

// Repeatable reports whether a request may be answered with the answer to an earlier equal one. initialize, listens and pings may not.
func Repeatable(m *wire.Message) bool {
	return m.Kind == wire.Request && !m.Is("initialize") && !m.Is("ping") && !m.Is("subscriptions/listen")
}

// Release ends the exchange and stops its timer. If it is being cancelled, Release returns when all Aborters were called: they may read
// the message, which its owner reuses afterwards. An Aborter must not call it.
func (ex *Exchange) Release() {
	ex.mu.Lock()
	ex.end = time.Time{}
	if ex.timer != nil {
		ex.timer.timer.Stop()
		ex.timer.of.Store(nil)
	}
	if !ex.aborting {
		ex.mu.Unlock()
		return
	}
	if ex.aborted == nil {
		ex.aborted = make(chan struct{})
	}
	aborted := ex.aborted
	ex.mu.Unlock()
	<-aborted
}

// Why returns the reason of a failure in an exchange: the cause of its cancellation, if that is an *Error, else err, which may be only a
// consequence of the cancellation. A lost session of the upstream is always the reason: such a request was not served, and its client
// has to open a new session.
func (ex *Exchange) Why(err error) error {
	var e, own *Error
	if errors.As(err, &own) && own.Name == SessionLost.Name {
		return err
	}
	if errors.As(ex.Err(), &e) && (own == nil || own.Name != e.Name) { // of the same row err is more specific
		return e
	}
	return err
}

// Overdue is the error of a request without a response within limits.request_time.
func Overdue(limit time.Duration) *Error {
	return Errf(UpstreamTimeout, "no response in %s, the most that limits.request_time allows", limit)
}
