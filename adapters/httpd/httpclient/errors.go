package httpclient

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed is returned by a Host after Close, and by a Response after its end.
	ErrClosed = errors.New("httpd: closed")
	// ErrAborted is returned by a blocked or later read of a Response that was aborted.
	ErrAborted = errors.New("httpd: aborted")
	// ErrTooManyConns is returned by Send when HostOptions.MaxConns connections are in use. Nothing was written.
	ErrTooManyConns = errors.New("httpd: too many upstream connections")
)

// DialError reports that no connection could be made. Nothing was sent: the request may be sent elsewhere or again.
type DialError struct {
	Addr string // without credentials
	Err  error
}

func (e *DialError) Error() string { return fmt.Sprintf("httpd: connect to %s: %v", e.Addr, e.Err) }

func (e *DialError) Unwrap() error { return e.Err }

// WriteError reports that a request could not be written whole. If Wrote is false the kernel took no byte of it, so the server cannot
// have seen it; otherwise it may have been processed.
type WriteError struct {
	Wrote bool
	Err   error
}

func (e *WriteError) Error() string { return fmt.Sprintf("httpd: write request: %v", e.Err) }

func (e *WriteError) Unwrap() error { return e.Err }

// ReadError reports that the connection failed before the response was complete: the request may have been processed. Reused is set if
// the connection had served other requests, Started if at least a byte of the response had arrived.
type ReadError struct {
	Reused, Started bool
	Err             error
}

func (e *ReadError) Error() string { return fmt.Sprintf("httpd: read response: %v", e.Err) }

func (e *ReadError) Unwrap() error { return e.Err }

// Unsent reports whether err, from Send or a Response, proves that the server cannot have seen the request, so that even a request
// that is not idempotent may be sent again (RFC 9110 §9.2.2).
func Unsent(err error) bool {
	_, dial := errors.AsType[*DialError](err)
	write, ok := errors.AsType[*WriteError](err)
	return dial || ok && !write.Wrote || errors.Is(err, ErrTooManyConns)
}
