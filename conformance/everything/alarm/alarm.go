// Package alarm limits how long the Next of a proxy.Replies waits.
package alarm

import "time"

// Alarm limits how long Next waits. It belongs to the reader, which stops it in Close.
type Alarm struct{ timer *time.Timer }

// Until returns a channel that fires at time t, nil for the zero time; false if t has passed.
func (a *Alarm) Until(t time.Time) (<-chan time.Time, bool) {
	if t.IsZero() {
		return nil, true
	}
	wait := time.Until(t)
	if wait <= 0 {
		return nil, false
	}
	if a.timer == nil {
		a.timer = time.NewTimer(wait)
	} else {
		a.timer.Reset(wait)
	}
	return a.timer.C, true
}

// Stop stops the timer. The alarm may be used again.
func (a *Alarm) Stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}
