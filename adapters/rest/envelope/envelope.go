package envelope

import (
	"crypto/rand"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/goccy/go-json"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Envelope is the response of every endpoint (seed 000, ResponseEnvelope), but for the bare ones of GET /tools and GET /health.
// Of Data on one side, Error and Code on the other, one side is there and the other null.
type Envelope struct {
	Success   bool
	Data      json.RawMessage    // an object, if Success
	Error     string             // for people, unless Success
	Code      proxy.EnvelopeCode // likewise, for programs
	RequestID string             // a UUID of version 4: the caller's, or made
	Timestamp string             // when the envelope was made
	Meta      Meta
}

// Meta is what is known besides; the zero value is nothing.
type Meta struct {
	Took      time.Duration   // of the execution; written as whole milliseconds
	Timed     bool            // Took is known
	Remaining int             // calls that the rate limit leaves until the minute is over
	Limited   bool            // Remaining is known
	Replayed  bool            // the answer to an earlier request with the same id or key is given again
	Result    json.RawMessage // the whole result of a tool that failed
	Cause     json.RawMessage // the JSON-RPC error behind Error: code, and data if there is any
	Retryable bool            // sending the same request again may help and cannot run a tool twice
	RetryIn   int             // seconds; 0: unknown
}

// AppendJSON writes the envelope. Members that do not apply are left out; null stands for none of them.
func (e *Envelope) AppendJSON(dst []byte) []byte {
	dst = e.AppendBefore(dst)
	if e.Success {
		dst = append(dst, e.Data...)
	}
	return e.AppendAfter(dst)
}

// AppendBefore writes what stands before Data, or all up to there if it is no Success.
func (e *Envelope) AppendBefore(dst []byte) []byte {
	dst = strconv.AppendBool(append(dst, `{"success":`...), e.Success)
	if e.Success {
		return append(dst, `,"data":`...)
	}
	dst = wire.AppendText(append(dst, `,"error":`...), e.Error)
	return wire.AppendText(append(dst, `,"code":`...), string(e.Code))
}

// AppendAfter writes the rest.
func (e *Envelope) AppendAfter(dst []byte) []byte {
	dst = wire.AppendText(append(dst, `,"request_id":`...), e.RequestID)
	dst = wire.AppendText(append(dst, `,"timestamp":`...), e.Timestamp)
	if meta := e.Meta.appendMembers(nil); len(meta) > 0 {
		dst = append(append(append(dst, `,"meta":{`...), meta[1:]...), '}')
	}
	return append(dst, '}')
}

// appendMembers writes the members, each behind a comma.
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

// NewRequestID makes a UUID of version 4 (RFC 9562).
func NewRequestID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	text := hex.EncodeToString(b[:])
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

// ValidRequestID says whether a caller's request_id is a UUID of version 4 (seed 000). Letters may be of either case.
func ValidRequestID(id string) bool {
	if len(id) != 36 {
		return false
	}
	for i := range len(id) {
		switch c := id[i]; {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return false
			}
		case i == 14:
			if c != '4' {
				return false
			}
		case i == 19:
			if !isHex(c) || c|0x20 != 'a' && c|0x20 != 'b' && c != '8' && c != '9' {
				return false
			}
		case !isHex(c):
			return false
		}
	}
	return true
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f' }

// Timestamp writes a time as the seed demands: ISO 8601 with milliseconds, in UTC, with a Z.
func Timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
