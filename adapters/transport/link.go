package transport

import (
	"context"
	"errors"
	"sync"

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

// Settler is a link that can wait for the cancellations that it sends in the background.
type Settler interface {
	// Settle returns when every cancellation begun before it has been sent, or has failed, or ctx ends.
	Settle(ctx context.Context)
}

// Pusher is a link that knows after the handshake whether the server can send messages outside calls. Over other links it always can.
type Pusher interface {
	// Pushes reports whether the server has a stream for messages outside calls.
	Pushes() bool
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

// LastWords returns the last output of a process beside the protocol as the end of a sentence; empty for other links.
func LastWords(l Link) string {
	if w, ok := As[interface{ LastWords() string }](l); ok {
		return w.LastWords()
	}
	return ""
}

// Ref refers to a link that may not exist yet: a sink may receive messages before Dial has returned the link. The zero value is ready.
type Ref struct {
	mu sync.Mutex
	l  Link
}

// Set sets the link.
func (r *Ref) Set(l Link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.l = l
}

// Get returns the link; nil if Dial has not returned it.
func (r *Ref) Get() Link {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.l
}
