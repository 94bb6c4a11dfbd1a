package httpd

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed is returned by whatever was closed before it was used: a Host, an Answer after Close, a Held after its end.
	ErrClosed = errors.New("httpd: closed")
	// ErrAborted is returned by a blocked or later read of an Answer that was aborted.
	ErrAborted = errors.New("httpd: aborted")
	// ErrLeft is the reason of a Held whose peer closed its side or reset the connection.
	ErrLeft = errors.New("httpd: the peer left")
	// ErrSlowReader is the reason of a Held whose peer read too slowly for its queue.
	ErrSlowReader = errors.New("httpd: the peer does not read")
	// ErrShutdown is the reason of a Held ended by Server.Shutdown.
	ErrShutdown = errors.New("httpd: the server shuts down")
	// ErrTooManyStreams is returned by Hold when Options.MaxStreams streams are open.
	ErrTooManyStreams = errors.New("httpd: too many streams")
	// ErrTooManyConns is returned by Send when HostOptions.MaxConns connections are in use. Nothing was written.
	ErrTooManyConns = errors.New("httpd: too many upstream connections")
	// ErrNotOurs is returned for a request that did not come through a Server of this package.
	ErrNotOurs = errors.New("httpd: not a connection of this server")
)

// DialError tells that no connection could be made: nothing was sent, the request may be sent elsewhere or again.
type DialError struct {
	Addr string // where to, without credentials
	Err  error
}

func (e *DialError) Error() string { return fmt.Sprintf("httpd: connect to %s: %v", e.Addr, e.Err) }

// Unwrap returns the cause.
func (e *DialError) Unwrap() error { return e.Err }

// WriteError tells that a request could not be written whole. If Wrote is false not a byte of it was taken by the
// kernel, so the server cannot have seen it; else it may have been processed.
type WriteError struct {
	Wrote bool
	Err   error
}

func (e *WriteError) Error() string { return fmt.Sprintf("httpd: write request: %v", e.Err) }

// Unwrap returns the cause.
func (e *WriteError) Unwrap() error { return e.Err }

// ReadError tells that the connection failed before the answer was complete: the request may have been processed.
// Reused says that the connection had served others before, Started that at least a byte of the answer had arrived.
type ReadError struct {
	Reused, Started bool
	Err             error
}

func (e *ReadError) Error() string { return fmt.Sprintf("httpd: read response: %v", e.Err) }

// Unwrap returns the cause.
func (e *ReadError) Unwrap() error { return e.Err }

// MalformedError tells that a peer, or the caller, broke the HTTP grammar (RFC 9112). What says where.
type MalformedError struct{ What string }

func (e *MalformedError) Error() string { return "httpd: malformed " + e.What }

// TooLargeError tells that What ("response body", "response header") exceeded Limit bytes.
type TooLargeError struct {
	What  string
	Limit int
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("httpd: %s exceeds %d bytes", e.What, e.Limit)
}

// Unsent reports whether err, from Send or an Answer, proves that the server cannot have seen the request, so that even
// a request that is not idempotent may be sent again (RFC 9110 §9.2.2).
func Unsent(err error) bool {
	var dial *DialError
	var write *WriteError
	switch {
	case errors.Is(err, ErrTooManyConns), errors.As(err, &dial):
		return true
	case errors.As(err, &write):
		return !write.Wrote
	}
	return false
}
