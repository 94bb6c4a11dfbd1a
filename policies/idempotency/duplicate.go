package idempotency

import (
	"io"
	"time"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// repeat are the replies to a request that came again before the first had its response: that response; or, if the first is
// cancelled, those of making it anew. It waits on the goroutine that calls Next. Only when it has to take over can a Next last
// beyond its time, for as long as a Handler may.
type repeat struct {
	p    *Policy
	ex   *proxy.Exchange
	memo *memo
	next proxy.Handler
	wake chan struct{} // gets one value: the memo is over, or is this one's to lead
	lead proxy.Replies // once it has taken over
	done bool          // nothing follows

	// Of Policy.mu, and after wake of whoever calls Next.
	at    int  // its place among those who wait; -1: it does not
	leads bool // it is to take over, and has not yet
}

// Next implements proxy.Replies.
func (w *repeat) Next(until time.Time) (*wire.Message, error) {
	switch {
	case w.lead != nil:
		return w.lead.Next(until)
	case w.done:
		return nil, io.EOF
	}
	if err := w.wait(until); err != nil {
		return nil, err
	}
	if w.leads {
		return w.takeOver(until)
	}
	w.done = true
	if m := w.memo; m.raw == nil && m.err == nil {
		w.p.count("not_kept")
	} else {
		w.p.count("waited")
	}
	m, err := w.memo.message(w.ex)
	return &m, err
}

// wait waits for the first call, until the given time at most.
func (w *repeat) wait(until time.Time) error {
	select {
	case <-w.wake:
		return nil
	default:
	}
	var late <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-w.wake:
		return nil
	case <-w.ex.Done():
		return w.ex.Err()
	case <-late:
		return proxy.ErrNotYet
	}
}

func (w *repeat) takeOver(until time.Time) (*wire.Message, error) {
	if cause := w.ex.Err(); cause != nil {
		return nil, cause // Close passes it on
	}
	w.leads = false
	w.ex.Clock.Waited()
	w.p.count("took_over")
	lead, err := w.p.lead(w.next, w.ex, w.memo)
	if err != nil || lead == nil {
		w.done = true
		if err == nil {
			err = io.EOF
		}
		return nil, err
	}
	w.lead = lead
	return lead.Next(until)
}

// Close implements proxy.Replies.
func (w *repeat) Close() error {
	if w.lead != nil {
		return w.lead.Close()
	}
	w.p.mu.Lock()
	w.p.leave(w)
	leads := w.leads
	w.leads = false
	w.p.mu.Unlock()
	if leads {
		w.p.abandon(w.memo)
	}
	return nil
}
