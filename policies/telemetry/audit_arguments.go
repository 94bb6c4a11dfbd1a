package telemetry

import (
	"bytes"
	"strings"

	"dragoman/policies"
	"dragoman/proxy/wire"
)

// Values of [Arguments.What].
const (
	ArgumentsNone     = "none"
	ArgumentsKeys     = "keys"     // the names of the top-level members
	ArgumentsRedacted = "redacted" // everything but the values that are likely to be secrets
	ArgumentsFull     = "full"     // all
)

// Arguments says how much of a call's arguments goes into the audit trail.
type Arguments struct {
	What   string   // one of the constants above
	Redact []string // parts of names whose values are redacted, see NewArguments
	Value  int      // longest text, in bytes; the rest is cut
	Bytes  int      // longest output, in bytes; the rest is left out
}

// NewArguments returns a with normalised parts of names in Redact. A name matches if it contains one of the parts,
// ignoring case and everything but letters and digits: "api_key" matches X-API-Key and apiKeys.
func NewArguments(a Arguments) Arguments {
	parts := make([]string, 0, len(a.Redact))
	for _, p := range a.Redact {
		if p = string(normalised(nil, []byte(p))); p != "" {
			parts = append(parts, p)
		}
	}
	a.Redact = parts
	return a
}

// normalised appends name to dst in lower case, without ASCII characters that are neither letters nor digits.
func normalised(dst, name []byte) []byte {
	for _, c := range bytes.ToLower(name) {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c >= 0x80 {
			dst = append(dst, c)
		}
	}
	return dst
}

// isSecret reports whether the values of a name are redacted.
func (a *Arguments) isSecret(name []byte) bool {
	if a.What != ArgumentsRedacted {
		return false
	}
	plain := string(normalised(nil, name[:min(len(name), wire.MaxShown)]))
	for _, part := range a.Redact {
		if strings.Contains(plain, part) {
			return true
		}
	}
	return false
}

// credentialPrefixes lists how values begin that are credentials under any name.
var credentialPrefixes = [...]string{"bearer ", "basic ", "-----begin ", strings.ToLower(policies.KeyPrefix)}

// isCredential reports whether a text begins like a credential.
func (a *Arguments) isCredential(text []byte) bool {
	if a.What != ArgumentsRedacted {
		return false
	}
	for _, begin := range credentialPrefixes {
		if len(text) >= len(begin) && bytes.EqualFold(text[:len(begin)], []byte(begin)) {
			return true
		}
	}
	return false
}

const (
	redactedText = `"[redacted]"`
	cutText      = `"[cut]"` // replaces what did not fit
	maxNesting   = 32        // depth of nested objects and arrays
)

// append appends the members of an audit line that are about arguments.
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

// value appends one value. Where b has reached limit, it appends cutText instead.
func (a *Arguments) value(b []byte, limit int, raw []byte, s wire.Span, depth int) []byte {
	if len(b) >= limit || depth > maxNesting {
		return append(b, cutText...)
	}
	of := s.Of(raw)
	switch of[0] {
	case '"':
		text := s.Text(raw)
		if a.isCredential(text) {
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
			if a.isSecret(name) {
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

// text appends a text, cut to a.Value bytes.
func (a *Arguments) text(b, text []byte) []byte {
	if len(text) <= a.Value {
		return wire.AppendText(b, text)
	}
	cut := a.Value
	for cut > 0 && text[cut]&0xc0 == 0x80 { // do not cut within a character
		cut--
	}
	b = wire.AppendText(b, text[:cut])
	return append(b[:len(b)-1], `…"`...)
}
