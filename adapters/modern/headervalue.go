package modern

import (
	"bytes"
	"encoding/base64"
	"errors"
	"unicode/utf8"
)

// The encoded form of a header value (2026-07-28, streamable HTTP, "Value
// Encoding"; SEP-2243). Both markers are case-sensitive.
const (
	encodedPrefix = "=?base64?"
	encodedSuffix = "?="
)

// ErrHeaderValue says that the value of an Mcp-Name or Mcp-Param-* header cannot
// be read. The request is then refused with 400 and -32020; the value is never
// taken literally instead.
var ErrHeaderValue = errors.New("modern: malformed header value")

// strictBase64 also refuses padding bits that are not zero: one value, one form.
var strictBase64 = base64.StdEncoding.Strict()

// NeedsEncoding tells whether plain cannot travel as it is in an Mcp-Name or
// Mcp-Param-* header: it has a byte that is not printable ASCII (an inner TAB
// too: HTTP allows it, SEP-2243 counts it as a control character), begins or
// ends with a space, or looks like an encoded value itself.
func NeedsEncoding(plain []byte) bool {
	if len(plain) == 0 {
		return false
	}
	for _, c := range plain {
		if c < ' ' || c > '~' {
			return true
		}
	}
	if plain[0] == ' ' || plain[len(plain)-1] == ' ' {
		return true
	}
	return bytes.HasPrefix(plain, []byte(encodedPrefix)) && bytes.HasSuffix(plain, []byte(encodedSuffix))
}

// AppendHeaderValue appends plain as the value of an Mcp-Name or Mcp-Param-*
// header and returns the extended dst. plain is UTF-8 and may be empty, which
// stays empty.
//
// It encodes only what NeedsEncoding: the Go SDK 1.8.0 compares Mcp-Name without
// decoding it, so that every needless encoding would be a failed call there.
// The result is always printable ASCII: nothing can be injected through it.
func AppendHeaderValue(dst, plain []byte) []byte {
	if !NeedsEncoding(plain) {
		return append(dst, plain...)
	}
	dst = append(dst, encodedPrefix...)
	dst = strictBase64.AppendEncode(dst, plain)
	return append(dst, encodedSuffix...)
}

// headerValue is plain as such a value: plain itself, if that will do.
func headerValue(plain []byte) []byte {
	if !NeedsEncoding(plain) {
		return plain
	}
	return AppendHeaderValue(nil, plain)
}

// DecodeHeaderValue appends the plain form of a received Mcp-Name or Mcp-Param-*
// value and returns the extended dst; with len(v) bytes free in dst it does not
// allocate. Spaces and tabs around v are not part of it (RFC 9110 §5.5).
//
// A value with both markers is decoded strictly. One with a single marker, or
// with markers in capitals, is literal. A literal may hold bytes beyond ASCII,
// since the Go SDK's client sends names unencoded; where the specification says
// that they must be refused, for Mcp-Param-*, ValidHeaderBytes tells.
//
// It returns dst as it was and ErrHeaderValue if the base64 is malformed, if v
// has a control character other than an inner TAB, or if the plain form is not
// UTF-8.
func DecodeHeaderValue(dst, v []byte) ([]byte, error) {
	v = bytes.Trim(v, " \t")
	for _, c := range v {
		if c < ' ' && c != '\t' || c == 0x7F { // base64 would skip line breaks
			return dst, ErrHeaderValue
		}
	}
	from := len(dst)
	out := dst
	if isEncoded(v) {
		var err error
		out, err = strictBase64.AppendDecode(out, v[len(encodedPrefix):len(v)-len(encodedSuffix)])
		if err != nil {
			return dst, ErrHeaderValue
		}
	} else {
		out = append(out, v...)
	}
	if !utf8.Valid(out[from:]) {
		return dst, ErrHeaderValue
	}
	return out, nil
}

// ValidHeaderBytes tells whether a received value, before decoding, has only the
// bytes that the specification allows: printable ASCII, space and TAB. A
// recognised Mcp-Param-* without this must be refused ("Server Behavior for
// Custom Headers").
func ValidHeaderBytes(v []byte) bool {
	for _, c := range v {
		if (c < ' ' || c > '~') && c != '\t' {
			return false
		}
	}
	return true
}

// isEncoded tells whether v has both markers, which may not share a byte: whoever
// encodes such a value never sends it like that, so it was meant literally.
func isEncoded(v []byte) bool {
	return len(v) >= len(encodedPrefix)+len(encodedSuffix) &&
		bytes.HasPrefix(v, []byte(encodedPrefix)) && bytes.HasSuffix(v, []byte(encodedSuffix))
}
