package main

import "dragoman/policies"

// idempotency makes the policy of requests that come again. It stands within audit and metrics, which see repeats too, and before
// all that counts, limits or judges: who waits for the answer to another's request takes no slot.
func (h *house) idempotency() (err error) {
	c := h.cfg.Idempotency
	h.repeats, err = policies.NewIdempotency(policies.IdempotencyOptions{Mode: c.Mode, Window: c.Window, Max: c.Max, Bytes: c.Bytes}, h.metrics)
	return err
}
