package sessions

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"

	"dragoman/adapters/era/internal/fakeserver"
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

// The identity of a client that describes itself as it did before is not derived anew, unless its description is large.
func TestRecentIdentities(t *testing.T) {
	large := append(append([]byte(`{"name":"`), bytes.Repeat([]byte("n"), recentMost/2)...), `"}`...)
	for name, c := range map[string]struct {
		principal  string
		info, caps []byte
		cached     bool
	}{
		"small":           {"p", []byte(`{"name":"n"}`), []byte(`{}`), true},
		"at the bound":    {strings.Repeat("p", recentMost-4), []byte(`{}`), []byte(`{}`), true},
		"large principal": {strings.Repeat("p", recentMost-3), []byte(`{}`), []byte(`{}`), false},
		"large in all":    {"p", large, large, false},
	} {
		p := &Pool{server: &transport.Server{Self: []byte(`{}`)}}
		ex := &proxy.Exchange{Caller: proxy.Caller{Principal: c.principal}, Client: proxy.Client{Info: c.info, Caps: c.caps}}
		if n := testing.AllocsPerRun(100, func() { p.identify(ex) }); (n == 0) != c.cached {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// A client is told apart by its caller and its name, whatever capabilities it declares; its sessions by these too.
func TestIdentityAndGroup(t *testing.T) {
	p := &Pool{server: &transport.Server{Self: []byte(`{}`)}}
	of := func(principal, info, caps string) identity {
		return p.identity(&proxy.Exchange{Caller: proxy.Caller{Principal: principal}, Client: proxy.Client{Info: []byte(info), Caps: []byte(caps)}})
	}
	one := of("p", `{"name":"a"}`, `{}`)
	for _, c := range []struct {
		other      identity
		key, group bool
	}{{of("p", `{"name":"a"}`, `{}`), true, true}, {of("p", `{"name":"a"}`, `{"roots":{}}`), false, true}, {of("p", `{"name":"b"}`, `{}`), false, false}, {of("q", `{"name":"a"}`, `{}`), false, false}} {
		if (one.key == c.other.key) != c.key || (one.group == c.other.group) != c.group {
			t.Errorf("%s %s %s: the same session %v, the same client %v", c.other.caller.Principal, c.other.info, c.other.caps, !c.key, !c.group)
		}
	}
}

// Sessions that all callers share know whether several have come, since the server may speak of any of them.
func TestSeveralCallers(t *testing.T) {
	p := &Pool{server: &transport.Server{Self: []byte(`{}`)}, opt: Options{Isolation: Isolation{Sharing: Shared}}}
	for i, c := range []struct {
		principal string
		several   bool
	}{{"p", false}, {"p", false}, {"q", true}, {"p", true}} {
		p.identity(&proxy.Exchange{Caller: proxy.Caller{Principal: c.principal}})
		if p.Several() != c.several {
			t.Errorf("call %d: several %v", i, p.Several())
		}
	}
}

// A server gets the name and the capabilities of its client; those of Dragoman if the client has no name, or shares the session.
func TestSessionIsOpenedInTheClientsName(t *testing.T) {
	const own = `"clientInfo":{"name":"dragoman","version":"1"}`
	for name, c := range map[string]struct {
		sharing    Sharing
		declareAll bool
		info, caps string
		want       []string
	}{
		"its own":         {BySession, false, `{"name":"n"}`, `{"roots":{}}`, []string{`"clientInfo":{"name":"n"}`, `"capabilities":{"roots":{}}`}},
		"without one":     {BySession, false, ``, `{"roots":{}}`, []string{own, `"capabilities":{"roots":{}}`}},
		"shared":          {Shared, false, `{"name":"n"}`, `{"roots":{}}`, []string{own, `"capabilities":{}`}},
		"promised":        {BySession, true, `{"name":"n"}`, `{}`, []string{`"roots":{}`, `"sampling":{"tools":{}}`}},
		"never to a pool": {Pooled, true, `{"name":"n"}`, `{}`, []string{own, `"capabilities":{}`}},
	} {
		synctest.Test(t, func(t *testing.T) {
			server := &fakeserver.Server{}
			r := newRig(server)
			r.opt.Isolation.Sharing, r.opt.DeclareAll = c.sharing, c.declareAll
			ex := of(t, "p", c.caps, aCall)
			ex.Client.Info = nil
			if c.info != "" {
				ex.Client.Info = []byte(c.info)
			}
			r.acquire(t, ex, 0)
			for _, want := range c.want {
				if got := said(server)[0]; !strings.Contains(got, want) {
					t.Errorf("%s: %s, want %s", name, got, want)
				}
			}
			r.close(t)
		})
	}
}
