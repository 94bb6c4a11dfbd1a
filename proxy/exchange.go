package proxy

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"dragoman/proxy/wire"
)

// Era is the side of the split of 2026-07-28 on which a party lives.
type Era uint8

// Legacy is every revision with initialize and sessions; Modern is 2026-07-28 and what follows it.
const (
	Legacy Era = iota
	Modern
)

// String names the era.
func (e Era) String() string { return [...]string{"legacy", "modern"}[e] }

// UpstreamEra is the era in which a server was spoken to about a request.
type UpstreamEra uint8

// In makes the era the one that was spoken.
func (s *UpstreamEra) In(e Era) { *s = UpstreamEra(e) + 1 }

// String names the era; "none" if the server was not spoken to.
func (s UpstreamEra) String() string { return [...]string{"none", "legacy", "modern"}[s] }

// Client is what is known of the client that made a request: beside the message's bytes, whoever said it. The byte
// slices are raw JSON, borrowed from the message (modern) or from the session (legacy).
type Client struct {
	Era      Era
	Version  string // the protocol revision it speaks here
	Info     []byte // Implementation object; nil if it gave none
	Caps     []byte // ClientCapabilities object; nil if it gave none
	LogLevel string // the least severe log level it wants; empty: none asked for
}

// Header is a request header that travels with an exchange: the Mcp-Param-* of a modern client.
type Header struct{ Name, Value string }

// Exchange is one request, or notification, on its way, and all that belongs to it. It is the context of whatever is done
// for it: Cancel ends it. Its Done channel is made when somebody asks for it.
type Exchange struct {
	Msg         wire.Message // borrowed from the downstream until Replies.Close
	Client      Client
	Session     *Session // the legacy client's session; nil for modern clients
	Caller      Caller
	Server      string      // the server asked for by path; empty: the only one, or all
	Below       string      // what a path that names a server has behind /servers/NAME/, for errors; empty: mcp
	Target      string      // the name of the target it went to, once the Router knows
	UpstreamEra UpstreamEra // what the target's server was spoken to in, once that is known
	RefusedBy   string      // the policy that has refused it, where its error does not tell; for audit
	Headers     []Header    // Mcp-Param-* as the client sent them
	Mirrors     bool        // the client mirrors parameters into headers: modern HTTP
	// RequestID correlates log lines, answers and servers' logs; empty: not settled yet (ID).
	RequestID string
	Arrival   *Arrival // how it came over HTTP; nil: it came otherwise
	// Trace is where in a trace it is served; nil: nobody traces. Whoever makes an exchange to serve another sets it.
	Trace *Trace
	// Continues is where in a trace the server's call began that this one goes on with; nil: it goes on with none.
	Continues *Trace
	// Polls says that the client can be let go of before its response, and comes back for it. Replies of a server that
	// lets its own clients go (2025-11-25 transports, polling) then set Polled, and answer ErrNotYet before its time.
	Polls  bool
	Polled atomic.Bool
	// Key is under which name the client may send this request again: the text of its Idempotency-Key header, or what the face
	// has in its place, as it came; empty: none. Whoever keeps answers judges it.
	Key string
	// Replayed says that the response is the answer to an earlier request. It is set before Next gives that out, or by the time
	// that a Handler or Next fails, on the goroutine that called it.
	Replayed bool
	// NotProcessed says that the server has not taken the request, since it knows the session no more: it has not run, and may be sent
	// in another session. It is set before a Handler or Next fails with SessionLost, on the goroutine that called it.
	NotProcessed bool

	// Own says that Dragoman asks this to serve another request, which has been counted: no limit on clients counts it.
	Own bool
	// Allowance is one more than the requests that the client may send at once after this one; 0: nobody counts.
	Allowance int
	// Lasting says that the server has taken the call on as something that takes its time, a task: that it is silent says nothing.
	Lasting atomic.Bool

	// Clock is the time as the policies around the exchange share it.
	Clock Clock

	slots    [slots]slot // Lend
	borrowed *sync.Pool  // to which Recycle may give it back; nil: it may not

	outgoing atomic.Pointer[Trace] // Onward

	older, newer *Exchange // its neighbours in flight under the same id; the Session's
	unique       bool      // no other may be in flight under its id; the Session's

	mu          sync.Mutex
	life        uint64 // grows with each use of its memory
	over        bool   // it is to be used no more; told by tests
	done        chan struct{}
	cause       error
	began       time.Time // GiveUp
	end         time.Time // when it is given up; zero: never, or it is over
	limit       time.Duration
	timer       *deadline // once somebody waits
	aborts      []Aborter
	aborting    bool          // they are being told
	aborted     chan struct{} // closed when they have been; nil while nobody waits
	firstAborts [2]Aborter    // what aborts begins in
}

// Aborter is something to stop when its exchange is cancelled. Abort returns soon, may be called more than once and at any
// time.
type Aborter interface{ Abort() }

// ErrCancelled is the cause of an exchange whose client has left or has cancelled it.
var ErrCancelled = errors.New("proxy: cancelled by the client")

// ErrDraining is the cause of an exchange that lasts by its nature, a listen, when the proxy is about to end.
var ErrDraining = errors.New("proxy: draining")

// Cancel ends the exchange: whatever was attached is aborted and Err answers cause from now on. Only the first call
// counts.
func (ex *Exchange) Cancel(cause error) { ex.cancel(cause, anyLife) }

// anyLife is the life of whoever holds the exchange itself.
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

// Leave implements the leaver watch's interface: the client of a modern exchange has gone.
func (ex *Exchange) Leave() { ex.Cancel(ErrCancelled) }

// Attach registers a to be aborted when the exchange is cancelled; if that has happened already, it is aborted at once.
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

// Detach takes back an Attach.
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

// Err implements context.Context; it answers the cause given to Cancel.
func (ex *Exchange) Err() error {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	ex.alive()
	return ex.cause
}

// alive has a test fail that uses an exchange after its end. The caller holds ex.mu.
func (ex *Exchange) alive() {
	if Poison && ex.over {
		panic("proxy: an exchange is used after its end")
	}
}

// Deadline implements context.Context: an exchange has none of its own.
func (ex *Exchange) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value implements context.Context: an exchange is no bag; all that it has is what its caller carries (ForwardedFrom), and the trace
// that it goes on in (TraceIn).
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

// Follow makes the exchange end when ctx ends. The returned function takes that back and must be called.
func (ex *Exchange) Follow(ctx context.Context) func() bool {
	return context.AfterFunc(ctx, func() { ex.Cancel(context.Cause(ctx)) })
}

// never is when something ends that has no end of its own.
const never = 100 * 365 * 24 * time.Hour

// GiveUp answers when a request that begins now is given up for want of a response: after limit. A listen has no
// response while it lasts.
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

// Began answers when GiveUp was called; the zero time if it was not. Only the goroutine that the exchange belongs to may ask.
func (ex *Exchange) Began() time.Time { return ex.began }

// arm sees to it that who waits for anything but a reply is sent away too when the exchange is given up. Only those call
// Done, so that an exchange that is served at once has no timer. The caller holds ex.mu.
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

// Late tells whether the exchange has taken as long as it may (GiveUp).
func (ex *Exchange) Late() bool {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	return !ex.end.IsZero() && !time.Now().Before(ex.end)
}

// Limit is how long the exchange may take, as GiveUp was told.
func (ex *Exchange) Limit() time.Duration {
	ex.mu.Lock()
	defer ex.mu.Unlock()
	return ex.limit
}

// Repeatable tells whether a request may be answered with the answer to an earlier one that was the same. What opens a session
// or lasts is not, and a ping asks about now.
func Repeatable(m *wire.Message) bool {
	return m.Kind == wire.Request && !m.Is("initialize") && !m.Is("ping") && !m.Is("subscriptions/listen")
}

// Release says that the exchange is over, and gives back what it may have armed. If it is being cancelled, it returns when all have been
// told: they may look at the message, which is its owner's again then. So no Aborter may call it.
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

// Why is the reason of a failure in an exchange: what it was cancelled for, if that is an error that a client may see, else
// err, which may be no more than the trace that the cancellation has left. That the upstream's session is lost stays what it
// is: such a request has not been served, and its client has to open a session anew, whatever has ended this one.
func (ex *Exchange) Why(err error) error {
	var e, own *Error
	if errors.As(err, &own) && own.Name == SessionLost.Name {
		return err
	}
	if errors.As(ex.Err(), &e) && (own == nil || own.Name != e.Name) { // of the same it knows more
		return e
	}
	return err
}

// Overdue is the error of a request without a response within limits.request_time.
func Overdue(limit time.Duration) *Error {
	return Errf(UpstreamTimeout, "no response in %s, the most that limits.request_time allows", limit)
}
