package httpd

import (
	"time"

	"github.com/valyala/fasthttp"
)

const (
	shedPart  = 8                      // of so many connections one is closed at a time
	shedPause = 100 * time.Millisecond // before it is tried again where there was none to close
)

// affordable is how many connections are served: what descriptors there are is also for the way to the servers.
func affordable() int {
	if n := descriptors(); n > 0 {
		return max(1, min(fasthttp.DefaultConcurrency, n/4*3))
	}
	return fasthttp.DefaultConcurrency
}

// shed closes some of the connections on which nothing is being answered, those without any byte of a request first: whoever only
// holds connections must not keep out who has something to ask. A client finds such a connection closed as after the idle time.
func (s *Server) shed() {
	now := time.Now()
	s.mu.Lock()
	wait, newest := now.Before(s.barren), s.accepted
	s.mu.Unlock()
	if wait {
		return
	}
	conns := s.open()
	most, n := max(1, len(conns)/shedPart), 0
	settled := newest - min(newest, uint64(len(conns)/2)) // who has just come may not have said yet what it wants
	for _, phase := range [...]int32{phaseIdle, phaseBusy} {
		for _, c := range conns {
			if n < most && c.number <= settled && c.phase.CompareAndSwap(phase, phaseClosed) {
				c.shut(true)
				n++
			}
		}
	}
	if n == 0 {
		s.mu.Lock()
		s.barren = now.Add(shedPause)
		s.mu.Unlock()
	} else {
		s.logf("httpd: %d of %d connections closed to make room: nothing was asked on them", n, len(conns))
	}
}
