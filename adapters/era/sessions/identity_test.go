package sessions

import (
	"testing"

	"dragoman/adapters/transport"
	"dragoman/proxy"
)

// Users of one principal that forwarded headers tell apart share no session and no process, unless all callers do.
func TestIdentifyUsers(t *testing.T) {
	of := func(user byte) *proxy.Exchange {
		ex := &proxy.Exchange{Caller: proxy.Caller{Principal: "p"}}
		if user > 0 {
			ex.Caller.Forwarded = &proxy.Forwarded{Sum: [16]byte{user}}
		}
		return ex
	}
	for _, c := range []struct {
		isolation Isolation
		apart     bool
	}{{Isolation{}, true}, {Isolation{Sharing: ByPrincipal}, true}, {Isolation{Sharing: Pooled, Size: 2}, false}, {Isolation{Sharing: Shared}, false}} {
		p := &Pool{server: &transport.Server{Self: []byte(`{}`)}, opt: Options{Isolation: c.isolation}}
		for range 2 { // the second time from the cache
			one, two, none := p.identify(of(1)), p.identify(of(2)), p.identify(of(0))
			if (one.key != two.key) != c.apart || (one.group != two.group) != c.apart || (one.key != none.key) != c.apart || one.key != p.identify(of(1)).key {
				t.Errorf("%+v: %x %x %x", c.isolation, one.key, two.key, none.key)
			}
		}
		x := &Links{opt: p.opt}
		x.wires.Stdio = true
		one, two := x.Key(of(1).Caller.Identity()), x.Key(of(2).Caller.Identity())
		if (one != two) != (c.isolation.Sharing == ByPrincipal) {
			t.Errorf("%+v: processes %+v and %+v", c.isolation, one, two)
		}
	}
}
