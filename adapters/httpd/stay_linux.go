package httpd

import (
	"errors"
	"io"
	"net"

	"golang.org/x/sys/unix"
)

// Go's connections ask the system first and then wait, so that each request on a connection costs a read that comes too early. Within
// one RawConn.Read the poller keeps what it has noticed from one wait to the next, and nothing need be asked that is known: when a read
// has brought less than there was room for, the next one comes after the poller's word. Requests that come whole are served there,
// handlers and all; any other is left to who reads in the ordinary way.
//
// While it lasts nobody else can close the socket, because Close waits for the end of that Read: it is shut down instead, which ends
// all reading and writing, and closed by who serves it.

// stay is what a connection needs that stays.
type stay struct {
	c       *conn
	s       *Server
	fd      int
	drained bool                  // the last read has left nothing there
	again   bool                  // there is a request for the ordinary way
	run     func(fd uintptr) bool // step, as RawConn wants it
}

// errNothing is what a read gives that would have to wait.
var errNothing = errors.New("httpd: nothing is there yet")

// stay serves what comes whole on a connection without TLS. It tells whether to read on in the ordinary way; false: the connection has
// ended, or was taken over.
func (s *Server) stay(c *conn, t *talk) (again bool) {
	if c.raw == nil || !c.watched || c.inner != c.Conn {
		return true
	}
	if t.stay.run == nil {
		t.stay.run = func(fd uintptr) bool { return t.stay.step(t, int(fd)) } // a talk is lent from connection to connection
	}
	t.stay.c, t.stay.s, t.stay.again = c, s, false
	c.staying.Store(true) // before closed is looked at: shut does it the other way round
	defer c.stayed(t)
	for !c.closed.Load() {
		err := c.raw.Read(t.stay.run)
		if err == nil {
			return t.stay.again
		}
		if !isDeadline(err) || !c.reads.early(c.Conn) {
			return false
		}
	}
	return false
}

// stayed closes what was only shut down meanwhile.
func (c *conn) stayed(t *talk) {
	t.stay.c, t.stay.s = nil, nil
	c.staying.Store(false)
	if c.closed.Load() {
		_ = c.inner.Close()
	}
}

// step serves the requests that are there. It answers true when the connection stays no longer, false to wait.
func (y *stay) step(t *talk, fd int) (over bool) {
	c := y.c
	c.blind, y.fd, y.drained = true, fd, false
	defer func() { c.blind = false }()
	for {
		if t.br.Buffered() == 0 {
			if y.drained && !c.gone.Load() { // of an end from before this Read the poller does not speak again
				return false
			}
			if _, err := t.br.Peek(1); err != nil {
				return err != errNothing
			}
		}
		size, err := c.hear(t)
		if err == errNothing || err == nil && !t.whole(size) {
			y.again = true
			t.plain = plain{} // it will be known, but this was not for it
			return true
		}
		if !y.s.serve(c, t, size, err) {
			return true
		}
	}
}

// whole says that all of the request is there whose head, of size bytes, is.
func (t *talk) whole(size int) bool {
	here := int64(t.br.Buffered() - size)
	return !t.scan.coded && !t.scan.request.expects && t.scan.length <= here
}

// look reads what is there.
func (y *stay) look(p []byte) (int, error) {
	for {
		n, err := unix.Read(y.fd, p)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			y.drained = true
			return 0, errNothing
		case err != nil:
			return 0, &net.OpError{Op: "read", Net: y.c.Conn.LocalAddr().Network(), Err: err}
		case n == 0:
			return 0, io.EOF
		}
		y.drained = n < len(p)
		y.c.phase.CompareAndSwap(phaseIdle, phaseBusy)
		return n, nil
	}
}

// hangUp shuts the socket down if the connection stays, and tells whether it does.
func (c *conn) hangUp() bool { return c.shutdown(unix.SHUT_RDWR) }

// wake has a connection that stays see that its peer has gone: that may have come with the last bytes of a request, of which the
// poller speaks once.
func (c *conn) wake() { c.shutdown(unix.SHUT_RD) }

func (c *conn) shutdown(how int) bool {
	if !c.staying.Load() {
		return false
	}
	c.sock.Lock() // it may be leaving, and be taken over
	defer c.sock.Unlock()
	if c.raw != nil {
		// fails on a closed connection only
		_ = c.raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), how) })
	}
	return true
}
