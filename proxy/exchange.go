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
	Server      string      // the server or group that the path names, see CutServer; empty: the only server, or all
	Below       string      // the part of the path after /servers/NAME/, for errors; empty: mcp
	Target      string      // the name of its target, set by the Router
	Tool        string      // what its target calls the tool, if the client calls it otherwise
	PublicName  []byte      // what the client calls what it is about, if its target calls it otherwise; borrowed from Msg as it came
	Through     string      // the tool of Dragoman's own through which the client calls Msg's; empty: it calls that itself
	UpstreamEra UpstreamEra // the era in which it was sent to the server, once that is known
	Refusal     error       // why it is refused, decided before it reaches the handler; see RefusedBefore
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

	slots    [slots]Clearer // memory of Lend, kept between uses
	lent     uint32         // a bit for each slot that is lent
	borrowed *sync.Pool     // the pool of Recycle; nil: it is not reused

	outgoing atomic.Pointer[Trace] // OutgoingTrace

	older, newer *Exchange // neighbours in flight under the same id; owned by the Session
	unique       bool      // no other may be in flight under its id; owned by the Session
	id           []byte    // under which it is in flight, raw JSON, in memory kept between uses; owned by the Session

	lifecycle
}

// Leave implements httpserver.Leaver: the client of a modern exchange has left.
func (ex *Exchange) Leave() { ex.Cancel(ErrCancelled) }

// Deadline implements context.Context: an exchange has none of its own.
func (ex *Exchange) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value implements context.Context. An exchange has only the forwarded fields of its caller (ForwardedFrom), its outgoing trace
// (TraceIn), and the intermediaries that it has passed (ViaIn).
func (ex *Exchange) Value(key any) any {
	if _, ok := key.(traceKey); ok {
		return ex.outgoing.Load()
	}
	if _, ok := key.(forwardedKey); ok && ex.Caller.Forwarded != nil {
		return ex.Caller.Forwarded
	}
	if _, ok := key.(viaKey); ok && ex.Arrival != nil && ex.Arrival.Via != "" {
		return ex.Arrival.Via
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
	end := ex.begin(limit)
	ex.Clock.passing = ex.began
	return end
}

// Repeatable reports whether a request may be answered with the answer to an earlier equal one. initialize, listens and pings may not.
func Repeatable(m *wire.Message) bool {
	return m.Kind == wire.Request && !m.Is("initialize") && !m.Is("ping") && !m.Is("subscriptions/listen")
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

// Clock shares readings of the clock among the policies of one exchange: a reading costs more than most of what a policy does. Only the
// goroutine that serves the exchange may use it.
type Clock struct {
	passing time.Time     // zero: to be read
	began   time.Time     // of what lasted for elapsed
	lasted  time.Duration // 0: not measured yet
}

// Now returns the time at which the exchange passes its policies.
func (c *Clock) Now() time.Time {
	if c.passing.IsZero() {
		c.passing = time.Now()
	}
	return c.passing
}

// Waited makes Now read the clock again. It must be called after an exchange has waited, and before it is sent again.
func (c *Clock) Waited() { c.passing = time.Time{} }

// Since returns how long an exchange took that began at the given time and has just been answered. The first call reads the clock.
func (c *Clock) Since(began time.Time) time.Duration {
	if c.lasted == 0 || !c.began.Equal(began) {
		c.lasted, c.began = time.Since(began), began
	}
	return c.lasted
}

// methods are the methods of clients, of all revisions and of the extensions for tasks and skills; the most frequent first.
var methods = [...]string{"tools/call", "tools/list", "initialize", "server/discover", "ping", "resources/list",
	"resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe", "prompts/list", "prompts/get",
	"completion/complete", "logging/setLevel", "subscriptions/listen", "tasks/get", "tasks/list", "tasks/cancel", "tasks/result", "tasks/update",
	"skills/list", "skills/get", "resources/directory/read"}

// KnownMethod returns the name of a request method of the protocol, without allocating; false if it is unknown.
func KnownMethod(name []byte) (string, bool) {
	for _, known := range &methods {
		if string(name) == known {
			return known, true
		}
	}
	return "", false
}

// Method returns the name of a method, without allocating if it is known.
func Method(name []byte) string {
	if known, ok := KnownMethod(name); ok {
		return known
	}
	return string(name)
}

// RefusedBefore is the handler of an exchange that is refused already. Policies around it record the refusal.
func RefusedBefore(ex *Exchange) (Replies, error) { return nil, ex.Refusal }
