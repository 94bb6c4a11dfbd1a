package era

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Link is one conversation with a server over some transport. What the transport has of its own (session ids, headers,
// streams, ids that must be unique on a shared channel) it does by itself, from the messages that pass: a legacy HTTP
// link remembers the session id of an initialize result and opens its GET stream after notifications/initialized.
type Link interface {
	// Call sends the exchange's message, a request, with its edits, and answers its replies. The link restores what it
	// changed on the way (ids, progress tokens). Cancelling the exchange, and closing the replies before the response,
	// cancels the call at the server, in the way of the transport. Errors: *proxy.Error; a *StatusError inside it if the
	// server answered in HTTP but not in JSON-RPC.
	Call(ex *proxy.Exchange) (proxy.Replies, error)
	// Send sends a notification, or an answer to a question of the server's.
	Send(ctx context.Context, msg []byte) error
	// Close ends the conversation and gives everything back. The sink's Lost is not called for it.
	Close() error
}

// Sink receives what a server sends outside any call.
type Sink interface {
	// Message takes a notification or a question that belongs to no call, as far as the transport can tell. It is
	// borrowed until Message returns; Message does not wait. False means that nobody wants it: the transport may then
	// give it to a call it could belong to.
	Message(m *wire.Message) bool
	// Lost says that the link is dead. It is called at most once, and not after Close.
	Lost(err error)
}

// linked is a link that its own sink knows: a server may speak before Dial has returned the link, so each side asks.
type linked struct {
	mu sync.Mutex
	l  Link
}

func (x *linked) set(l Link) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.l = l
}

// get answers the link; nil if Dial has not returned it.
func (x *linked) get() Link {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.l
}

// channel is a link whose calls share one stream each way.
type channel interface {
	// InFlight tells how many calls wait for their response.
	InFlight() int
}

// Settler is a link that can wait for what it sends by itself: the cancellations of calls.
type Settler interface {
	// Settle returns when every cancellation begun before it has been sent, or has failed, or ctx ends.
	Settle(ctx context.Context)
}

// Pusher is a link that may find, once the handshake is over, that the server will say nothing outside calls. Any other
// link can be told anything at any time.
type Pusher interface {
	// Pushes tells whether the server has a stream for what belongs to no call.
	Pushes() bool
}

// lastWords is what a process has said last beside the protocol, as the end of a sentence; empty if the link is none.
func lastWords(l Link) string {
	if w, ok := linkAs[interface{ LastWords() string }](l); ok {
		return w.LastWords()
	}
	return ""
}

// linkAs finds what a link can do besides, also if it stands behind another.
func linkAs[T any](l Link) (as T, ok bool) {
	for l != nil {
		if as, ok = l.(T); ok {
			return as, true
		}
		front, behind := l.(interface{ under() Link })
		if !behind {
			break
		}
		l = front.under()
	}
	return as, false
}

// Dial opens a link; nothing is said to the server yet.
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
	// Remote says that such a link is a connection to a server that others run. With a connection that is lost it may have
	// become another, and so it may while none is open.
	Remote bool
	// Certain says that there is nothing to find out: whoever answers on the modern wire is modern. Why nobody does is then all
	// there is to say.
	Certain bool
	// Mirrors says that the modern wire mirrors parameters into headers (HTTP): the link takes them from Exchange.Headers.
	Mirrors bool
}

// StatusError is an HTTP answer that is no JSON-RPC message.
type StatusError struct {
	Status     int
	Text       string // the beginning of the body, printable
	RetryAfter int    // seconds; 0: not given
}

// Error implements error.
func (e *StatusError) Error() string {
	if e.Text == "" {
		return fmt.Sprintf("HTTP %d without a body", e.Status)
	}
	return fmt.Sprintf("HTTP %d: %s", e.Status, e.Text)
}

// unauthorized finds the answer of a server that wants other credentials, or any; nil if the error is none.
func unauthorized(err error) *StatusError {
	var s *StatusError
	if errors.As(err, &s) && (s.Status == 401 || s.Status == 403) {
		return s
	}
	return nil
}

// StatusFault makes the error that a client sees of a StatusError.
func StatusFault(s *StatusError) *proxy.Error {
	f := proxy.HTTPStatus
	hint := ""
	switch {
	case s.Status == 401 || s.Status == 403:
		f, hint = proxy.Refused, "; set the credentials in upstreams.NAME.headers, or pass the client's on with forward_headers"
	case s.Status == 429 || s.Status == 503:
		f = proxy.Overloaded
	}
	e := proxy.Errf(f, "the upstream server answered %w%s", s, hint)
	e.RetryAfter = s.RetryAfter
	return e
}

// exchange makes an exchange of Dragoman's own.
func exchange(era proxy.Era, raw []byte) (*proxy.Exchange, error) {
	m, err := wire.Scan(raw)
	if err != nil {
		return nil, err
	}
	return &proxy.Exchange{Msg: m, Client: proxy.Client{Era: era}}, nil
}
