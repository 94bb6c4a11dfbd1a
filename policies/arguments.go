package policies

import (
	"bytes"
	"strings"

	"dragoman/proxy/wire"
)

// Values of [Arguments.What].
const (
	ArgumentsNone     = "none"
	ArgumentsKeys     = "keys"     // the names of the top-level members
	ArgumentsRedacted = "redacted" // everything but the values that are likely to be secrets
	ArgumentsFull     = "full"     // all
)

// Arguments says how much of a call's arguments is shown: in the audit trail, and to the policy hook.
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
var credentialPrefixes = [...]string{"bearer ", "basic ", "-----begin ", strings.ToLower(KeyPrefix)}

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

// Append appends an object that a peer has sent, as a member of a JSON object with a comma before it: all is its name, and keys if only the
// names of the top-level members are shown. Nothing is appended if nothing is shown. cut reports whether something did not fit.
func (a *Arguments) Append(b []byte, all, keys string, raw []byte, s wire.Span) (_ []byte, cut bool) {
	w := shownArguments{Arguments: a}
	switch a.What {
	case ArgumentsNone, "":
		return b, false
	case ArgumentsKeys:
		b = append(wire.AppendText(append(b, ','), keys), ':')
		w.limit = len(b) + a.Bytes
		return w.keys(b, raw, s), w.cut
	}
	b = append(wire.AppendText(append(b, ','), all), ':')
	w.limit = len(b) + a.Bytes
	return w.value(b, raw, s, 0), w.cut
}

// shownArguments appends arguments.
type shownArguments struct {
	*Arguments
	limit int  // length of the output from which on nothing is shown
	cut   bool // something did not fit
}

func (w *shownArguments) keys(b, raw []byte, s wire.Span) []byte {
	b = append(b, '[')
	for key := range wire.Members(raw, s) {
		if b[len(b)-1] != '[' {
			b = append(b, ',')
		}
		if len(b) > w.limit {
			b = w.leaveOut(b)
			break
		}
		b = w.text(b, key.Text(raw))
	}
	return append(b, ']')
}

// leaveOut appends what stands for something that did not fit.
func (w *shownArguments) leaveOut(b []byte) []byte {
	w.cut = true
	return append(b, cutText...)
}

// value appends one value. Where b has reached the limit, it appends cutText instead.
func (w *shownArguments) value(b, raw []byte, s wire.Span, depth int) []byte {
	if len(b) >= w.limit || depth > maxNesting {
		return w.leaveOut(b)
	}
	of := s.Of(raw)
	switch of[0] {
	case '"':
		text := s.Text(raw)
		if w.isCredential(text) {
			return append(b, redactedText...)
		}
		return w.text(b, text)
	case '{':
		return w.object(b, raw, s, depth)
	case '[':
		b = append(b, '[')
		for i, value := range wire.Items(raw, s) {
			if i > 0 {
				b = append(b, ',')
			}
			if len(b) >= w.limit {
				b = w.leaveOut(b)
				break
			}
			b = w.value(b, raw, value, depth+1)
		}
		return append(b, ']')
	}
	if len(of) > w.Value { // a number of many digits
		return w.leaveOut(b)
	}
	return append(b, of...)
}

func (w *shownArguments) object(b, raw []byte, s wire.Span, depth int) []byte {
	b = append(b, '{')
	for key, value := range wire.Members(raw, s) {
		if b[len(b)-1] != '{' {
			b = append(b, ',')
		}
		if len(b) >= w.limit {
			b = append(w.leaveOut(b), ":true"...)
			break
		}
		name := key.Text(raw)
		b = append(w.text(b, name), ':')
		if w.isSecret(name) {
			b = append(b, redactedText...)
			continue
		}
		b = w.value(b, raw, value, depth+1)
	}
	return append(b, '}')
}

// text appends a text, cut to Value bytes.
func (w *shownArguments) text(b, text []byte) []byte {
	if len(text) <= w.Value {
		return wire.AppendText(b, text)
	}
	cut := w.Value
	for cut > 0 && text[cut]&0xc0 == 0x80 { // do not cut within a character
		cut--
	}
	w.cut = true
	b = wire.AppendText(b, text[:cut])
	return append(b[:len(b)-1], `…"`...)
}
