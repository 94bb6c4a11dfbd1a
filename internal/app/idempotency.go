package app

import (
	"dragoman/policies/idempotency"

	"github.com/prometheus/client_golang/prometheus"
)

// buildIdempotency makes the policy for repeated requests. It runs inside audit and metrics, which see repeats too, and
// outside everything that counts, limits or judges: a repeat that waits for the response to its original takes no slot.
func (g *Generation) buildIdempotency() (err error) {
	c := g.Cfg.Idempotency
	opt := idempotency.Options{Mode: c.Mode, Window: c.Window, Max: c.Max, Bytes: c.Bytes}
	g.Duplicates, err = keep(g, "repeats", opt, spec[*idempotency.Policy]{build: func(reg prometheus.Registerer) (*idempotency.Policy, error) {
		return idempotency.New(opt, reg)
	}, stage: endsRepeats, close: (*idempotency.Policy).Close})
	return err
}
