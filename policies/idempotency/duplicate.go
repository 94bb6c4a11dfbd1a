package idempotency

import (
	"io"
	"time"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// duplicate is the replies to a request that came again before the first call had its response: that response, or, if the first call was
// cancelled, those of a call of its own. It waits on the goroutine that calls Next. Only when it takes over can a Next last beyond its
// time, for as long as a Handler may.
type duplicate struct {
	p     *Policy
	ex    *proxy.Exchange
	entry *entry
	next  proxy.Handler
	wake  chan struct{} // gets one value: the call is over, or this one's to make

	own  proxy.Replies // once it has taken over
	done bool          // nothing follows

	// The store's lock guards these; after wake, the caller of Next does.
	at    int  // index among those that wait; -1: it does not
	leads bool // it is to take over, and has not yet
}

// Next implements proxy.Replies.
func (w *duplicate) Next(until time.Time) (*wire.Message, error) {
	switch {
	case w.own != nil:
		return w.own.Next(until)
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
	if w.entry.tooLarge() {
		w.p.count("not_kept")
	} else {
		w.p.count("waited")
	}
	m, err := w.entry.message(w.ex)
	return &m, err
}

// wait waits for the first call, until the given time at most.
func (w *duplicate) wait(until time.Time) error {
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

func (w *duplicate) takeOver(until time.Time) (*wire.Message, error) {
	if cause := w.ex.Err(); cause != nil {
		return nil, cause // Close passes it on
	}
	w.leads = false
	w.ex.Clock.Waited()
	w.p.count("took_over")
	own, err := w.p.call(w.next, w.ex, w.entry)
	if err != nil || own == nil {
		w.done = true
		if err == nil {
			err = io.EOF
		}
		return nil, err
	}
	w.own = own
	return own.Next(until)
}

// Close implements proxy.Replies.
func (w *duplicate) Close() error {
	if w.own != nil {
		return w.own.Close()
	}
	s := w.p.store
	s.mu.Lock()
	s.leave(w)
	leads := w.leads
	w.leads = false
	s.mu.Unlock()
	if leads {
		s.abandon(w.entry)
	}
	return nil
}
