package access

import (
	"bytes"
	"net/netip"
	"strings"

	"dragoman/proxy"
)

// maxHops is how many addresses of a request's way are looked at.
const maxHops = 32

// TrustProxies believes the proxies in the given networks what they say of who has asked them: address, host and scheme, in
// X-Forwarded-For, -Host and -Proto. The address is the last one that is not itself a trusted proxy's: what stands before it
// the client may have written. A request that does not come from a trusted proxy is what its connection says. Without networks
// it is nil.
func TrustProxies(trusted []netip.Prefix) proxy.Gate {
	if len(trusted) == 0 {
		return nil
	}
	known := func(a netip.Addr) bool {
		for _, p := range trusted {
			if p.Contains(a) {
				return true
			}
		}
		return false
	}
	return func(h *proxy.Head) *proxy.Error {
		if !known(h.Address) {
			return nil
		}
		h.Address = origin(h.Address, h.Fields.PeekAll("X-Forwarded-For"), known)
		if host := last(h.Fields.PeekAll("X-Forwarded-Host")); len(host) > 0 {
			h.Host = host
		}
		if proto := last(h.Fields.PeekAll("X-Forwarded-Proto")); len(proto) > 0 {
			h.Secure = strings.EqualFold(string(proto), "https")
		}
		return nil
	}
}

// origin goes back along the way from the last hop, for as long as the hops are known. What is no address ends the way.
func origin(at netip.Addr, lines [][]byte, known func(netip.Addr) bool) netip.Addr {
	hops := 0
	for i := len(lines) - 1; i >= 0; i-- {
		rest := lines[i]
		for {
			cut := bytes.LastIndexByte(rest, ',')
			addr, err := hop(bytes.TrimSpace(rest[cut+1:]))
			if hops++; err != nil || hops > maxHops {
				return at
			}
			if at = addr; !known(at) {
				return at
			}
			if cut < 0 {
				break
			}
			rest = rest[:cut]
		}
	}
	return at
}

// hop reads an address, with or without a port.
func hop(text []byte) (netip.Addr, error) {
	s := string(text)
	if a, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil {
		return a.Unmap().WithZone(""), nil
	}
	ap, err := netip.ParseAddrPort(s)
	return ap.Addr().Unmap().WithZone(""), err
}

// last is the last of a list that may go over several lines: what the proxy nearest to us has said.
func last(lines [][]byte) []byte {
	if len(lines) == 0 {
		return nil
	}
	line := lines[len(lines)-1]
	return bytes.TrimSpace(line[bytes.LastIndexByte(line, ',')+1:])
}
