package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"dragoman/policies"
)

// idempotency makes the policy of requests that come again. It stands within audit and metrics, which see repeats too, and before
// all that counts, limits or judges: who waits for the answer to another's request takes no slot.
func (h *house) idempotency() (err error) {
	c := h.cfg.Idempotency
	opt := policies.IdempotencyOptions{Mode: c.Mode, Window: c.Window, Max: c.Max, Bytes: c.Bytes}
	h.repeats, err = keep(h, "repeats", opt, made[*policies.Idempotency]{build: func(reg prometheus.Registerer) (*policies.Idempotency, error) {
		return policies.NewIdempotency(opt, reg)
	}, stage: endsRepeats, end: (*policies.Idempotency).Close})
	return err
}
