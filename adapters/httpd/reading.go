package httpd

import (
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

// readingTime is how long a body may be read before it must make room for another that comes.
const readingTime = time.Second

// reading bounds the bodies that are being read. A body's buffer is made when its length is known, so that many clients who
// announce much and send little would have all the memory there is. Where there is no room for one more, those give way that have
// been coming for the longest: clients who send what they have are done by then.
type reading struct {
	max int // bytes; one body is read whatever its size

	mu    sync.Mutex
	used  int
	queue []*conn // in the order in which they began
}

// enter makes room for n bytes to be read from c, and tells whether there is any.
func (r *reading) enter(c *conn, n int, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.used > 0 && r.used+n > r.max {
		oldest := r.queue[0]
		if now.Sub(oldest.began) < readingTime {
			return false
		}
		r.remove(oldest)
		_ = oldest.inner.SetReadDeadline(now) // its reader finds that its time is over
	}
	c.room, c.began = n, now
	r.used += n
	r.queue = append(r.queue, c)
	return true
}

// leave gives back what c has, if anything.
func (r *reading) leave(c *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.room > 0 {
		r.remove(c)
	}
}

func (r *reading) remove(c *conn) {
	r.used -= c.room
	c.room = 0
	for i, other := range r.queue {
		if other == c {
			r.queue = append(r.queue[:i], r.queue[i+1:]...)
			return
		}
	}
}

// bodySize is how much memory the body of a request may take; one in chunks may be as large as is allowed.
func (s *Server) bodySize(h *fasthttp.RequestHeader) int {
	if n := h.ContentLength(); n != chunked {
		return max(n, 0)
	}
	return s.opts.MaxBody
}

// bodyRead ends what expect began.
func (s *Server) bodyRead(c *conn) {
	if c.large {
		c.large = false
		s.reading.leave(c)
	}
}
