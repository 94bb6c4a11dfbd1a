package access

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// Networks says where addresses may lie that come from outside the configuration: in public networks, and in those that it allows. It judges
// addresses, not names, so that it must be asked for each connection.
type Networks struct {
	// Allowed are networks that are allowed although they are not public.
	Allowed []netip.Prefix
	// Own returns the addresses at which this process listens; nil: nowhere. An unspecified one is every address of this machine.
	Own func() []netip.AddrPort
}

// special are the networks without public hosts (IANA special-purpose registries of IPv4 and IPv6, RFC 6890), besides those that package
// netip knows.
var special = prefixes("0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
	"::/96", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64", "2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16", "fec0::/10")

func prefixes(all ...string) []netip.Prefix {
	parsed := make([]netip.Prefix, len(all))
	for i, text := range all {
		parsed[i] = netip.MustParsePrefix(text)
	}
	return parsed
}

// Refuse returns why nothing may be sent to an address; nil if it may.
func (n *Networks) Refuse(to netip.AddrPort) error {
	for _, ip := range hosts(to.Addr()) {
		switch {
		case within(ip, n.Allowed):
		case n.own(ip, to.Port()):
			return fmt.Errorf("%s is an address of Dragoman itself", to)
		case !ip.IsGlobalUnicast() || ip.IsPrivate() || within(ip, special):
			return fmt.Errorf("%s is not public", ip)
		}
	}
	return nil
}

func within(ip netip.Addr, networks []netip.Prefix) bool {
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// Translations of IPv4 addresses into IPv6 (RFC 6052 §2.1, RFC 3056 §2).
var (
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
	sixTo = netip.MustParsePrefix("2002::/16")
)

// hosts returns the hosts at an address: of one that holds an IPv4 address both.
func hosts(ip netip.Addr) []netip.Addr {
	ip = ip.Unmap().WithZone("")
	b := ip.As16()
	switch {
	case nat64.Contains(ip):
		return []netip.Addr{netip.AddrFrom4([4]byte(b[12:]))}
	case sixTo.Contains(ip):
		return []netip.Addr{ip, netip.AddrFrom4([4]byte(b[2:6]))}
	}
	return []netip.Addr{ip}
}

// own reports whether this process listens at an address.
func (n *Networks) own(ip netip.Addr, port uint16) bool {
	if n.Own == nil {
		return false
	}
	for _, at := range n.Own() {
		if at.Port() == port && (at.Addr().Unmap() == ip || at.Addr().IsUnspecified() && ofThisMachine(ip)) {
			return true
		}
	}
	return false
}

// ofThisMachine reports whether an address is one of this machine.
func ofThisMachine(ip netip.Addr) bool {
	all, err := net.InterfaceAddrs()
	return ip.IsLoopback() || err != nil || slices.ContainsFunc(all, func(a net.Addr) bool {
		of, ok := a.(*net.IPNet)
		if !ok {
			return false
		}
		own, ok := netip.AddrFromSlice(of.IP)
		return ok && own.Unmap() == ip
	})
}
