package telemetry

import (
	"bytes"
	"strings"

	"dragoman/policies"
	"dragoman/proxy/wire"
)

// What of arguments goes into the audit trail.
const (
	ArgumentsNone     = "none"
	ArgumentsKeys     = "keys"     // the names of the outermost
	ArgumentsRedacted = "redacted" // all, but what secrets are expected in
	ArgumentsFull     = "full"     // all
)

// Arguments says what of arguments goes into the audit trail.
type Arguments struct {
	What   string   // one of the words above
	Redact []string // parts of names whose values are left out, see NewArguments
	Value  int      // bytes of one text; what is longer is cut
	Bytes  int      // of all; what comes then is left out
}

// NewArguments prepares names: a name is one if it contains one of these parts, whatever its case, and without regard to what is
// neither letter nor digit: "api_key" is in X-API-Key and in apiKeys.
func NewArguments(a Arguments) Arguments {
	parts := make([]string, 0, len(a.Redact))
	for _, p := range a.Redact {
		if p = string(bare(nil, []byte(p))); p != "" {
			parts = append(parts, p)
		}
	}
	a.Redact = parts
	return a
}

// bare is a name in small letters without what is neither letter nor digit. What is not ASCII stays.
func bare(dst, name []byte) []byte {
	for _, c := range bytes.ToLower(name) {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c >= 0x80 {
			dst = append(dst, c)
		}
	}
	return dst
}

// secret tells whether values of a name are left out.
func (a *Arguments) secret(name []byte) bool {
	if a.What != ArgumentsRedacted {
		return false
	}
	plain := string(bare(nil, name[:min(len(name), maxSaid)]))
	for _, part := range a.Redact {
		if strings.Contains(plain, part) {
			return true
		}
	}
	return false
}

// telling are how values begin that are credentials, whatever they are called.
var telling = [...]string{"bearer ", "basic ", "-----begin ", strings.ToLower(policies.KeyPrefix)}

// credential tells whether a text shows by itself that it is one.
func (a *Arguments) credential(text []byte) bool {
	if a.What != ArgumentsRedacted {
		return false
	}
	for _, begin := range telling {
		if len(text) >= len(begin) && bytes.EqualFold(text[:len(begin)], []byte(begin)) {
			return true
		}
	}
	return false
}

const (
	redactedText = `"[redacted]"`
	cutText      = `"[cut]"` // stands for what there was no room for
	maxNesting   = 32        // objects and arrays in one another
)

// append writes the members of a line that are about arguments.
func (a *Arguments) append(b, raw []byte, s wire.Span) []byte {
	switch a.What {
	case ArgumentsNone, "":
		return b
	case ArgumentsKeys:
		return a.appendKeys(append(b, `,"argumentKeys":`...), raw, s)
	}
	b = append(b, `,"arguments":`...)
	return a.value(b, len(b)+a.Bytes, raw, s, 0)
}

func (a *Arguments) appendKeys(b, raw []byte, s wire.Span) []byte {
	limit := len(b) + a.Bytes
	b = append(b, '[')
	if s.IsObject(raw) {
		for key := range wire.Members(raw, s) {
			if b[len(b)-1] != '[' {
				b = append(b, ',')
			}
			if len(b) > limit {
				b = append(b, cutText...)
				break
			}
			b = a.text(b, key.Text(raw))
		}
	}
	return append(b, ']')
}

// value writes one value; from limit on nothing is written but that something is missing.
func (a *Arguments) value(b []byte, limit int, raw []byte, s wire.Span, depth int) []byte {
	if len(b) >= limit || depth > maxNesting {
		return append(b, cutText...)
	}
	of := s.Of(raw)
	switch of[0] {
	case '"':
		text := s.Text(raw)
		if a.credential(text) {
			return append(b, redactedText...)
		}
		return a.text(b, text)
	case '{':
		b = append(b, '{')
		for key, value := range wire.Members(raw, s) {
			if b[len(b)-1] != '{' {
				b = append(b, ',')
			}
			if len(b) >= limit {
				b = append(append(append(b, cutText...), ':'), "true"...)
				break
			}
			name := key.Text(raw)
			b = append(a.text(b, name), ':')
			if a.secret(name) {
				b = append(b, redactedText...)
				continue
			}
			b = a.value(b, limit, raw, value, depth+1)
		}
		return append(b, '}')
	case '[':
		b = append(b, '[')
		for i, value := range wire.Items(raw, s) {
			if i > 0 {
				b = append(b, ',')
			}
			if len(b) >= limit {
				b = append(b, cutText...)
				break
			}
			b = a.value(b, limit, raw, value, depth+1)
		}
		return append(b, ']')
	}
	if len(of) > a.Value { // a number of many digits
		return append(b, cutText...)
	}
	return append(b, of...)
}

// text writes a text, or how it begins.
func (a *Arguments) text(b, text []byte) []byte {
	if len(text) <= a.Value {
		return wire.AppendText(b, text)
	}
	cut := a.Value
	for cut > 0 && text[cut]&0xc0 == 0x80 { // not within a character
		cut--
	}
	b = wire.AppendText(b, text[:cut])
	return append(b[:len(b)-1], `…"`...)
}
