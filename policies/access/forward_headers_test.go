package access

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"dragoman/proxy"
)

// Forwarded headers identify callers without other credentials, and no others. All forwarded headers but trace headers distinguish callers.
func TestForwardedHeaders(t *testing.T) {
	if gate, err := ForwardHeaders(ForwardOptions{}); gate != nil || err != nil {
		t.Errorf("without names: %p, %v", gate, err)
	}
	of := func(opt ForwardOptions, who proxy.Caller, headers ...string) proxy.Caller {
		t.Helper()
		if opt.Names == nil {
			opt.Names = []string{"X-Tenant", "x-token", "X-TENANT", "Traceparent"}
		}
		opt.Metrics = prometheus.NewRegistry()
		gate, err := ForwardHeaders(opt)
		if err != nil {
			t.Fatal(err)
		}
		var fields fasthttp.RequestHeader
		for i := 0; i+1 < len(headers); i += 2 {
			fields.Add(headers[i], headers[i+1])
		}
		h := &proxy.Head{Fields: &fields, Caller: who}
		if err := gate(h); err != nil {
			t.Fatal(err)
		}
		return h.Caller
	}
	nobody := proxy.Caller{}
	key := ForwardOptions{Key: []byte("0123456789abcdef0123456789abcdef")}
	a := of(key, nobody, "X-Tenant", "a", "X-Token", "b")
	if value, ok := a.Forwarded.Get("x-tenant"); !ok || value != "a" || !strings.HasPrefix(a.Principal, "carried:") || !a.Forwarded.Alone || len(a.Forwarded.Headers) != 2 {
		t.Errorf("%+v %+v", a, a.Forwarded)
	}
	if b := of(key, nobody, "x-token", "b", "x-tenant", "a", "traceparent", "1"); !b.Is(&a) || b.Sum() != a.Sum() {
		t.Errorf("the same, traced: %+v", b)
	}
	for _, other := range [][]string{{"X-Tenant", "a"}, {"X-Tenant", "ab"}, {"X-Tenant", "b", "X-Token", "a"}, {"X-Tenant", "a", "X-Token", "b2"}} {
		if b := of(key, nobody, other...); b.Is(&a) || b.Sum() == a.Sum() {
			t.Errorf("%q is %+v", other, b)
		}
	}
	if b := of(ForwardOptions{}, nobody, "X-Tenant", "a", "X-Token", "b"); b.Is(&a) {
		t.Error("the principal can be computed from the token")
	}
	for _, none := range [][]string{{}, {"X-Tenant", ""}, {"X-Other", "x"}} {
		if b := of(key, nobody, none...); b.Principal != "" || b.Forwarded == nil || len(b.Forwarded.Headers) != 0 || b.Sum() != [16]byte{} {
			t.Errorf("%q is %+v", none, b)
		}
	}
	if b := of(key, nobody, "traceparent", "1"); b.Principal != "" || len(b.Forwarded.Headers) != 1 {
		t.Errorf("a trace header gives %+v", b)
	}
	if b := of(key, proxy.Caller{Principal: "p"}, "X-Tenant", "a", "X-Token", "b"); b.Principal != "p" || b.Forwarded.Alone || b.Sum() != a.Sum() {
		t.Errorf("known: %+v", b)
	}
}
