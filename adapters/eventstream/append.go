package eventstream

import (
	"bytes"
	"strconv"
)

// Append appends one event to dst and returns the extended dst.
//
// An empty name writes no event line, which readers take for "message". A nil id writes no id line. An empty id that is
// not nil writes an empty line, which makes a reader forget the last id. data may hold any bytes: each LF, CR or CRLF in
// it begins a further data line, so that nothing can be injected, and readers get LF in its place. Every line has a
// colon, even `data:` without a value, because the Go SDK refuses lines without one.
//
// CR, LF and NUL cannot be expressed in a name or an id. They are dropped from a name. An id with one of them is left
// out: a changed id would resume another stream, a missing one only prevents resuming.
func Append(dst []byte, name string, id, data []byte) []byte {
	if name != "" {
		dst = append(dst, "event: "...)
		for i := range len(name) {
			if c := name[i]; c != '\r' && c != '\n' && c != 0 {
				dst = append(dst, c)
			}
		}
		dst = append(dst, '\n')
	}
	if id != nil && !bytes.ContainsAny(id, "\r\n\x00") {
		dst = appendField(dst, "id:", id)
	}
	dst = appendData(dst, data)
	return append(dst, '\n')
}

// AppendMessage appends data as an event named message, the form of one JSON-RPC message, and returns the extended dst.
// It costs one copy if data has no line break, as in compact JSON.
//
// The name is sent although it is the default: revision 2024-11-05 shows it, every official client accepts it, and a few
// clients listen for it by name.
func AppendMessage(dst, data []byte) []byte {
	dst = append(dst, "event: message\n"...)
	dst = appendData(dst, data)
	return append(dst, '\n')
}

// MessageBegins and MessageEnds are what AppendMessage writes before and after data that is not empty and has no line
// breaks.
var (
	MessageBegins = []byte("event: message\ndata: ")
	MessageEnds   = []byte("\n\n")
)

// KeepAlive is a comment, which readers ignore, with a blank line, with which they process it at once. It must stand
// between events, never inside one.
const KeepAlive = ": keep-alive\n\n"

// AppendRetry appends a retry field, the delay in milliseconds before a client reconnects, and returns the extended dst.
// The field belongs to the event that is appended next, and both should be sent in one write (2025-11-25, transports,
// "Sending Messages").
func AppendRetry(dst []byte, ms int) []byte {
	dst = append(dst, "retry: "...)
	dst = strconv.AppendInt(dst, int64(ms), 10)
	return append(dst, '\n')
}

// appendData writes data as data lines, one for each of its lines.
func appendData(dst, data []byte) []byte {
	if bytes.IndexByte(data, '\n') < 0 && bytes.IndexByte(data, '\r') < 0 {
		return appendField(dst, "data:", data)
	}
	lf := -1 // index of the next LF, kept so that many CRs do not repeat the search
	for from := 0; ; {
		if lf < from {
			lf = indexFrom(data, from, '\n')
		}
		end := lf
		if cr := bytes.IndexByte(data[from:lf], '\r'); cr >= 0 {
			end = from + cr
		}
		dst = appendField(dst, "data:", data[from:end])
		if end == len(data) {
			return dst
		}
		from = end + 1
		if data[end] == '\r' && from == lf && lf < len(data) {
			from++
		}
	}
}

// indexFrom returns the index of c in b at or after from; len(b) if there is none.
func indexFrom(b []byte, from int, c byte) int {
	if at := bytes.IndexByte(b[from:], c); at >= 0 {
		return from + at
	}
	return len(b)
}

// appendField writes one line. An empty value gets no space after the colon; readers remove exactly one space.
func appendField(dst []byte, name string, value []byte) []byte {
	dst = append(dst, name...)
	if len(value) > 0 {
		dst = append(dst, ' ')
		dst = append(dst, value...)
	}
	return append(dst, '\n')
}
