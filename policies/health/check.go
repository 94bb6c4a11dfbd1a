package health

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"dragoman/policies"
	"dragoman/proxy"
)

// plan sets when the next check is due. The caller holds mu.
func (h *Monitor) plan(at time.Time) {
	h.planned = at
	h.wake()
}

// wake makes the checking goroutine look at the plan.
func (h *Monitor) wake() {
	select {
	case h.nudge <- struct{}{}:
	default:
	}
}

// Start begins checking, until Close. Child processes are not checked: none is started only to find out whether it
// could be.
func (h *Monitor) Start() {
	if !h.checks() {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	h.mu.Lock()
	h.stop = stop
	if h.planned.IsZero() {
		h.planned = time.Now().Add(spread(h.opt.Interval))
	}
	h.mu.Unlock()
	h.group.Go(func() { h.run(ctx) })
}

// Close ends checking and waits for a check that is under way.
func (h *Monitor) Close() {
	h.mu.Lock()
	stop := h.stop
	h.mu.Unlock()
	stop()
	h.group.Wait()
}

// Recheck makes a check due now.
func (h *Monitor) Recheck() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.plan(time.Now())
}

func (h *Monitor) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		h.mu.Lock()
		wait, restored := time.Until(h.planned), h.restored
		h.restored = false
		h.mu.Unlock()
		switch {
		case restored:
			restoring, done := context.WithTimeout(ctx, h.opt.Timeout)
			h.opt.Restored(restoring)
			done()
			continue
		case wait <= 0:
			h.runCheck(ctx)
			if ctx.Err() != nil {
				return
			}
			continue
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-h.nudge:
		case <-ctx.Done():
			return
		}
	}
}

// runCheck makes one check. A server that is not connected gets more time, since its protocol may have to be probed first.
func (h *Monitor) runCheck(ctx context.Context) {
	limit := h.opt.Timeout
	h.update(func(time.Time) {
		if h.base != Connected || h.down {
			limit = max(limit, connectTime)
		}
		h.trying = h.down
		if h.base == Disconnected {
			h.base = Connecting
		}
	})
	asking, done := context.WithTimeout(ctx, limit)
	defer done()
	began := time.Now()
	err := h.opt.Check(asking)
	took := time.Since(began)
	if ctx.Err() != nil {
		return
	}
	if err != nil && asking.Err() != nil {
		err = proxy.Errf(proxy.UpstreamTimeout, "no answer to a health check within %s", limit)
	}
	h.update(func(now time.Time) { h.recordCheck(now, began, took, err) })
}

// recordCheck records the result of a check. The caller holds mu.
func (h *Monitor) recordCheck(now, began time.Time, took time.Duration, err error) {
	h.checkedAt, h.took = now, took
	h.plan(now.Add(spread(h.opt.Interval)))
	outcome, warning := "ok", ""
	status := policies.HTTPStatus(err)
	switch {
	case err == nil:
		h.succeeded(now)
	case status != 0 && status < 500: // the server is alive and rejects this kind of check (seed 004, BR-006)
		outcome, warning = "warning", fmt.Sprintf("the health check was answered with HTTP %d", status)
		h.succeeded(now)
	case isOurs(err):
		outcome = "skipped"
		if h.down {
			h.postpone(now)
		}
	default:
		outcome = "failure"
		wasDown := h.down
		h.failed(now, began, err, true)
		if wasDown {
			h.postpone(now)
		}
	}
	h.opt.Metrics.checks.WithLabelValues(h.opt.Name, outcome).Inc()
	if warning != "" && warning != h.warning {
		h.opt.Warned(warning)
	}
	h.warning = warning
}

// verdict is the meaning of an outcome for the server's health.
type verdict int

const (
	verdictNone   verdict = iota // nothing
	verdictGood                  // it answers
	verdictUnsure                // the server has failed, or only this call has
	verdictSure                  // nobody is there
)

// judge returns what a failure says about the server: nothing if the client or this proxy is to blame, or if the server
// was able to refuse.
func judge(err error) verdict {
	e, ok := errors.AsType[*proxy.Error](err)
	if !ok || e.Blame == "dragoman" {
		return verdictNone
	}
	switch e.Name {
	case proxy.Unreachable.Name, proxy.EraUnknown.Name:
		return verdictSure
	case proxy.Lost.Name, proxy.BadAnswer.Name, proxy.UpstreamTimeout.Name:
		return verdictUnsure
	case proxy.HTTPStatus.Name, proxy.Overloaded.Name, proxy.UpstreamFailed.Name:
		if policies.HTTPStatus(e) >= 500 {
			return verdictUnsure
		}
	}
	return verdictNone
}

// isUnusable reports whether the error of a probe shows that the server cannot be used.
func isUnusable(err error) bool {
	e, ok := errors.AsType[*proxy.Error](err)
	return ok && e.Blame == "upstream" && policies.HTTPStatus(e) == 0 && !isOurs(err)
}

// isOurs reports whether a check failed for reasons of this proxy.
func isOurs(err error) bool {
	e, ok := errors.AsType[*proxy.Error](err)
	return ok && (e.Blame == "dragoman" || e.Name == proxy.Overloaded.Name && policies.HTTPStatus(e) == 0)
}

// isSilence reports whether a server could not be reached because nothing comes back from its address. Its open
// connections are then dead too, and will not report it.
func isSilence(err error) bool {
	if e, ok := errors.AsType[*proxy.Error](err); !ok || e.Name != proxy.Unreachable.Name {
		return false
	}
	timeout, ok := errors.AsType[net.Error](err)
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || ok && timeout.Timeout() ||
		errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH)
}
