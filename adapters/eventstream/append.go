package eventstream

import (
	"bytes"
	"strconv"
	"strings"
)

// Append writes one event and returns the extended dst.
//
// An empty name writes no event line, which readers take for "message". A nil id
// writes no id line; an id that is empty but not nil writes an empty one, which
// makes a reader forget the last id. data may hold any bytes: LF, CR and CRLF in
// it each begin a further data line, so that nothing can be injected, and a
// reader gets LF in their place. Every line carries its colon, `data:` of an
// empty value too, because the Go SDK refuses lines without one.
//
// CR, LF and NUL cannot be expressed in a name or an id. They are dropped from a
// name; an id that has one is left out whole, since a changed id would resume
// another stream while a missing one merely cannot be resumed from.
func Append(dst []byte, name string, id, data []byte) []byte {
	if name != "" {
		dst = append(dst, "event: "...)
		dst = appendClean(dst, name, false)
		dst = append(dst, '\n')
	}
	if id != nil && !bytes.ContainsAny(id, "\r\n\x00") {
		dst = appendField(dst, "id:", id)
	}
	dst = appendData(dst, data)
	return append(dst, '\n')
}

// AppendMessage writes data as an event named message and returns the extended
// dst: the form of one JSON-RPC message. Without a line break in data, which is
// what compact JSON looks like, it costs one copy.
//
// The name is sent although it is the default: the 2024-11-05 revision shows it,
// every official client accepts it, and a few listeners wait for it by name.
func AppendMessage(dst, data []byte) []byte {
	dst = append(dst, "event: message\n"...)
	dst = appendData(dst, data)
	return append(dst, '\n')
}

// MessageBegins and MessageEnds are what AppendMessage writes before and behind data without line breaks, and not empty.
var (
	MessageBegins = []byte("event: message\ndata: ")
	MessageEnds   = []byte("\n\n")
)

// AppendComment writes a comment with the blank line that lets a reader pass it
// on at once, and returns the extended dst. Readers ignore it: it keeps idle
// connections alive. Line breaks in text become spaces. It must stand between
// events, never inside one.
func AppendComment(dst []byte, text string) []byte {
	dst = append(dst, ':')
	if text != "" {
		dst = append(dst, ' ')
		dst = appendClean(dst, text, true)
	}
	return append(dst, '\n', '\n')
}

// AppendRetry writes a retry field, the time in milliseconds that a client waits
// before it reconnects, and returns the extended dst. The field belongs to the
// event that is appended next, which should be written with it (2025-11-25,
// transports, "Sending Messages"). A negative time writes nothing.
func AppendRetry(dst []byte, ms int) []byte {
	if ms < 0 {
		return dst
	}
	dst = append(dst, "retry: "...)
	dst = strconv.AppendInt(dst, int64(ms), 10)
	return append(dst, '\n')
}

// appendData writes data as data lines, one for each line of it.
func appendData(dst, data []byte) []byte {
	if bytes.IndexByte(data, '\n') < 0 && bytes.IndexByte(data, '\r') < 0 {
		return appendField(dst, "data:", data)
	}
	lf := -1 // the next LF, kept so that many CRs do not search for it anew
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

// indexFrom finds c in b at or after from; len(b) if there is none.
func indexFrom(b []byte, from int, c byte) int {
	if at := bytes.IndexByte(b[from:], c); at >= 0 {
		return from + at
	}
	return len(b)
}

// appendField writes one line. The space after the colon is left away where the
// value is empty; a reader takes away exactly one.
func appendField(dst []byte, name string, value []byte) []byte {
	dst = append(dst, name...)
	if len(value) > 0 {
		dst = append(dst, ' ')
		dst = append(dst, value...)
	}
	return append(dst, '\n')
}

// appendClean writes text without CR, LF and NUL, or with spaces instead.
func appendClean(dst []byte, text string, space bool) []byte {
	if !strings.ContainsAny(text, "\r\n\x00") {
		return append(dst, text...)
	}
	for i := range len(text) {
		switch c := text[i]; {
		case c != '\r' && c != '\n' && c != 0:
			dst = append(dst, c)
		case space:
			dst = append(dst, ' ')
		}
	}
	return dst
}
