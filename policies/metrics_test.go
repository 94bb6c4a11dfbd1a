package policies_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/policies"
	"dragoman/policies/internal/policytest"
)

// Counters go on when they are made again. Everything that cannot be registered is reported.
func TestRegistry(t *testing.T) {
	to := prometheus.NewRegistry()
	for range 2 {
		r := policies.NewRegistry(to)
		r.Counter("calls", "Calls.", "server").WithLabelValues("a").Inc()
		if err := r.Err(); err != nil {
			t.Fatal(err)
		}
	}
	if got := policytest.Labels(t, to, "calls", "server"); got["a"] != 2 || len(got) != 1 {
		t.Errorf("counted %v, want 2", got)
	}
	r := policies.NewRegistry(to)
	r.Gauge("size", "Size.", func() int { return 7 })
	if err := r.Err(); err != nil || policytest.Metric(t, to, "size") != 7 {
		t.Errorf("a gauge reads %v, %v", policytest.Metric(t, to, "size"), err)
	}
	r.Gauge("size", "Size.", func() int { return 8 })
	r.Counter("calls", "Calls.", "other").WithLabelValues("b").Inc()
	if err := r.Err(); err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("%v, want two errors", err)
	}
}
