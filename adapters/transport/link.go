package transport

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Link is one conversation with a server over some transport. It handles what its transport needs (session ids, headers, streams, ids
// that are unique on a shared channel) from the messages that pass: a legacy HTTP link takes the session id from the answer to
// initialize and opens its GET stream after notifications/initialized. A Link is safe for concurrent use.
type Link interface {
	// Call sends the exchange's request with its edits and returns the replies, in which the ids and progress tokens are the
	// client's own. Cancelling the exchange, or closing the replies before the response, cancels the call at the server. The
	// error is a *proxy.Error, with a *StatusError in its chain if the server's answer is HTTP but no JSON-RPC.
	Call(ex *proxy.Exchange) (proxy.Replies, error)
	// Send sends a notification, or an answer to a question of the server.
	Send(ctx context.Context, msg []byte) error
	// Close ends the conversation and releases its resources. It does not call the sink's Lost.
	Close() error
}

// Sink receives what a server sends outside any call.
type Sink interface {
	// Message receives a notification or question that belongs to no call as far as the transport can tell. m is borrowed;
	// Message must not block. It returns false if nobody needs the message: the transport may then deliver it to a call.
	Message(m *wire.Message) bool
	// Lost is called at most once, when the link is dead, and not after Close.
	Lost(err error)
}

// Dial opens a link without sending anything. sink receives what the server sends outside calls, perhaps before Dial returns.
type Dial func(ctx context.Context, sink Sink) (Link, error)

// ownedKey is the context key of Owned.
type ownedKey struct{}

// Owned returns the context of a Dial whose link serves one caller alone, from its beginning to its end.
func Owned(ctx context.Context) context.Context { return context.WithValue(ctx, ownedKey{}, true) }

// IsOwned reports whether a context is one of Owned.
func IsOwned(ctx context.Context) bool { return ctx.Value(ownedKey{}) != nil }

// Wires holds the ways to reach one server. A server that speaks lines has a Dial for each era, which starts a process or opens a
// connection, and no SSE.
type Wires struct {
	Modern Dial // 2026-07-28; nil: not to be tried
	Legacy Dial // 2025-03-26 … 2025-11-25 over HTTP, or any legacy revision over stdio; nil: not to be tried
	SSE    Dial // HTTP+SSE of 2024-11-05; nil: not to be tried
	// Stdio reports that a link is a process or a connection that speaks lines: it has one client and one era for its life.
	Stdio bool
	// Remote reports that such a link is a connection to a server that others run, and may replace while no connection is open.
	Remote bool
	// Certain reports that a server that answers on the modern wire is modern, so that no probe is needed. The error of a server
	// that does not answer is reported as it is.
	Certain bool
	// Mirrors reports that modern links mirror parameters in headers (HTTP), which they take from Exchange.Headers.
	Mirrors bool
}

// ErrFatal marks an error of a Dial that no other wire and no later attempt can avoid, such as a command that does not exist.
var ErrFatal = errors.New("era: no further step helps")

// Forwarding holds the forwarded headers of the last client request on a link, which are used for the link's own requests: all requests of
// a session have the same principal. The zero value is ready.
type Forwarding struct {
	last atomic.Pointer[proxy.Forwarded]
}

// Note records the forwarded headers of a request; nil if the request is Dragoman's own.
func (f *Forwarding) Note(of *proxy.Forwarded) {
	if of != nil && of != f.last.Load() {
		f.last.Store(of)
	}
}

// Last returns the headers recorded last; nil if there are none.
func (f *Forwarding) Last() *proxy.Forwarded { return f.last.Load() }

// With adds the headers recorded last to ctx, unless ctx has those of its own request.
func (f *Forwarding) With(ctx context.Context) context.Context {
	if proxy.ForwardedFrom(ctx) != nil {
		return ctx
	}
	return proxy.WithForwarded(ctx, f.last.Load())
}

// Settler is a link that can wait for the cancellations that it sends in the background.
type Settler interface {
	// Settle returns when every cancellation begun before it has been sent, or has failed, or ctx ends.
	Settle(ctx context.Context)
}

// Pusher is a link that finds out after the handshake whether the server can send messages outside calls. Over other links it always can.
type Pusher interface {
	// Pushes reports whether the server has a stream for messages outside calls, as far as is known. It may wait for the server's
	// answer for a moment.
	Pushes() bool
	// Answered returns a channel that is closed when the server's answer is known; nil: it will not be.
	Answered() <-chan struct{}
}

// Stateful is a link that knows after the handshake whether the server keeps a session. Over other links it always does.
type Stateful interface {
	// HasSession reports whether the server has opened a session. Without one it can neither ask, nor notify, nor learn of a cancellation.
	HasSession() bool
}

// Channel is a link whose calls share one stream each way.
type Channel interface {
	// InFlight returns the number of calls that wait for their response.
	InFlight() int
}

// As returns an optional interface of a link, or of the link that it wraps: a wrapper has the method Under() Link.
func As[T any](l Link) (as T, ok bool) {
	for l != nil {
		if as, ok = l.(T); ok {
			return as, true
		}
		front, wraps := l.(interface{ Under() Link })
		if !wraps {
			break
		}
		l = front.Under()
	}
	return as, false
}

// RepliesAs returns an optional interface of the replies to a call, or of the replies that they wrap: a wrapper has the method
// Under() proxy.Replies.
func RepliesAs[T any](r proxy.Replies) (as T, ok bool) {
	for r != nil {
		if as, ok = r.(T); ok {
			return as, true
		}
		front, wraps := r.(interface{ Under() proxy.Replies })
		if !wraps {
			break
		}
		r = front.Under()
	}
	return as, false
}

// Reusable is a link to a process that can serve another conversation.
type Reusable interface {
	// Return ends the link and gives its process back, for the next Dial of either era. Calls on the link fail, and the server is not
	// told. It reports false if the process has ended; the link must be closed then. A process that no Dial takes is stopped after
	// idle; 0: it is kept.
	Return(idle time.Duration) bool
	// Returned reports whether the process has served another conversation.
	Returned() bool
	// Waits reports whether the process has read all that was sent to it, and so whether it is silent or still starting; known is false
	// if the system does not tell.
	Waits() (waits, known bool)
}

// LastWords returns the last output of a process beside the protocol as the end of a sentence; empty for other links.
func LastWords(l Link) string {
	if w, ok := As[interface{ LastWords() string }](l); ok {
		return w.LastWords()
	}
	return ""
}

// Ref refers to a link that may not exist yet: a sink may receive messages before Dial has returned the link. The zero value is ready.
type Ref struct{ l atomic.Pointer[Link] }

// Set sets the link.
func (r *Ref) Set(l Link) { r.l.Store(&l) }

// Get returns the link; nil if Dial has not returned it.
func (r *Ref) Get() Link {
	if l := r.l.Load(); l != nil {
		return *l
	}
	return nil
}

// Server describes one server and how to reach it.
type Server struct {
	Name         string        // in the configuration, for errors
	Self         []byte        // Dragoman's own clientInfo, raw JSON
	Wires        Wires         // the ways to reach it
	Timeout      time.Duration // limit for each step of a probe, and for other requests of Dragoman's own
	StartTimeout time.Duration // limit for a process's first answer
}

// HandshakeTimeout returns the limit for a handshake: a process must be started first, perhaps by a package runner that downloads it.
func (s *Server) HandshakeTimeout() time.Duration {
	if s.Wires.Stdio {
		return max(s.StartTimeout+time.Second, s.Timeout) // the link fails first, with the output of the process
	}
	return s.Timeout
}

// Within restricts the handshakes of a legacy Dial to the revisions of a set: initialize asks for one of them and fails with BadAnswer if
// the server settles on another. Optional interfaces of the link stay available through As. A nil Dial stays nil.
func Within(a rules.Allowed, dial Dial) Dial {
	if dial == nil || a.AllLegacy() {
		return dial
	}
	return func(ctx context.Context, sink Sink) (Link, error) {
		link, err := dial(ctx, sink)
		if err != nil {
			return nil, err
		}
		return pinned{link, a}, nil
	}
}

// pinned is a link whose handshake is restricted.
type pinned struct {
	Link
	allowed rules.Allowed
}

// Under returns the wrapped link.
func (p pinned) Under() Link { return p.Link }

// Call implements Link.
func (p pinned) Call(ex *proxy.Exchange) (proxy.Replies, error) {
	m := &ex.Msg
	if !m.Is("initialize") {
		return p.Link.Call(ex)
	}
	if _, err := m.Settle(nil); err != nil { // the revision may have been edited already, and can be edited once only
		return nil, proxy.Errf(proxy.Internal, "an edited initialize is no message: %w", err)
	}
	requested := string(m.Text(m.ParamsVersion))
	if v := p.allowed.Settle(requested); v != requested && m.ParamsVersion.Present() {
		m.Replace(m.ParamsVersion, wire.AppendText(nil, v))
	}
	replies, err := p.Link.Call(ex)
	if err != nil {
		return nil, err
	}
	return handshake{replies, p.allowed}, nil
}

// handshake is the replies to initialize.
type handshake struct {
	proxy.Replies
	allowed rules.Allowed
}

// Next implements proxy.Replies.
func (h handshake) Next(until time.Time) (*wire.Message, error) {
	m, err := h.Replies.Next(until)
	if err != nil || m.Kind != wire.Result {
		return m, err
	}
	if v := wire.Get(m.Raw, m.Result, "protocolVersion"); v.IsString(m.Raw) && !h.allowed.Has(string(v.Text(m.Raw))) {
		return nil, proxy.Errf(proxy.BadAnswer, "the upstream server settled on revision %s, which upstreams.NAME.eras excludes", v.Text(m.Raw))
	}
	return m, nil
}

// NewExchange returns an exchange of Dragoman's own for a raw message, as of a client of the given era.
func NewExchange(era proxy.Era, raw []byte) (*proxy.Exchange, error) {
	m, err := wire.Scan(raw)
	if err != nil {
		return nil, err
	}
	return &proxy.Exchange{Msg: m, Client: proxy.Client{Era: era}}, nil
}

// Ask sends a request over a link and waits for its response until ctx ends. An exchange without forwarded headers gets those of ctx
// ([proxy.ForwardedFrom]). An error response is no error. At the deadline of ctx the error is UpstreamTimeout.
func Ask(ctx context.Context, link Link, ex *proxy.Exchange) (wire.Message, error) {
	if ex.Caller.Forwarded == nil {
		ex.Caller.Forwarded = proxy.ForwardedFrom(ctx)
	}
	defer ex.Follow(ctx)()
	var m wire.Message
	replies, err := link.Call(ex) // some links wait for the response here
	if err == nil {
		until, _ := ctx.Deadline()
		m, err = proxy.Response(replies, until)
	}
	cut := errors.Is(err, proxy.ErrCancelled) && errors.Is(ctx.Err(), context.DeadlineExceeded) // both end at the same time
	if errors.Is(err, proxy.ErrNotYet) || errors.Is(err, context.DeadlineExceeded) || cut {
		return m, proxy.Errf(proxy.UpstreamTimeout, "no answer to %s in time%s", ex.Msg.Text(ex.Msg.Method), LastWords(link))
	}
	return m, err
}

// AskLegacy is Ask for a raw request of Dragoman's own to a legacy server.
func AskLegacy(ctx context.Context, link Link, raw []byte) (wire.Message, error) {
	ex, err := NewExchange(proxy.Legacy, raw)
	if err != nil {
		return wire.Message{}, err
	}
	return Ask(ctx, link, ex)
}

// Discard is a Sink that drops all messages.
type Discard struct{}

// Message implements Sink.
func (Discard) Message(*wire.Message) bool { return false }

// Lost implements Sink.
func (Discard) Lost(error) {}

// Along cancels Inner together with the exchange that it is attached to.
type Along struct{ Inner *proxy.Exchange }

// Abort implements proxy.Aborter.
func (a Along) Abort() { a.Inner.Cancel(proxy.ErrCancelled) }

// Pending tracks the messages that a link sends in the background. It implements Settler for links that embed it. The zero value is
// ready.
type Pending struct {
	mu    sync.Mutex
	under []chan struct{}
}

// Begin adds one message; done, which must be called once, removes it when it has been sent or given up.
func (e *Pending) Begin() (done func()) {
	c := make(chan struct{})
	e.mu.Lock()
	defer e.mu.Unlock()
	e.under = append(e.under, c)
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.under = slices.DeleteFunc(e.under, func(o chan struct{}) bool { return o == c })
		close(c)
	}
}

// Settle implements Settler.
func (e *Pending) Settle(ctx context.Context) {
	e.mu.Lock()
	all := slices.Clone(e.under)
	e.mu.Unlock()
	for _, c := range all {
		select {
		case <-c:
		case <-ctx.Done():
			return
		}
	}
}
