package netpoll

import (
	"net"
	"time"
)

// ReadDeadline is the read deadline of a connection. It moves the system's deadline only when it must, because each move costs a
// timer and a request has several. The system's may lie before the wanted one: a read that fails then asks Retry.
type ReadDeadline struct{ want, set time.Time }

// Set makes t the deadline of c. The zero time is none.
func (d *ReadDeadline) Set(c net.Conn, t time.Time) error {
	d.want = t
	if d.set.IsZero() && t.IsZero() || !d.set.IsZero() && (t.IsZero() || !d.set.After(t)) {
		return nil
	}
	d.set = t
	return c.SetReadDeadline(t)
}

// Reset notes that the system's deadline was set to t.
func (d *ReadDeadline) Reset(t time.Time) { d.want, d.set = t, t }

// Retry reports whether a read of c that ran into the deadline was to wait longer. The deadline is moved then.
func (d *ReadDeadline) Retry(c net.Conn) bool {
	if d.set.Equal(d.want) || !d.want.IsZero() && !time.Now().Before(d.want) {
		return false
	}
	d.set = d.want
	return c.SetReadDeadline(d.want) == nil
}

// WriteDeadline keeps the write deadline of a connection between one and two timeouts away. It moves it only when less than one is
// left, because each move costs a timer.
type WriteDeadline struct{ at time.Time }

// Extend gives the next write to c the timeout.
func (d *WriteDeadline) Extend(c net.Conn, now time.Time, timeout time.Duration) error {
	if d.at.Sub(now) >= timeout {
		return nil
	}
	d.at = now.Add(2 * timeout)
	return c.SetWriteDeadline(d.at)
}
