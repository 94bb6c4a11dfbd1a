package access

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"

	"dragoman/proxy"
)

// maxHops is how many forwarded addresses of a request are read.
const maxHops = 32

// TrustProxies returns the gate that takes the client's address, host and scheme from X-Forwarded-For, -Host and -Proto
// if the request comes from a trusted network. The address is the last one that does not belong to a trusted proxy: the
// client itself may have written what precedes it. For other requests the connection decides. prefix is the path under which
// clients see the listener, if any; X-Forwarded-Prefix of a trusted proxy replaces it unless that is no valid prefix. With
// neither networks nor a prefix the gate is nil.
func TrustProxies(trusted []netip.Prefix, prefix string) proxy.Gate {
	if len(trusted) == 0 && prefix == "" {
		return nil
	}
	known := func(a netip.Addr) bool {
		return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	return func(h *proxy.Head) *proxy.Error {
		h.Prefix = prefix
		if !known(h.Address) {
			return nil
		}
		if lines := h.Fields.PeekAll("X-Forwarded-Prefix"); len(lines) > 0 {
			h.Prefix = prefixOf(last(lines), prefix)
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

// prefixOf returns the prefix that a proxy names, which may be none; or another if that is not valid.
func prefixOf(text []byte, other string) string {
	named := strings.TrimSuffix(string(text), "/")
	if named != "" && !proxy.ValidPrefix(named) {
		return other
	}
	return named
}

// origin follows the hops in lines back from the nearest one, as long as they are known, and returns the first that is
// not. Anything that is not an address ends the search.
func origin(at netip.Addr, lines [][]byte, known func(netip.Addr) bool) netip.Addr {
	rest := bytes.Join(lines, []byte{','})
	for range maxHops {
		cut := bytes.LastIndexByte(rest, ',')
		addr, err := hop(bytes.TrimSpace(rest[cut+1:]))
		if err != nil {
			return at
		}
		if at = addr; cut < 0 || !known(at) {
			return at
		}
		rest = rest[:cut]
	}
	return at
}

// hop parses an address with or without a port.
func hop(text []byte) (netip.Addr, error) {
	s := string(text)
	if a, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil {
		return a.Unmap().WithZone(""), nil
	}
	ap, err := netip.ParseAddrPort(s)
	return ap.Addr().Unmap().WithZone(""), err
}

// last returns the last element of a list that may span several lines: the value that the nearest proxy has added.
func last(lines [][]byte) []byte {
	list := bytes.Join(lines, []byte{','})
	return bytes.TrimSpace(list[bytes.LastIndexByte(list, ',')+1:])
}
