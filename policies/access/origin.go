package access

import (
	"bytes"
	"mime"
	"net"
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
	Origins  []string // browser origins accepted besides the listener's own, lower case
}

// Origin returns the gate against web pages that use a listener through its user's browser (2026-07-28 streamable HTTP,
// Security & Endpoint).
//
// By DNS rebinding a page points its own host name at this machine, and sends that name as Host and Origin. A loopback
// listener accepts loopback names and the configured hosts. Any other listener accepts every Host unless some are
// configured.
//
// A page on another port of this machine is as foreign as one from elsewhere. An Origin is accepted if scheme, host and
// port are those of the request itself, or if it is configured. Requests for which browsers send no Origin (images,
// scripts, frames) are judged by Sec-Fetch-Site (Fetch Metadata Request Headers). What a page sends has to be declared as
// JSON, which no page can send to another origin without asking first (Fetch, CORS-safelisted request-header). A request
// with neither header does not come from a browser.
func Origin(opt OriginOptions) proxy.Gate {
	var known atomic.Pointer[string] // the Host allowed last, which most requests repeat
	return func(h *proxy.Head) *proxy.Error {
		if last := known.Load(); last == nil || *last != string(h.Host) {
			host := string(h.Host)
			if !hostAllowed(host, opt) {
				return proxy.Errf(proxy.ForbiddenOrigin, "Host %q is not served here; add it to security.allowed_hosts if it should be", h.Host)
			}
			known.Store(&host)
		}
		site := h.Fields.Peek(fetchSite)
		if len(h.Origin) == 0 && len(site) == 0 {
			return nil
		}
		if err := fromPage(h, site, opt.Origins); err != nil {
			return err
		}
		return declared(h)
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

// Request headers that browsers set and pages cannot (Fetch Metadata Request Headers).
const (
	fetchSite = "Sec-Fetch-Site"
	fetchMode = "Sec-Fetch-Mode"
	fetchDest = "Sec-Fetch-Dest"
)

// fromPage judges where in a browser a request comes from. origins are the configured ones.
func fromPage(h *proxy.Head, site []byte, origins []string) *proxy.Error {
	origin := strings.ToLower(string(h.Origin))
	once := len(h.Fields.PeekAll("Origin")) <= 1
	switch {
	case once && slices.Contains(origins, origin):
		return nil
	case !once || origin != "" && !sameOrigin(origin, h):
		return proxy.Errf(proxy.ForbiddenOrigin, "Origin %q may not ask here; add it to security.allowed_origins if it should", h.Origin)
	case !siteAllowed(h, site):
		return proxy.Errf(proxy.ForbiddenOrigin, "a page of another origin may not ask here (Sec-Fetch-Site: %s); add its origin to security.allowed_origins if it should, and have it use fetch", site)
	}
	return nil
}

// sameOrigin reports whether an origin, in lower case, has the scheme, host and port of the request (RFC 6454 §5).
func sameOrigin(origin string, h *proxy.Head) bool {
	own := "http"
	if h.Secure {
		own = "https"
	}
	scheme, host, ok := strings.Cut(origin, "://")
	return ok && scheme == own && host != "" && withoutPort(host, own) == withoutPort(strings.ToLower(string(h.Host)), own)
}

// withoutPort removes the port that a scheme has by default.
func withoutPort(host, scheme string) string {
	if scheme == "https" {
		return strings.TrimSuffix(host, ":443")
	}
	return strings.TrimSuffix(host, ":80")
}

// siteAllowed reports whether Sec-Fetch-Site, absent or of a request without a foreign Origin, is acceptable. What a user
// has typed or bookmarked comes from no page. Other pages may only link to /docs.
func siteAllowed(h *proxy.Head, site []byte) bool {
	reads := string(h.Method) == "GET" || string(h.Method) == "HEAD"
	switch string(site) {
	case "", "same-origin":
		return true
	case "none":
		return reads || len(h.Origin) > 0
	}
	return reads && string(h.Fields.Peek(fetchMode)) == "navigate" && string(h.Fields.Peek(fetchDest)) == "document" &&
		bytes.HasSuffix(h.Path, []byte("/docs"))
}

// declared refuses a page's request that acts and is not declared as JSON. DELETE has no body, and is never sent to
// another origin unasked.
func declared(h *proxy.Head) *proxy.Error {
	switch string(h.Method) {
	case "GET", "HEAD", "OPTIONS", "DELETE":
		return nil
	}
	all := h.Fields.PeekAll("Content-Type")
	if len(all) == 1 {
		if kind, _, err := mime.ParseMediaType(string(all[0])); err == nil && kind == "application/json" {
			return nil
		}
	}
	return proxy.Errf(proxy.BadMediaType, "Content-Type of a page's request is %q; send application/json", bytes.Join(all, []byte(", ")))
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
