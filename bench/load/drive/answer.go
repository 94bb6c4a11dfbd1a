package drive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/goccy/go-json"

	"dragoman/proxy/wire"
)

// Kinds of wrong answers, besides "status NNN" and "error CODE".
const (
	kindTimeout    = "timeout"
	kindConnection = "connection" // broken or refused
	kindType       = "content type"
	kindMalformed  = "malformed"
	kindID         = "another id"
	kindTool       = "tool error" // a result with isError
	kindContent    = "other content"
	kindStream     = "incomplete stream"
	kindTooLarge   = "too large"
	kindHandshake  = "handshake"
)

// fault is an error in an answer.
type fault struct{ kind, text string }

func (f *fault) Error() string { return f.kind + ": " + f.text }

func faultf(kind, format string, args ...any) error {
	return &fault{kind, fmt.Sprintf(format, args...)}
}

const quoteLimit = 300 // bytes of a wrong answer in an example

func quote(b []byte) string {
	if len(b) > quoteLimit {
		return fmt.Sprintf("%q… (%d bytes)", b[:quoteLimit], len(b))
	}
	return strconv.Quote(string(b))
}

// broken makes a fault of the error of a connection.
func broken(err error) error {
	var f *fault
	var timeout interface{ Timeout() bool } // net.Error, and fasthttp's error
	switch {
	case errors.As(err, &f):
		return err
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, os.ErrDeadlineExceeded):
		return &fault{kindTimeout, "no answer before the timeout"}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &fault{kindConnection, "closed before the answer was complete"}
	}
	return &fault{kindConnection, err.Error()}
}

// pattern is a correct answer: with other digits in its holes it is the correct answer of another call.
type pattern struct {
	raw   []byte
	holes []int
	open  bool // raw is only the beginning; the rest differs from answer to answer
}

// maxTail limits the bytes after an open pattern.
const maxTail = 1 << 10

func (p *pattern) fits(message, digits []byte) bool {
	if len(message) != len(p.raw) && !(p.open && len(message) > len(p.raw) && len(message)-len(p.raw) < maxTail) {
		return false
	}
	from := 0
	for _, at := range p.holes {
		if !bytes.Equal(message[from:at], p.raw[from:at]) || !bytes.Equal(message[at:at+numberLen], digits) {
			return false
		}
		from = at + numberLen
	}
	return bytes.Equal(message[from:len(p.raw)], p.raw[from:]) && (!p.open || bytes.Contains(message[len(p.raw):], digits))
}

// newPattern returns the pattern of an answer whose first length bytes are always the same except for the digits.
func newPattern(message, digits []byte, length int) *pattern {
	p := &pattern{raw: bytes.Clone(message[:length]), open: length < len(message)}
	for from := 0; ; {
		at := bytes.Index(p.raw[from:], digits)
		if at < 0 {
			return p
		}
		p.holes = append(p.holes, from+at)
		from += at + numberLen
	}
}

// maxPatterns limits the remembered forms of the same answer. Servers that write members in random order have several.
const maxPatterns = 8

// judge judges the answers to one call, of all connections.
type judge struct {
	call        Call
	rest, plain bool

	patterns atomic.Pointer[[]*pattern]
	seen     atomic.Uint64
	mu       sync.Mutex
	first    string // the first result, in a form that can be compared; empty: there was none
}

// decodeEvery: one of this many varying answers is decoded in full.
const decodeEvery = 256

// check returns a *fault if the message is not the answer to the call of the digits.
func (j *judge) check(message, digits []byte) error {
	if known := j.patterns.Load(); known != nil {
		for _, p := range *known {
			if p.fits(message, digits) {
				return nil
			}
		}
	}
	result, length, err := j.result(message, digits)
	if err != nil {
		return err
	}
	if j.call.Varies {
		if j.seen.Add(1)%decodeEvery == 1 {
			if _, err = canonical(result, nil); err != nil {
				return faultf(kindMalformed, "%v in %s", err, quote(message))
			}
		}
		return nil
	}
	return j.compare(message, result, digits, length)
}

// compare compares a result with the expected text or the first result. A correct answer is remembered as a pattern.
func (j *judge) compare(message, result, digits []byte, length int) error {
	form, err := canonical(result, digits)
	if err != nil {
		return faultf(kindMalformed, "%v in %s", err, quote(message))
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case j.call.Text != "":
		if text := j.text(result); strings.ReplaceAll(text, string(digits), Number) != j.call.Text {
			return faultf(kindContent, "not the expected text: %s", quote(message))
		}
	case j.first == "":
		j.first = form
	case j.first != form:
		return faultf(kindContent, "unlike the first answer, which was %s: %s", quote([]byte(j.first)), quote(message))
	}
	var known []*pattern
	if old := j.patterns.Load(); old != nil {
		known = append(known, *old...)
	}
	if len(known) < maxPatterns {
		known = append(known, newPattern(message, digits, length))
		j.patterns.Store(&known)
	}
	return nil
}

// result returns the result of a good answer, and how many bytes of the message are the same in every answer.
func (j *judge) result(message, digits []byte) (result []byte, length int, err error) {
	if j.rest {
		return j.envelope(message, digits)
	}
	if j.plain {
		return j.value(message)
	}
	m, err := wire.Scan(message)
	if err != nil {
		return nil, 0, faultf(kindMalformed, "%v in %s", err, quote(message))
	}
	switch {
	case m.Kind == wire.Failure:
		text := m.Text(m.ErrorText)
		if m.ID.Present() && !bytes.Equal(m.Of(m.ID), digits) && string(m.Of(m.ID)) != "null" {
			return nil, 0, faultf(kindID, "an error for %s, not %s: %s", m.Of(m.ID), digits, quote(message))
		}
		return nil, 0, faultf("error "+strconv.Itoa(m.ErrorCode), "%s", quote(text))
	case m.Kind != wire.Result:
		return nil, 0, faultf(kindMalformed, "no response: %s", quote(message))
	case !bytes.Equal(m.Of(m.ID), digits):
		return nil, 0, faultf(kindID, "%s, not %s: %s", quote(m.Of(m.ID)), digits, quote(message))
	case string(wire.Get(m.Raw, m.Result, "isError").Of(m.Raw)) == "true":
		return nil, 0, faultf(kindTool, "%s", quote(message))
	}
	return m.Of(m.Result), len(message), nil
}

// envelope is result for the REST envelope.
func (j *judge) envelope(message, digits []byte) ([]byte, int, error) {
	message = bytes.TrimSpace(message)
	if !json.Valid(message) || len(message) == 0 || message[0] != '{' {
		return nil, 0, faultf(kindMalformed, "not a JSON object: %s", quote(message))
	}
	all := wire.Span{To: uint32(len(message))} //nolint:gosec // MaxMessage
	if j.call.Method != "tools/call" {
		if !wire.Get(message, all, "tools").Present() {
			return nil, 0, faultf(kindMalformed, "no tools: %s", quote(message))
		}
		return message, len(message), nil
	}
	if string(wire.Get(message, all, "success").Of(message)) != "true" {
		code := string(wire.Get(message, all, "code").Text(message))
		return nil, 0, faultf("error "+code, "%s", quote(message))
	}
	if id := wire.Get(message, all, "request_id").Text(message); string(id) != uuid+string(digits) {
		return nil, 0, faultf(kindID, "%s, not %s%s: %s", quote(id), uuid, digits, quote(message))
	}
	data := wire.Get(message, all, "data")
	if !data.IsObject(message) {
		return nil, 0, faultf(kindMalformed, "no data: %s", quote(message))
	}
	length := int(data.To)
	if id := wire.Get(message, all, "request_id"); id.From < data.From { // then only the whole can be compared
		length = len(message)
	}
	return data.Of(message), length, nil
}

// canonical returns a result in a comparable form: without _meta, members sorted, Number for the digits.
func canonical(result, digits []byte) (string, error) {
	d := json.NewDecoder(bytes.NewReader(result))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return "", err
	}
	if o, ok := v.(map[string]any); ok {
		delete(o, "_meta")
	}
	out, err := json.Marshal(v)
	if digits != nil {
		out = bytes.ReplaceAll(out, digits, []byte(Number))
	}
	return string(out), err
}

// onlyText returns the text of a result that consists of one text.
func onlyText(result []byte) string {
	var r struct {
		Content []struct{ Type, Text string }
	}
	if err := json.Unmarshal(result, &r); err != nil || len(r.Content) != 1 || r.Content[0].Type != "text" {
		return ""
	}
	return r.Content[0].Text
}
