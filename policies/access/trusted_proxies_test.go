package access

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"dragoman/proxy"
)

// headOf makes a request's head of lines NAME: VALUE.
func headOf(t *testing.T, lines ...string) *proxy.Head {
	t.Helper()
	h := new(fasthttp.RequestHeader)
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ": ")
		if !ok {
			t.Fatalf("%q is no field", line)
		}
		h.Add(name, value)
	}
	return &proxy.Head{Method: []byte("POST"), Host: h.Host(), Origin: h.Peek("Origin"), Fields: h}
}

// The prefix is that of the configuration, or what a trusted proxy names last, if that is valid.
func TestTrustedPrefix(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for _, c := range []struct{ peer, line, own, want string }{
		{"10.0.0.1", "", "/own", "/own"},
		{"10.0.0.1", "X-Forwarded-Prefix: /a/b", "/own", "/a/b"},
		{"10.0.0.1", "X-Forwarded-Prefix: /spoofed, /a/", "", "/a"},
		{"10.0.0.1", "X-Forwarded-Prefix: /", "/own", ""},
		{"10.0.0.1", "X-Forwarded-Prefix: //evil", "/own", "/own"},
		{"203.0.113.9", "X-Forwarded-Prefix: /a", "/own", "/own"},
		{"203.0.113.9", "X-Forwarded-Prefix: /a", "", ""},
	} {
		h := headOf(t, "Host: inner")
		if c.line != "" {
			h = headOf(t, "Host: inner", c.line)
		}
		h.Address = netip.MustParseAddr(c.peer)
		if err := TrustProxies(trusted, c.own)(h); err != nil || h.Prefix != c.want {
			t.Errorf("%+v: %q, %v", c, h.Prefix, err)
		}
	}
	h := headOf(t, "Host: inner")
	if err := TrustProxies(nil, "/own")(h); err != nil || h.Prefix != "/own" {
		t.Errorf("without proxies %q, %v", h.Prefix, err)
	}
}

func TestTrustProxies(t *testing.T) {
	gate := TrustProxies([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}, "")
	for name, c := range map[string]struct {
		peer  string
		lines []string
		want  string
	}{
		"no proxy":                     {"203.0.113.9", []string{"X-Forwarded-For: 198.51.100.1"}, "203.0.113.9"},
		"a proxy that says nothing":    {"10.0.0.1", nil, "10.0.0.1"},
		"one hop":                      {"10.0.0.1", []string{"X-Forwarded-For: 198.51.100.1"}, "198.51.100.1"},
		"the client lies in front":     {"10.0.0.1", []string{"X-Forwarded-For: 127.0.0.1, 198.51.100.1"}, "198.51.100.1"},
		"a chain of ours":              {"10.0.0.1", []string{"X-Forwarded-For: 1.2.3.4, 198.51.100.1, 10.2.3.4 ,10.1.1.1"}, "198.51.100.1"},
		"over several lines":           {"10.0.0.1", []string{"X-Forwarded-For: 1.2.3.4, 198.51.100.1", "X-Forwarded-For: 10.2.3.4"}, "198.51.100.1"},
		"all of ours":                  {"10.0.0.1", []string{"X-Forwarded-For: 10.9.9.9, 10.8.8.8"}, "10.9.9.9"},
		"IPv6, with port and brackets": {"fd00::1", []string{"X-Forwarded-For: [2001:db8::1]:4711"}, "2001:db8::1"},
		"IPv6, in brackets":            {"fd00::1", []string{"X-Forwarded-For: [2001:db8::1]"}, "2001:db8::1"},
		"IPv4, with port":              {"fd00::1", []string{"X-Forwarded-For: 198.51.100.1:80"}, "198.51.100.1"},
		"IPv4 in IPv6":                 {"10.0.0.1", []string{"X-Forwarded-For: ::ffff:198.51.100.1"}, "198.51.100.1"},
		"no address":                   {"10.0.0.1", []string{"X-Forwarded-For: 198.51.100.1, unknown"}, "10.0.0.1"},
		"empty":                        {"10.0.0.1", []string{"X-Forwarded-For: "}, "10.0.0.1"},
		"endless":                      {"10.0.0.1", []string{"X-Forwarded-For: 1.1.1.1" + strings.Repeat(",10.0.0.2", 10*maxHops)}, "10.0.0.2"},
	} {
		h := headOf(t, c.lines...)
		h.Address = netip.MustParseAddr(c.peer)
		if err := gate(h); err != nil || h.Address.String() != c.want {
			t.Errorf("%s: %s, %v; want %s", name, h.Address, err, c.want)
		}
	}
	h := headOf(t, "Host: inner", "X-Forwarded-Host: spoofed, app.example", "X-Forwarded-Proto: https")
	h.Address = netip.MustParseAddr("10.0.0.1")
	if err := gate(h); err != nil || string(h.Host) != "app.example" || !h.Secure {
		t.Errorf("%q, secure %v, %v", h.Host, h.Secure, err)
	}
	h = headOf(t, "Host: inner", "X-Forwarded-Host: app.example", "X-Forwarded-Proto: https")
	h.Address = netip.MustParseAddr("203.0.113.9")
	if err := gate(h); err != nil || string(h.Host) != "inner" || h.Secure {
		t.Errorf("from an untrusted address: %q, secure %v, %v", h.Host, h.Secure, err)
	}
	if TrustProxies(nil, "") != nil {
		t.Error("there is a gate without networks")
	}
}

func FuzzTrustProxies(f *testing.F) {
	f.Add("1.2.3.4, 10.0.0.1", "[::1]:80")
	f.Add(",,", " ")
	gate := TrustProxies([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, "")
	f.Fuzz(func(t *testing.T, one, two string) {
		h := new(fasthttp.RequestHeader)
		h.Add("X-Forwarded-For", one)
		h.Add("X-Forwarded-For", two)
		head := &proxy.Head{Address: netip.MustParseAddr("10.0.0.1"), Fields: h}
		if err := gate(head); err != nil || !head.Address.IsValid() || head.Address.Zone() != "" || head.Address.Is4In6() {
			t.Errorf("%s, %v", head.Address, err)
		}
	})
}
