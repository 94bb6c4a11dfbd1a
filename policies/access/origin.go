package access

import (
	"net"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

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
