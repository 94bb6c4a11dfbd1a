package access

import (
	"bytes"
	"slices"
	"strings"

	"dragoman/proxy"
)

// What browsers are told they may do (Fetch standard, CORS protocol): the protocol's own headers, those of authentication and of
// tracing. Mcp-Param-* are added as they are asked for, since each tool has its own.
const (
	corsMethods = "GET, POST, DELETE, HEAD, OPTIONS"
	corsHeaders = "Authorization, X-API-Key, Content-Type, Accept, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id, " +
		"Last-Event-ID, Idempotency-Key, If-None-Match, X-Request-Id, traceparent, tracestate, baggage"
	corsExposed = "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate, Retry-After, Idempotent-Replayed, ETag, X-Request-Id"
	corsMaxAge  = "600"   // seconds; Chromium caps it at two hours
	maxAsked    = 4 << 10 // bytes of Access-Control-Request-Headers that are looked at
)

// CORS lets pages of the given origins read the answers, and answers their preflights with 204. Origins are lower case; pages
// of others get nothing, which is how a browser is told no. It stands behind [Origin], which refuses them altogether. Without
// origins it is nil. more are the names of further headers that pages may send.
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

// askedParams lists the Mcp-Param-* (SEP-2243) among the headers that a preflight asks for, each after a comma.
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

// isToken tells whether b is a token of RFC 9110, as field names are.
func isToken(b []byte) bool {
	for _, c := range b {
		if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return len(b) > 0
}
