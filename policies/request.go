package policies

import (
	"errors"
	"io"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// About names the tool, prompt or resource of a request, as wire.Shown does; empty if it has none.
func About(m *wire.Message) string { return string(AboutBytes(m)) }

// AboutBytes is About, without a copy of what can be shown as it is: the result is borrowed from the message.
func AboutBytes(m *wire.Message) []byte {
	s := m.Name
	if !s.Present() {
		s = m.URI
	}
	text := m.Text(s)
	if wire.IsShown(text) {
		return text
	}
	return []byte(wire.Shown(text))
}

// Unanswered is the reason why replies were closed before a response came: the cause of the exchange's end, its time limit, or the
// client's leaving.
func Unanswered(ex *proxy.Exchange) error {
	switch why := ex.Err(); {
	case why != nil:
		return why
	case ex.Late():
		return proxy.Overdue(ex.Limit())
	}
	return proxy.ErrCancelled
}

// Pending reports whether the error of a Next leaves the outcome of its request open: no reply has come yet, or all have come before.
func Pending(err error) bool { return err != nil && pending(err) } // cheap for the usual case: it is inlined

func pending(err error) bool { return errors.Is(err, proxy.ErrNotYet) || errors.Is(err, io.EOF) }

// HTTPStatus is the status with which a server answered, from an error's chain; 0 if there is none.
func HTTPStatus(err error) int {
	var s interface{ HTTPStatus() int }
	if errors.As(err, &s) {
		return s.HTTPStatus()
	}
	return 0
}

// perAttempt are the members of _meta that a sender makes anew for each attempt (2026-07-28 basic, _meta).
var perAttempt = [...]string{"progressToken", "traceparent", "tracestate", "baggage"}

// VariesByAttempt reports whether a member of _meta differs between two attempts at the same request.
func VariesByAttempt(raw []byte, key wire.Span) bool {
	for _, k := range perAttempt {
		if key.Is(raw, k) {
			return true
		}
	}
	return false
}
