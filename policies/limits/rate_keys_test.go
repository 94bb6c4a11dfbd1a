package limits

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// A principal with a rate of its own is held to that one, and the others to that of all clients, or to none.
func TestRateOfPrincipals(t *testing.T) {
	for _, all := range []int{0, 60} {
		synctest.Test(t, func(t *testing.T) {
			r, err := NewRate(RateOptions{PerMinute: all, Burst: 3, Principals: map[string]int{"fast": 600, "slow": 2}}, prometheus.NewRegistry())
			if err != nil {
				t.Fatal(err)
			}
			do := r.Policy()(func(*proxy.Exchange) (proxy.Replies, error) { return nil, nil })
			allowance := -1
			passed := func(principal string) (n int, last error) {
				m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
				if err != nil {
					t.Fatal(err)
				}
				for range 10 {
					ex := &proxy.Exchange{Msg: m, Caller: proxy.Caller{Principal: principal}}
					_, err := do(ex)
					allowance = ex.Allowance
					if err != nil {
						last = err
						continue
					}
					n++
				}
				return n, last
			}
			check := func(principal string, want int) {
				t.Helper()
				n, err := passed(principal)
				if n != want {
					t.Errorf("%d for all: %d requests of %s pass, want %d", all, n, principal, want)
				}
				if own := principal != "other"; want < 10 && strings.Contains(err.Error(), "security.api_keys.NAME.rate_limit") != own {
					t.Errorf("%s: %v", principal, err)
				}
			}
			other := 10
			if all > 0 {
				other = 3
			}
			check("slow", 2) // no more at once than in a minute
			if allowance != 1 {
				t.Errorf("an allowance of %d is left, want none and one", allowance)
			}
			check("fast", 3)
			check("other", other)
			time.Sleep(time.Second) // virtual time
			check("slow", 0)
			check("fast", 3) // ten are due, and three are the most
		})
	}
}
