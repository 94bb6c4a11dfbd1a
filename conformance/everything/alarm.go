package everything

import "time"

// alarm limits how long Next waits. It belongs to the reader, which stops it in Close.
type alarm struct{ timer *time.Timer }

// until returns a channel that fires at time t, nil for the zero time; false if t has passed.
func (a *alarm) until(t time.Time) (<-chan time.Time, bool) {
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

func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}
