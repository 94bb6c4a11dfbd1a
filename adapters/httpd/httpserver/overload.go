package httpserver

import (
	"bufio"
	"net"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	turnAwayTime  = 2 * time.Second        // for the TLS handshake and the 503 of a connection beyond MaxConns
	maxTurnedAway = 64                     // of these at once; more are closed without an answer
	logInterval   = 10 * time.Second       // between the lines of the log about it
	evictShare    = 8                      // one of so many connections is closed at a time
	evictPause    = 100 * time.Millisecond // before the next attempt where there was none to close
)

// overload is what a Server notes while it is full. Server.mu guards it.
type overload struct {
	nothingIdle time.Time // until when no connection is looked for that could be closed
	turnedAway  int       // connections that are being turned away
	quiet       time.Time // until when nothing more is logged
}

// evictIdle closes some of the connections that are serving nothing, those without any byte of a request first: clients that only hold
// connections must not keep out others. They find the connection closed as after the idle timeout.
func (s *Server) evictIdle() {
	now := time.Now()
	s.mu.Lock()
	wait, newest := now.Before(s.overload.nothingIdle), s.accepted
	s.mu.Unlock()
	if wait {
		return
	}
	conns := s.openConns()
	most, n := max(1, len(conns)/evictShare), 0
	oldest := newest - min(newest, uint64(len(conns)/2)) // a new connection may not have sent its request yet
	for _, phase := range [...]int32{phaseIdle, phaseReading} {
		for _, c := range conns {
			if n < most && c.number <= oldest && c.phase.CompareAndSwap(phase, phaseClosed) {
				c.shut(true)
				n++
			}
		}
	}
	if n == 0 {
		s.mu.Lock()
		s.overload.nothingIdle = now.Add(evictPause)
		s.mu.Unlock()
	} else {
		s.logf("httpd: %d of %d connections closed to make room: nothing was asked on them", n, len(conns))
	}
}

// turnAway answers a connection beyond MaxConns with 503 and closes it. What the client sends is not read.
func (s *Server) turnAway(c *conn, shown net.Conn) {
	s.mu.Lock()
	now := time.Now()
	log := now.After(s.overload.quiet)
	if log {
		s.overload.quiet = now.Add(logInterval)
	}
	full := s.overload.turnedAway >= maxTurnedAway
	if !full {
		s.overload.turnedAway++
	}
	s.mu.Unlock()
	if log {
		s.logf("httpd: all %d connections are at work; new ones are answered with 503", s.opts.MaxConns)
	}
	if full {
		c.shut(true)
		return
	}
	s.serving.run(func() { // ends within turnAwayTime and lingerTime
		defer func() {
			s.mu.Lock()
			s.overload.turnedAway--
			s.mu.Unlock()
		}()
		_ = c.socket.Conn.SetDeadline(now.Add(turnAwayTime)) // a silent client does not hold up the handshake
		var ctx fasthttp.RequestCtx
		ctx.Init(&fasthttp.Request{}, c.RemoteAddr(), nil)
		ctx.SetStatusCode(fasthttp.StatusServiceUnavailable)
		if s.opts.Overloaded != nil {
			s.opts.Overloaded(&ctx)
		} else {
			ctx.SetBodyString(fasthttp.StatusMessage(fasthttp.StatusServiceUnavailable))
		}
		ctx.SetConnectionClose()
		w := bufio.NewWriter(c.wire())
		c.linger = ctx.Response.Write(w) == nil && w.Flush() == nil
		_ = shown.Close()
	})
}
