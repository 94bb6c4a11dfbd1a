package httpd

import "github.com/valyala/fasthttp"

// Leaver is told that a client has left. Leave is called at most once for each Watch, on the watcher's goroutine or
// inside Watch. It must return quickly, must not call Watch or Disarm, and must not wait for a lock that is held around
// a call of Watch or Disarm.
type Leaver interface{ Leave() }

// Armed is a Watch that stands. The zero value stands for none.
type Armed struct {
	c   *conn
	gen uint64
}

// Watch has l told as soon as the client of ctx closes its connection, resets it, or closes its sending half, whether or
// not requests are still in the pipe. If the client has already left, Leave is called before Watch returns. A connection
// has one Leaver: a second Watch disarms the first. A request whose connection has no socket (an in-memory listener) is
// not watched.
//
// Whoever calls Watch must call Disarm before the answer is complete, for a body from Stream in Source.Close at the
// latest; the next request on the connection is not this one's business.
func Watch(ctx *fasthttp.RequestCtx, l Leaver) Armed {
	c := connOf(ctx)
	if c == nil {
		return Armed{}
	}
	return c.arm(l)
}

// Disarm ends the Watch. When it returns, Leave is not running and never will be, so the Leaver may be reused. Only
// the first call counts; it may be made from any goroutine.
func (a Armed) Disarm() {
	if a.c == nil {
		return
	}
	a.c.watchMu.Lock()
	if a.c.watchGen == a.gen {
		a.c.leaver = nil
	}
	a.c.watchMu.Unlock()
}

func (c *conn) arm(l Leaver) Armed {
	c.watchMu.Lock()
	defer c.watchMu.Unlock()
	c.watchGen++
	if c.gone.Load() {
		c.leaver = nil
		l.Leave()
	} else {
		c.leaver = l
	}
	return Armed{c: c, gen: c.watchGen}
}

// left notes that the peer has gone and tells the Leaver. The lock is held meanwhile: that is what Disarm waits for.
func (c *conn) left() {
	c.watchMu.Lock()
	defer c.watchMu.Unlock()
	c.gone.Store(true)
	if l := c.leaver; l != nil {
		c.leaver = nil
		l.Leave()
	}
}
