package httpd

import (
	"net"
	"time"
)

// readDeadline keeps a connection's read deadline, and has the system's moved only where it must be, because each move costs a
// timer, and a request has several: it may stand earlier than is wanted, and whoever meets it then sees to the rest.
type readDeadline struct{ want, set time.Time }

// to makes t the deadline; zero is none.
func (d *readDeadline) to(c net.Conn, t time.Time) error {
	d.want = t
	if d.set.IsZero() && t.IsZero() || !d.set.IsZero() && (t.IsZero() || !d.set.After(t)) {
		return nil
	}
	d.set = t
	return c.SetReadDeadline(t)
}

// early reports whether a read that has met the deadline was to wait longer; then it can be made again.
func (d *readDeadline) early(c net.Conn) bool {
	if d.set.Equal(d.want) || !d.want.IsZero() && !time.Now().Before(d.want) {
		return false
	}
	d.set = d.want
	return c.SetReadDeadline(d.want) == nil
}

// writeDeadline keeps a connection's write deadline between one and two timeouts away. It is moved only when it has
// come nearer than one, because each move costs a timer.
type writeDeadline struct{ at time.Time }

func (d *writeDeadline) extend(c net.Conn, now time.Time, timeout time.Duration) error {
	if d.at.Sub(now) >= timeout {
		return nil
	}
	d.at = now.Add(2 * timeout)
	return c.SetWriteDeadline(d.at)
}
