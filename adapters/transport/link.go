package transport

import (
	"context"
	"errors"
	"sync"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Link is one conversation with a server over some transport. What the transport has of its own (session ids, headers,
// streams, ids that must be unique on a shared channel) it does by itself, from the messages that pass: a legacy HTTP
// link remembers the session id of an initialize result and opens its GET stream after notifications/initialized.
type Link interface {
	// Call sends the exchange's message, a request, with its edits, and returns its replies. The link restores what it
	// changed on the way (ids, progress tokens). Cancelling the exchange, and closing the replies before the response,
	// cancels the call at the server, in the way of the transport. Errors: *proxy.Error; a *StatusError inside it if the
	// server answered in HTTP but not in JSON-RPC.
	Call(ex *proxy.Exchange) (proxy.Replies, error)
	// Send sends a notification, or an answer to a question of the server.
	Send(ctx context.Context, msg []byte) error
	// Close ends the conversation and gives everything back. The sink's Lost is not called for it.
	Close() error
}

// Sink receives what a server sends outside any call.
type Sink interface {
	// Message takes a notification or a question that belongs to no call, as far as the transport can tell. It is
	// borrowed until Message returns; Message does not wait. False means that nobody needs it: the transport may then
	// give it to a call it could belong to.
	Message(m *wire.Message) bool
	// Lost says that the link is dead. It is called at most once, and not after Close.
	Lost(err error)
}

// Dial opens a link; nothing is sent to the server yet.
type Dial func(ctx context.Context, sink Sink) (Link, error)

// Wires are the ways to reach one server. A stdio server has the same Dial for both eras, each call of which starts a
// process, and no SSE.
type Wires struct {
	Modern Dial // 2026-07-28; nil: not to be tried
	Legacy Dial // 2025-03-26 … 2025-11-25 over HTTP, or any legacy revision over stdio; nil: not to be tried
	SSE    Dial // HTTP+SSE of 2024-11-05; nil: not to be tried
	// Stdio says that a link is a process, or a conversation like one with a process: it has one client, and one era, for its
	// life.
	Stdio bool
	// Remote says that such a link is a connection to a server that others run. After a connection is lost, and while none is
	// open, the server may be replaced by another.
	Remote bool
	// Certain says that nothing needs to be probed: a server that answers on the modern wire is modern. The error of one that
	// does not is then reported as it is.
	Certain bool
	// Mirrors says that the modern wire mirrors parameters into headers (HTTP): the link takes them from Exchange.Headers.
	Mirrors bool
}

// ErrFatal marks an error of a Dial that trying another wire cannot mend: a command that does not exist.
var ErrFatal = errors.New("era: no further step helps")

// Settler is a link that can wait for what it sends by itself: the cancellations of calls.
type Settler interface {
	// Settle returns when every cancellation begun before it has been sent, or has failed, or ctx ends.
	Settle(ctx context.Context)
}

// Pusher is a link that may find, once the handshake is over, that the server will send nothing outside calls. Over any other
// link it may send at any time.
type Pusher interface {
	// Pushes reports whether the server has a stream for what belongs to no call.
	Pushes() bool
}

// Channel is a link whose calls share one stream each way.
type Channel interface {
	// InFlight is how many calls wait for their response.
	InFlight() int
}

// As finds an optional interface of a link, also of one that another link wraps: a wrapper has the method Under() Link.
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

// LastWords is what a process wrote last beside the protocol, as the end of a sentence; empty for other links.
func LastWords(l Link) string {
	if w, ok := As[interface{ LastWords() string }](l); ok {
		return w.LastWords()
	}
	return ""
}

// Ref refers to a link that does not exist yet: a server may speak before Dial has returned the link, so that the sink needs
// one. The zero value is ready.
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
