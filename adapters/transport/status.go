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
	Location   string // where a redirect leads, printable, without its query
}

// ErrPage is in the chain of an error for an HTML page that stands where a JSON-RPC message should.
var ErrPage = errors.New("an HTML page")

// Error implements error.
func (e *StatusError) Error() string {
	switch {
	case e.Location != "":
		return fmt.Sprintf("HTTP %d, a redirect to %s", e.Status, e.Location)
	case e.Text == "":
		return fmt.Sprintf("HTTP %d without a body", e.Status)
	}
	return fmt.Sprintf("HTTP %d: %s", e.Status, e.Text)
}

// HTTPStatus returns the status, for policies that judge a server by it.
func (e *StatusError) HTTPStatus() int { return e.Status }

// Unauthorized returns the StatusError in err if it says that the server wants other credentials; otherwise nil.
func Unauthorized(err error) *StatusError {
	var s *StatusError
	if errors.As(err, &s) && s.refuses() && s.Status != proxyWants {
		return s
	}
	return nil
}

// Refusal is Unauthorized, and also returns the refusal of a proxy on the way.
func Refusal(err error) *StatusError {
	var s *StatusError
	if errors.As(err, &s) && s.refuses() {
		return s
	}
	return nil
}

// proxyWants is the status with which a proxy asks for credentials (RFC 9110 §15.5.8).
const proxyWants = 407

// refuses reports whether the answer is about credentials. A redirect by 302 or 303 makes a GET of a POST (RFC 9110 §15.4), so that it
// leads to a page, mostly one to sign in. Those by 301, 307 and 308 lead to a new address of the same thing.
func (e *StatusError) refuses() bool {
	switch e.Status {
	case 401, 403, proxyWants, 302, 303:
		return true
	}
	return false
}

// Advice returns what helps against the answer of the upstream of a name; empty if nothing is known to.
func (e *StatusError) Advice(name string) string {
	switch e.Status {
	case 401, 403:
		return "set the credentials in upstreams." + name + ".headers (--header), or pass the client's on with forward_headers"
	case proxyWants:
		return "a proxy on the way asks for credentials: write them into upstreams." + name + ".proxy, as http://USER:PASSWORD@HOST:PORT"
	case 302, 303:
		return "if that is a page to sign in, set the credentials in upstreams." + name + ".headers; if the server has moved, write its address into upstreams." + name + ".url"
	case 301, 307, 308:
		return "redirects are not followed: write the address that this one leads to into upstreams." + name + ".url"
	}
	return ""
}

// StatusFault returns the error that a client receives for a StatusError.
func StatusFault(s *StatusError) *proxy.Error {
	f := proxy.HTTPStatus
	switch {
	case s.refuses():
		f = proxy.Refused
	case s.Status == 429, s.Status == 503:
		f = proxy.Overloaded
	}
	hint := s.Advice("NAME")
	if hint != "" {
		hint = "; " + hint
	}
	e := proxy.Errf(f, "the upstream server answered %w%s", s, hint)
	e.RetryAfter = s.RetryAfter
	return e
}
