package health

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/policies"
	"dragoman/policies/internal/policytest"
)

// monitorRig is an upstream with its state, in a synctest bubble.
type monitorRig struct {
	*Monitor
	t       *testing.T
	mu      sync.Mutex
	err     error // the result of checks
	hang    bool  // checks are not answered
	checks  int
	changes []Change
	warned  []string
	began   time.Time
}

func newMonitorRig(t *testing.T, change func(*Options)) *monitorRig {
	t.Helper()
	k := &monitorRig{t: t, began: time.Now()}
	opt := Options{Name: "up", Interval: 30 * time.Second, Timeout: 5 * time.Second,
		Check: func(ctx context.Context) error {
			k.mu.Lock()
			k.checks++
			err, hang := k.err, k.hang
			k.mu.Unlock()
			if hang {
				<-ctx.Done()
				return ctx.Err()
			}
			return err
		},
		Restored: func(context.Context) {}, Metrics: NewMetrics(policies.NewRegistry(prometheus.NewRegistry())), Running: NewRunning(),
		Changed: func(c Change) { k.changes = append(k.changes, c) },
		Warned:  func(text string) { k.warned = append(k.warned, text) }}
	if change != nil {
		change(&opt)
	}
	k.Monitor = NewMonitor(opt)
	k.Start()
	t.Cleanup(k.Close)
	return k
}

func (k *monitorRig) find(err error, hang bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err, k.hang = err, hang
}

func (k *monitorRig) is(want State) {
	k.t.Helper()
	synctest.Wait()
	if r := k.Now(); r.State != want {
		k.t.Fatalf("after %v: %+v, want %s", time.Since(k.began), r, want)
	}
}

func (k *monitorRig) call(err error) error {
	k.t.Helper()
	return policytest.Run(k.t, k.Policy, policytest.Call, err)
}
