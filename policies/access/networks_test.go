package access

import (
	"net"
	"net/netip"
	"testing"
)

// Addresses are refused that are not public, in whatever form.
func TestNetworks(t *testing.T) {
	n := &Networks{}
	for _, text := range []string{
		"127.0.0.1", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254", "100.64.0.1", "100.127.255.255",
		"192.0.0.8", "192.0.2.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12:3456::1", "ff02::1", "fec0::1", "64:ff9b::127.0.0.1", "64:ff9b::a00:1",
		"64:ff9b:1::1", "2002:7f00:1::", "2002:a00:1::1", "2001::1", "2001:db8::1", "100::1", "3fff::1",
	} {
		if err := n.Refuse(netip.AddrPortFrom(netip.MustParseAddr(text), 80)); err == nil {
			t.Errorf("%s is allowed", text)
		}
	}
	for _, text := range []string{"1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.1", "198.17.255.255", "198.20.0.0", "223.255.255.255",
		"2606:4700::1111", "2a00::1", "::ffff:1.1.1.1", "64:ff9b::1.1.1.1", "2002:101:101::1"} {
		if err := n.Refuse(netip.AddrPortFrom(netip.MustParseAddr(text), 80)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Networks are allowed by the address that is meant.
func TestAllowedNetworks(t *testing.T) {
	n := &Networks{Allowed: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00::/64"), netip.MustParsePrefix("127.0.0.1/32")}}
	for text, want := range map[string]bool{"10.1.2.3": true, "::ffff:10.1.2.3": true, "64:ff9b::a01:203": true, "10.2.0.1": false, "fd00::1": true, "fd00:0:0:1::1": false, "127.0.0.1": true, "127.0.0.2": false,
		"2002:a01:203::1": true, "8.8.8.8": true} {
		if err := n.Refuse(netip.AddrPortFrom(netip.MustParseAddr(text), 80)); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Dragoman's own listeners are refused, at every address of the machine if they are, unless their network is allowed.
func TestOwnAddresses(t *testing.T) {
	public := netip.MustParseAddr("1.2.3.4")
	of := func(own ...string) *Networks {
		return &Networks{Own: func() (all []netip.AddrPort) {
			for _, text := range own {
				all = append(all, netip.MustParseAddrPort(text))
			}
			return all
		}}
	}
	for _, test := range []struct {
		n    *Networks
		to   netip.AddrPort
		want bool
	}{
		{of("1.2.3.4:80"), netip.AddrPortFrom(public, 80), false}, {of("1.2.3.4:80"), netip.AddrPortFrom(public, 81), true}, {of("1.2.3.5:80"), netip.AddrPortFrom(public, 80), true},
		{of("[::ffff:1.2.3.4]:80"), netip.AddrPortFrom(public, 80), false}, {of("0.0.0.0:80"), netip.AddrPortFrom(public, 80), true}, {of("[::]:80"), netip.AddrPortFrom(public, 80), true},
	} {
		if err := test.n.Refuse(test.to); (err == nil) != test.want {
			t.Errorf("%v to %s: %v", test.n.Own(), test.to, err)
		}
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range own {
		ip, _ := netip.AddrFromSlice(a.(*net.IPNet).IP)
		if n := of("[::]:80"); !n.own(ip.Unmap(), 80) || n.own(ip.Unmap(), 81) {
			t.Errorf("%s at port 80 is own: %v, at port 81: %v", ip, n.own(ip.Unmap(), 80), n.own(ip.Unmap(), 81))
		}
	}
	allowed := of("127.0.0.1:80")
	if allowed.Allowed = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}; allowed.Refuse(netip.MustParseAddrPort("127.0.0.1:80")) != nil {
		t.Error("an allowed network has no own addresses")
	}
}
