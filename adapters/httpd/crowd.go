package httpd

import (
	"bufio"
	"net"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	turnTime  = 2 * time.Second  // for the handshake of TLS and the answer, of a connection that there is no room for
	turnMost  = 64               // of these at once; more are closed without a word
	turnQuiet = 10 * time.Second // between the lines of the log about it
)

// turnAway tells a client that there is no room for its connection, with 503, and closes it. What it sends is not read.
func (s *Server) turnAway(c *conn, shown net.Conn) {
	s.mu.Lock()
	now := time.Now()
	tell := now.After(s.quiet)
	if tell {
		s.quiet = now.Add(turnQuiet)
	}
	crowd := s.turned >= turnMost
	if !crowd {
		s.turned++
	}
	s.mu.Unlock()
	if tell {
		s.logf("httpd: all %d connections are at work; those that come are told so", s.opts.MaxConns)
	}
	if crowd {
		c.shut(true)
		return
	}
	s.serving.run(func() { // ends within turnTime, and the time for a farewell
		defer func() {
			s.mu.Lock()
			s.turned--
			s.mu.Unlock()
		}()
		_ = c.inner.SetDeadline(now.Add(turnTime)) // a client that says nothing does not hold up the handshake
		var ctx fasthttp.RequestCtx
		ctx.Init(&fasthttp.Request{}, c.RemoteAddr(), nil)
		ctx.SetStatusCode(fasthttp.StatusServiceUnavailable)
		if s.opts.Crowded != nil {
			s.opts.Crowded(&ctx)
		} else {
			ctx.SetBodyString(fasthttp.StatusMessage(fasthttp.StatusServiceUnavailable))
		}
		ctx.SetConnectionClose()
		w := bufio.NewWriter(c.Conn)
		c.linger = ctx.Response.Write(w) == nil && w.Flush() == nil
		_ = shown.Close()
	})
}
