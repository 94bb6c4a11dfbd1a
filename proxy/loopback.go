package proxy

import (
	"net/netip"
	"strings"
)

// IsLoopbackHost reports whether a host, without its port, names this machine: a loopback address, localhost or a name below it, in any case.
// Browsers and resolvers keep those names on the machine (RFC 6761 §6.3), and nobody can register one: no DNS rebinding leads there. Other
// names may come to mean anything, and so may one with a dot at its end, which no client of ours has a reason to send.
func IsLoopbackHost(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().IsLoopback()
	}
	host = strings.ToLower(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}
