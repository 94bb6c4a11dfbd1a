package httpclient

import (
	"fmt"
	"sync"
	"time"
)

const (
	// smallArrival is the size up to which a part of an answer does not count: the number of connections bounds these.
	smallArrival = 64 << 10
	// overrunPause is the least time between two calls of HostOptions.Overrun.
	overrunPause = time.Minute
)

// Arrivals bounds the bytes of answers that are arriving from servers: of bodies and events of which a part has come, and which have not
// been passed on. One server has three quarters of them at most. One answer may arrive whatever its size, and parts of 64 KiB do not
// count.
type Arrivals struct {
	most int

	mu   sync.Mutex // guards the counts of Hosts and connections, too
	used int
}

// NewArrivals returns the bound for all Hosts together, in bytes; 0 is none.
func NewArrivals(most int) *Arrivals { return &Arrivals{most: most} }

// ArrivalError reports that there is no room for more of an answer.
type ArrivalError struct {
	Limit int  // in bytes
	Own   bool // the limit is the server's share, so that it alone is at fault
}

// Error returns the limit.
func (e *ArrivalError) Error() string {
	whose := "all servers"
	if e.Own {
		whose = "one server"
	}
	return fmt.Sprintf("httpd: unfinished answers of %s hold more than %d bytes", whose, e.Limit)
}

// Hold counts n bytes of the answer as held until the Response ends, in place of those that were counted before. It implements
// eventstream.Holder. The error is an *ArrivalError; the count is as before then.
func (r Response) Hold(n int) error {
	if c := r.conn(); c != nil {
		return c.hold(n)
	}
	return nil
}

func (c *conn) hold(n int) error {
	h := c.host
	if h.opts.Arrivals == nil || h.opts.Arrivals.most <= 0 {
		return nil
	}
	if n <= smallArrival {
		n = 0
	}
	if n == 0 && c.held == 0 {
		return nil
	}
	err, tell := h.opts.Arrivals.hold(h, c, n)
	if tell && h.opts.Overrun != nil {
		h.opts.Overrun(err)
	}
	if err != nil {
		return err
	}
	return nil
}

// hold changes what c holds to n bytes. tell reports that HostOptions.Overrun is due.
func (a *Arrivals) hold(h *Host, c *conn, n int) (err *ArrivalError, tell bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	more, share := n-c.held, a.most-a.most/4
	switch {
	case more > 0 && h.held > c.held && h.held+more > share:
		err = &ArrivalError{Limit: share, Own: true}
	case more > 0 && a.used > c.held && a.used+more > a.most:
		err = &ArrivalError{Limit: a.most}
	default:
		c.held += more
		h.held += more
		a.used += more
		return nil, false
	}
	if now := time.Now(); now.Sub(h.overran) >= overrunPause {
		h.overran, tell = now, true
	}
	return err, tell
}
