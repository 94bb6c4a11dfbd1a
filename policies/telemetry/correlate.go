package telemetry

import (
	"bytes"

	"dragoman/proxy"
)

const (
	maxRequestID   = 128     // characters of a client's X-Request-Id
	maxTraceparent = 128     // bytes; version 00 has 55, and later ones may have more
	maxTracestate  = 1 << 10 // W3C Trace Context requires 512 at least
	maxBaggage     = 8 << 10 // W3C Baggage requires as many
)

// Correlate returns the gate that gives each request its correlation id: the client's X-Request-Id if it has up to 128
// visible ASCII characters, else a new one. With traced it also reads the trace context from the head. It refuses
// nothing: malformed values count as absent. It runs before all other gates, so that refusals have an id too.
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

// isRequestID reports whether a client's id may be repeated in headers and logs.
func isRequestID(id []byte) bool {
	return len(id) > 0 && len(id) <= maxRequestID && !bytes.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' })
}

// traceOf reads the trace context of a head, within bounds; nil if there is none. Several traceparents count as none
// (W3C Trace Context, Processing Model). Several lines of the other headers make one list (RFC 9110, 5.3).
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

// bounded returns text if it has at most that many bytes, all of them printable ASCII as trace contexts require; else
// it returns "".
func bounded(text []byte, most int) string {
	if len(text) > most || bytes.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		return ""
	}
	return string(bytes.TrimSpace(text))
}
