package transport

import (
	"errors"
	"fmt"

	"dragoman/proxy"
)

// StatusError is an HTTP answer that is no JSON-RPC message, as an error.
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

// HTTPStatus returns the status, for policies that judge a server by it.
func (e *StatusError) HTTPStatus() int { return e.Status }

// Unauthorized returns the StatusError in err if its status is 401 or 403; otherwise nil.
func Unauthorized(err error) *StatusError {
	var s *StatusError
	if errors.As(err, &s) && (s.Status == 401 || s.Status == 403) {
		return s
	}
	return nil
}

// StatusFault returns the error that a client receives for a StatusError.
func StatusFault(s *StatusError) *proxy.Error {
	f := proxy.HTTPStatus
	hint := ""
	switch s.Status {
	case 401, 403:
		f, hint = proxy.Refused, "; set the credentials in upstreams.NAME.headers, or pass the client's on with forward_headers"
	case 429, 503:
		f = proxy.Overloaded
	}
	e := proxy.Errf(f, "the upstream server answered %w%s", s, hint)
	e.RetryAfter = s.RetryAfter
	return e
}
