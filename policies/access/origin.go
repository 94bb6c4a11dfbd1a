package access

import (
	"bytes"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/net/http/httpguts"

	"dragoman/proxy"
)

// OriginOptions lists the Host and Origin values that a listener accepts.
type OriginOptions struct {
	Loopback bool     // the listener is bound to a loopback address
	Hosts    []string // Host values accepted besides the listener's own, lower case, with or without port
	Origins  []string // browser origins accepted besides the listener's own
}

// Origin returns the gate against DNS rebinding (2026-07-28 streamable HTTP, Security & Endpoint): a web page that
// points its own host name at this machine still sends that name as Host and Origin. A loopback listener accepts
// loopback names and the configured hosts. Any other listener accepts every Host unless some are configured. A request
// without Origin does not come from a browser.
func Origin(opt OriginOptions) proxy.Gate {
	var known atomic.Pointer[string] // the Host allowed last, which most requests repeat
	return func(h *proxy.Head) *proxy.Error {
		if last := known.Load(); last != nil && *last == string(h.Host) {
			if len(h.Origin) == 0 {
				return nil
			}
		} else if host := string(h.Host); hostAllowed(host, opt) {
			known.Store(&host)
		} else {
			return proxy.Errf(proxy.ForbiddenOrigin, "Host %q is not served here; add it to security.allowed_hosts if it should be", h.Host)
		}
		if len(h.Origin) > 0 && !originAllowed(string(h.Origin), string(h.Host), opt) {
			return proxy.Errf(proxy.ForbiddenOrigin, "Origin %q may not ask here; add it to security.allowed_origins if it should", h.Origin)
		}
		return nil
	}
}

func hostAllowed(host string, opt OriginOptions) bool {
	host = strings.ToLower(host)
	name := hostname(host)
	if slices.Contains(opt.Hosts, host) || slices.Contains(opt.Hosts, name) {
		return true
	}
	if opt.Loopback {
		return proxy.IsLoopbackHost(name)
	}
	return len(opt.Hosts) == 0
}

func originAllowed(origin, host string, opt OriginOptions) bool {
	origin = strings.ToLower(origin)
	if slices.Contains(opt.Origins, origin) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return false // "null" included
	}
	if opt.Loopback && proxy.IsLoopbackHost(hostname(u.Host)) {
		return true
	}
	return u.Host == strings.ToLower(host)
}

func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}

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
		if len(name) > len(param) && strings.EqualFold(string(name[:len(param)]), param) && httpguts.ValidHeaderFieldName(string(name)) {
			out.WriteString(", ")
			out.Write(name)
		}
	}
	return out.String()
}
