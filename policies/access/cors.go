package access

import (
	"bytes"
	"slices"
	"strings"

	"dragoman/proxy"
)

// Values of the CORS headers (Fetch standard, CORS protocol). They name the headers of the protocol, of authentication
// and of tracing. Mcp-Param-* headers are added as a preflight asks for them, since each tool has its own.
const (
	corsMethods = "GET, POST, DELETE, HEAD, OPTIONS"
	corsHeaders = "Authorization, X-API-Key, Content-Type, Accept, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id, " +
		"Last-Event-ID, Idempotency-Key, If-None-Match, X-Request-Id, traceparent, tracestate, baggage"
	corsExposed = "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate, Retry-After, Idempotent-Replayed, ETag, X-Request-Id"
	corsMaxAge  = "600"   // seconds; Chromium caps it at two hours
	maxAsked    = 4 << 10 // longest Access-Control-Request-Headers that is read, in bytes
)

// CORS returns the gate that lets pages of the given origins read responses, and answers their preflights with 204.
// origins are in lower case; more are the names of further headers that pages may send. A page of another origin gets
// no CORS headers, so its browser refuses it the response. The gate runs after [Origin], which refuses unknown origins
// altogether. Without origins it is nil.
func CORS(origins []string, more ...string) proxy.Gate {
	if len(origins) == 0 {
		return nil
	}
	headers := strings.Join(append([]string{corsHeaders}, more...), ", ")
	return func(h *proxy.Head) *proxy.Error {
		if len(h.Origin) == 0 {
			return nil
		}
		h.SetHeader("Vary", "Origin")
		origin := string(h.Origin)
		if !slices.Contains(origins, strings.ToLower(origin)) {
			return nil
		}
		h.SetHeader("Access-Control-Allow-Origin", origin)
		if string(h.Method) != "OPTIONS" || len(h.Fields.Peek("Access-Control-Request-Method")) == 0 {
			h.SetHeader("Access-Control-Expose-Headers", corsExposed)
			return nil
		}
		h.SetHeader("Access-Control-Allow-Methods", corsMethods)
		h.SetHeader("Access-Control-Allow-Headers", headers+askedParams(h.Fields.Peek("Access-Control-Request-Headers")))
		h.SetHeader("Access-Control-Max-Age", corsMaxAge)
		h.Status = 204
		return nil
	}
}

// askedParams returns the Mcp-Param-* headers (SEP-2243) that a preflight asks for, each after a comma.
func askedParams(asked []byte) string {
	if len(asked) > maxAsked {
		return ""
	}
	var out strings.Builder
	for name := range bytes.SplitSeq(asked, []byte{','}) {
		name = bytes.TrimSpace(name)
		const param = "mcp-param-"
		if len(name) > len(param) && strings.EqualFold(string(name[:len(param)]), param) && isToken(name) {
			out.WriteString(", ")
			out.Write(name)
		}
	}
	return out.String()
}

// isToken reports whether b is a token (RFC 9110, 5.6.2), the syntax of field names.
func isToken(b []byte) bool {
	for _, c := range b {
		if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return len(b) > 0
}
