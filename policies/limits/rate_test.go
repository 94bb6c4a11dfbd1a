package limits

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"dragoman/policies/internal/policytest"
	"dragoman/proxy"
)

// rateRig is the limits in front of a handler that succeeds.
type rateRig struct {
	t *testing.T
	r *Rate
}

func newRateRig(t *testing.T, opt RateOptions) *rateRig {
	t.Helper()
	r, err := NewRate(opt, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return &rateRig{t, r}
}

const listRequest = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`

func yes(*proxy.Exchange) (proxy.Replies, error) { return nil, nil }

// send sends n requests of a caller, and returns how many were admitted and the last refusal.
func (r *rateRig) send(p proxy.Policy, n int, who proxy.Caller, body string) (through int, refusal *proxy.Error) {
	r.t.Helper()
	for range n {
		_, err := p(yes)(&proxy.Exchange{Msg: policytest.Scan(r.t, body), Caller: who})
		if err == nil {
			through++
		} else if !errors.As(err, &refusal) {
			r.t.Fatal(err)
		}
	}
	return through, refusal
}

func TestRateOfAClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRateRig(t, RateOptions{PerMinute: 60, Burst: 5})
		p, ann, bob := r.r.Policy(), proxy.Caller{Principal: "ann"}, proxy.Caller{Principal: "bob"}
		n, refusal := r.send(p, 8, ann, listRequest)
		if n != 5 || refusal.Name != proxy.TooFast.Name || refusal.RetryAfter != 1 || !strings.Contains(refusal.Message, "security.rate_limit") {
			t.Fatalf("%d admitted, %+v", n, refusal)
		}
		if n, _ := r.send(p, 8, bob, listRequest); n != 5 {
			t.Errorf("another client: %d", n)
		}
		if n, _ := r.send(p, 20, ann, `{"jsonrpc":"2.0","id":1,"method":"ping"}`); n != 20 {
			t.Errorf("pings: %d", n)
		}
		if n, _ := r.send(p, 20, ann, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`); n != 20 {
			t.Errorf("notifications: %d", n)
		}
		time.Sleep(time.Duration(refusal.RetryAfter) * time.Second)
		if n, _ := r.send(p, 8, ann, listRequest); n != 1 {
			t.Errorf("at the time of Retry-After: %d, want 1", n)
		}
		time.Sleep(time.Hour)
		if n, _ := r.send(p, 8, ann, listRequest); n != 5 {
			t.Errorf("a bucket holds %d, want its burst", n)
		}
		ex := &proxy.Exchange{Msg: policytest.Scan(t, listRequest), Caller: proxy.Caller{Principal: "cem"}}
		if _, err := p(yes)(ex); err != nil || ex.Allowance != 1+4 {
			t.Errorf("allowance %d, %v; want 4 and one", ex.Allowance, err)
		}
		if n := testutil.ToFloat64(r.r.refused.WithLabelValues("client")); n != 3+3+7+3 {
			t.Errorf("%v refusals counted", n)
		}
	})
}

func TestRateOfTheAnonymousIsByAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRateRig(t, RateOptions{PerMinute: 60, Burst: 2})
		p := r.r.Policy()
		for _, c := range []struct {
			addr string
			want int
		}{{"192.0.2.1", 2}, {"192.0.2.2", 2}, {"192.0.2.1", 0}, {"2001:db8::1", 2}, {"2001:db8::2", 0}, {"2001:db8:0:1::1", 2}} {
			if n, _ := r.send(p, 5, proxy.Caller{Address: netip.MustParseAddr(c.addr)}, listRequest); n != c.want {
				t.Errorf("%s: %d, want %d", c.addr, n, c.want)
			}
		}
		if n, _ := r.send(p, 5, proxy.Caller{}, listRequest); n != 2 {
			t.Errorf("without an address: %d", n)
		}
		if n, _ := r.send(p, 5, proxy.Caller{Principal: "ann", Address: netip.MustParseAddr("192.0.2.1")}, listRequest); n != 2 {
			t.Errorf("a known caller was counted by address: %d", n)
		}
	})
}

func TestRateOfAllAndOfTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRateRig(t, RateOptions{Total: 10})
		n, refusal := r.send(r.r.Policy(), 12, proxy.Caller{Principal: "ann"}, listRequest)
		if n != 10 || refusal.RetryAfter != 6 || !strings.Contains(refusal.Message, "limits.rate") {
			t.Errorf("%d, %+v", n, refusal)
		}
		p := r.r.Tools("up", map[string]int{"dear": 3, "mass_*": 5})
		call := func(name string) string {
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":{}}}`, name)
		}
		for _, c := range []struct {
			name string
			want int
		}{{"dear", 3}, {"mass_a", 5}, {"mass_b", 0}, {"other", 9}} {
			if n, refusal := r.send(p, 9, proxy.Caller{}, call(c.name)); n != c.want || n < 9 && !strings.Contains(refusal.Message, "upstreams.up.tools") {
				t.Errorf("%s: %d, want %d; %v", c.name, n, c.want, refusal)
			}
		}
		if n, _ := r.send(p, 9, proxy.Caller{}, strings.Replace(call("dear"), "tools/call", "prompts/get", 1)); n != 9 {
			t.Errorf("a prompt of that name: %d", n)
		}
		off := newRateRig(t, RateOptions{})
		if off.r.Policy() != nil || off.r.Gate() != nil || off.r.Where() != nil || off.r.Tools("up", nil) != nil {
			t.Error("there is a policy although it is off")
		}
	})
}

func TestRateOfAnAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRateRig(t, RateOptions{Address: 30})
		gate := r.r.Gate()
		through := 0
		var refusal *proxy.Error
		for range 50 {
			if refusal = gate(&proxy.Head{Address: netip.MustParseAddr("192.0.2.1")}); refusal == nil {
				through++
			}
		}
		if through != 30 || refusal == nil || refusal.Status != 429 || refusal.RetryAfter != 2 {
			t.Errorf("%d, %+v", through, refusal)
		}
		if gate(&proxy.Head{Address: netip.MustParseAddr("192.0.2.2")}) != nil {
			t.Error("another address is refused")
		}
	})
}

func TestRateForgetsTheLeastRecent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRateRig(t, RateOptions{})
		r.r.clients = newClients(60, 1, 100)
		p := r.r.Policy()
		for i := range 10_000 {
			_, _ = r.send(p, 1, proxy.Caller{Principal: fmt.Sprint(i)}, listRequest)
		}
		if n := r.r.clients.all.Len(); n != 100 {
			t.Errorf("%d clients are stored", n)
		}
	})
}

// A frequent client is not evicted for newer ones, and clients whose slot it has get buckets of their own.
func TestRateOfFrequentClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRateRig(t, RateOptions{})
		r.r.clients = newClients(60, 5, 10)
		p, ann := r.r.Policy(), proxy.Caller{Principal: "ann"}
		if n, _ := r.send(p, 9, ann, listRequest); n != 5 {
			t.Fatalf("%d admitted at first", n)
		}
		through := 0
		for i := range 35 {
			time.Sleep(100 * time.Millisecond)
			for k := range 7 {
				_, _ = r.send(p, 1, proxy.Caller{Principal: fmt.Sprint("other ", i, k)}, listRequest)
			}
			n, _ := r.send(p, 1, ann, listRequest)
			through += n
		}
		if through != 3 {
			t.Errorf("%d admitted in 3.5 s", through)
		}
		if a, b := (sender{principal: "ann"}), (sender{principal: "inn"}); a.place() != b.place() {
			t.Fatal("they do not share a slot")
		}
		if n, _ := r.send(p, 9, proxy.Caller{Principal: "inn"}, listRequest); n != 5 {
			t.Errorf("%d of another client in the same slot admitted", n)
		}
		if n, _ := r.send(p, 1, ann, listRequest); n != 0 {
			t.Error("the bucket was given to the other")
		}
	})
}

// Finding a client's bucket allocates nothing.
func TestRateMakesNoGarbage(t *testing.T) {
	r := newRateRig(t, RateOptions{Address: 1_000_000, PerMinute: 1})
	gate := r.r.Gate()
	heads := []*proxy.Head{{Address: netip.MustParseAddr("192.0.2.1")}, {Address: netip.MustParseAddr("2001:db8::1")}, {}}
	if n := testing.AllocsPerRun(100, func() {
		for _, h := range heads {
			if gate(h) != nil {
				t.Fatal("refused")
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
