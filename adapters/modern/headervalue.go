package modern

import (
	"bytes"
	"encoding/base64"
	"errors"
	"unicode/utf8"
)

// The encoded form of a header value (2026-07-28, streamable HTTP, "Value Encoding"; SEP-2243). Both markers are case-sensitive.
const (
	encodedPrefix = "=?base64?"
	encodedSuffix = "?="
)

// errHeaderValue reports that the value of an Mcp-Name or Mcp-Param-* header is malformed. The request is then refused
// with 400 and -32020; the value is never taken literally instead.
var errHeaderValue = errors.New("modern: malformed header value")

// strictBase64 also refuses non-zero padding bits, so that each value has one encoding.
var strictBase64 = base64.StdEncoding.Strict()

// needsEncoding reports whether plain must be encoded in an Mcp-Name or Mcp-Param-* header: it has a byte that is not
// printable ASCII (including an inner TAB, which HTTP allows but SEP-2243 counts as a control character), begins or ends
// with a space, or looks like an encoded value itself.
func needsEncoding(plain []byte) bool {
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

// headerValue returns plain, which is UTF-8, as the value of an Mcp-Name or Mcp-Param-* header. An empty value stays empty.
//
// It encodes a value only if needsEncoding: the Go SDK 1.8.0 compares Mcp-Name without decoding it, so a needless
// encoding would fail the call there. The result is always printable ASCII, so nothing can be injected through it.
func headerValue(plain []byte) []byte {
	if !needsEncoding(plain) {
		return plain
	}
	return append(strictBase64.AppendEncode([]byte(encodedPrefix), plain), encodedSuffix...)
}

// decodeHeaderValue returns the plain form of a received Mcp-Name or Mcp-Param-* value, which may be part of v. Spaces and tabs
// around v are ignored (RFC 9110 §5.5).
//
// A value with both markers is decoded strictly. A value with one marker, or with markers in capitals, is literal. A
// literal may contain bytes beyond ASCII, since the Go SDK's client sends names unencoded. validHeaderBytes checks the
// stricter rule for Mcp-Param-*.
//
// The error is errHeaderValue if the base64 is malformed, if v has a control character other than an inner TAB, or if the
// plain form is not UTF-8.
func decodeHeaderValue(v []byte) ([]byte, error) {
	v = bytes.Trim(v, " \t")
	for _, c := range v {
		if c < ' ' && c != '\t' || c == 0x7F { // the base64 decoder would skip line breaks
			return nil, errHeaderValue
		}
	}
	if isEncoded(v) {
		var err error
		if v, err = strictBase64.AppendDecode(nil, v[len(encodedPrefix):len(v)-len(encodedSuffix)]); err != nil {
			return nil, errHeaderValue
		}
	}
	if !utf8.Valid(v) {
		return nil, errHeaderValue
	}
	return v, nil
}

// validHeaderBytes reports whether a received value, before decoding, has only the bytes that the specification allows:
// printable ASCII, space and TAB. A recognised Mcp-Param-* header with other bytes must be refused ("Server Behavior for
// Custom Headers").
func validHeaderBytes(v []byte) bool {
	for _, c := range v {
		if (c < ' ' || c > '~') && c != '\t' {
			return false
		}
	}
	return true
}

// isEncoded reports whether v has both markers without overlap. An encoder never produces a value whose markers overlap,
// so such a value is literal.
func isEncoded(v []byte) bool {
	return len(v) >= len(encodedPrefix)+len(encodedSuffix) &&
		bytes.HasPrefix(v, []byte(encodedPrefix)) && bytes.HasSuffix(v, []byte(encodedSuffix))
}
