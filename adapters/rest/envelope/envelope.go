// Package envelope is the REST envelope (seed 000, ResponseEnvelope), which callers and services of both directions share.
package envelope

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-json"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Envelope is the response of every endpoint whose answer is not bare. It has either Data, or Error and Code.
type Envelope struct {
	Success   bool
	Data      json.RawMessage    // an object; only if Success
	Error     string             // for people; only without Success
	Code      proxy.EnvelopeCode // for programs; only without Success
	RequestID string             // a UUID of version 4: the caller's, or a new one
	Timestamp string             // when the envelope was made
	Meta      Meta
}

// Meta is additional information. The zero value is none.
type Meta struct {
	Took      time.Duration   // execution time; written in whole milliseconds
	Timed     bool            // Took is known
	Remaining int             // calls that the rate limit leaves for this minute
	Limited   bool            // Remaining is known
	Replayed  bool            // the answer is that of an earlier request with the same id or key
	Result    json.RawMessage // the whole result of a tool that failed
	Cause     json.RawMessage // the JSON-RPC error behind Error: code and data
	Retryable bool            // the same request may succeed later and cannot run a tool twice
	RetryIn   int             // seconds; 0: unknown
}

// AppendJSON appends the envelope. Members that do not apply are left out, not null.
func (e *Envelope) AppendJSON(dst []byte) []byte {
	dst = e.AppendBefore(dst)
	if e.Success {
		dst = append(dst, e.Data...)
	}
	return e.AppendAfter(dst)
}

// AppendBefore appends the part before Data; without Success, the part before RequestID.
func (e *Envelope) AppendBefore(dst []byte) []byte {
	dst = strconv.AppendBool(append(dst, `{"success":`...), e.Success)
	if e.Success {
		return append(dst, `,"data":`...)
	}
	dst = wire.AppendText(append(dst, `,"error":`...), e.Error)
	return wire.AppendText(append(dst, `,"code":`...), string(e.Code))
}

// AppendAfter appends the part after Data.
func (e *Envelope) AppendAfter(dst []byte) []byte {
	dst = wire.AppendText(append(dst, `,"request_id":`...), e.RequestID)
	dst = wire.AppendText(append(dst, `,"timestamp":`...), e.Timestamp)
	if meta := e.Meta.appendMembers(nil); len(meta) > 0 {
		dst = append(append(append(dst, `,"meta":{`...), meta[1:]...), '}')
	}
	return append(dst, '}')
}

// appendMembers appends the members, each after a comma.
func (m *Meta) appendMembers(dst []byte) []byte {
	if m.Timed {
		dst = strconv.AppendInt(append(dst, `,"execution_time_ms":`...), max(0, m.Took.Milliseconds()), 10)
	}
	if m.Limited {
		dst = strconv.AppendInt(append(dst, `,"rate_limit_remaining":`...), int64(max(0, m.Remaining)), 10)
	}
	if m.Replayed {
		dst = append(dst, `,"replayed":true`...)
	}
	if m.Result != nil {
		dst = append(append(dst, `,"result":`...), m.Result...)
	}
	if m.Cause != nil {
		dst = append(append(dst, `,"cause":`...), m.Cause...)
	}
	if m.Retryable {
		dst = append(dst, `,"retryable":true`...)
	}
	if m.RetryIn > 0 {
		dst = strconv.AppendInt(append(dst, `,"retry_after":`...), int64(m.RetryIn), 10)
	}
	return dst
}

// NewRequestID returns a new UUID of version 4 (RFC 9562).
func NewRequestID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	text := hex.EncodeToString(b[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

// ValidRequestID reports whether a request_id is a UUID of version 4 (seed 000), in either case.
func ValidRequestID(id string) bool {
	const form = "xxxxxxxx-xxxx-4xxx-vxxx-xxxxxxxxxxxx"
	if len(id) != len(form) {
		return false
	}
	for i := range len(id) {
		ok := id[i] == form[i]
		switch form[i] {
		case 'x':
			ok = isHex(id[i])
		case 'v':
			ok = strings.IndexByte("89abAB", id[i]) >= 0
		}
		if !ok {
			return false
		}
	}
	return true
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f' }

// Timestamp formats a time as ISO 8601 with milliseconds, in UTC, with a Z (seed 000).
func Timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
