package transport

import (
	"errors"
	"fmt"

	"dragoman/proxy"
)

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

// HTTPStatus is the status, for policies that judge a server by it.
func (e *StatusError) HTTPStatus() int { return e.Status }

// Unauthorized finds the StatusError of a server that wants other credentials, or any; nil if err has none.
func Unauthorized(err error) *StatusError {
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
