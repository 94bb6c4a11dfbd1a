package app

import (
	"dragoman/policies/idempotency"

	"github.com/prometheus/client_golang/prometheus"
)

// buildIdempotency makes the policy of requests that come again. It stands within audit and metrics, which see repeats too, and before
// all that counts, limits or judges: who waits for the answer to another's request takes no slot.
func (g *Generation) buildIdempotency() (err error) {
	c := g.Cfg.Idempotency
	opt := idempotency.Options{Mode: c.Mode, Window: c.Window, Max: c.Max, Bytes: c.Bytes}
	g.Duplicates, err = keep(g, "repeats", opt, spec[*idempotency.Policy]{build: func(reg prometheus.Registerer) (*idempotency.Policy, error) {
		return idempotency.New(opt, reg)
	}, stage: endsRepeats, close: (*idempotency.Policy).Close})
	return err
}
