package telemetry

import (
	"bytes"

	"dragoman/proxy"
)

const (
	maxRequestID   = 128     // characters of a client's X-Request-Id
	maxTraceparent = 128     // bytes; version 00 has 55, and later ones may have more
	maxTracestate  = 1 << 10 // W3C Trace Context asks for 512 at least
	maxBaggage     = 8 << 10 // W3C Baggage asks for that
)

// Correlate makes the gate that gives each request its correlation id: the client's X-Request-Id, if there is one of up to 128 visible
// ASCII characters, else one that is made. With traced it also takes the trace context of the head along. It refuses nothing: what is
// malformed is as if it had not come. It stands before all gates, so that refusals have an id too.
func Correlate(traced bool) proxy.Gate {
	return func(h *proxy.Head) *proxy.Error {
		a := h.Arrived()
		if lines := h.Fields.PeekAll("X-Request-Id"); len(lines) == 1 && isRequestID(lines[0]) {
			a.Correlate(string(lines[0]))
		} else {
			a.Correlate("")
		}
		if traced {
			a.Trace = traceOf(h.Fields)
		}
		return nil
	}
}

// isRequestID tells whether a client's id may be said again, in headers and logs.
func isRequestID(id []byte) bool {
	return len(id) > 0 && len(id) <= maxRequestID && !bytes.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' })
}

// traceOf takes the trace context of a head, bounded; nil if there is none. Several traceparents are none (W3C Trace Context,
// Processing Model); lines of the others make one list (RFC 9110 §5.3).
func traceOf(fields proxy.Fields) *proxy.Trace {
	var t proxy.Trace
	if lines := fields.PeekAll("Traceparent"); len(lines) == 1 {
		t.Parent = bounded(lines[0], maxTraceparent)
	}
	if t.Parent != "" {
		t.State = bounded(joined(fields.PeekAll("Tracestate")), maxTracestate)
	}
	if t.Baggage = bounded(joined(fields.PeekAll("Baggage")), maxBaggage); t == (proxy.Trace{}) {
		return nil
	}
	return &t
}

func joined(lines [][]byte) []byte {
	if len(lines) == 1 {
		return lines[0]
	}
	return bytes.Join(lines, []byte(","))
}

// bounded is a text of at most so many bytes of printable ASCII, which is all that trace context is made of; empty if it is none.
func bounded(text []byte, most int) string {
	if len(text) > most || bytes.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		return ""
	}
	return string(bytes.TrimSpace(text))
}
