//go:build linux

package httpd

import (
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// A held stream that has nothing to say needs nothing but its descriptor. What Go keeps for a connection, its addresses, its place with the
// poller, two timers, is as large as all that we keep for it, so that it is given up while the peer keeps up with what is written, and made
// anew for one that does not. TLS needs its connection all the time.

// gone is the cold descriptor of a connection that was closed.
const gone = -1

// chill takes the descriptor from the system's connection and closes that. If it cannot, all stays as it was. Nobody else may use the
// connection but to shut it.
func (c *conn) chill() {
	c.sock.Lock()
	defer c.sock.Unlock()
	if c.cold != 0 || c.raw == nil || c.inner != c.Conn || !c.watched || c.closed.Load() {
		return
	}
	fd, err := 0, error(nil)
	if ctl := c.raw.Control(func(was uintptr) {
		if fd, err = unix.FcntlInt(was, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			if err = c.srv.watch.move(c, int(was), fd); err != nil {
				_ = unix.Close(fd)
			}
		}
	}); ctl != nil || err != nil {
		return
	}
	old := c.Conn
	c.cold = int32(fd) //nolint:gosec // descriptors are small
	c.Conn, c.inner, c.raw = nil, nil, nil
	_ = old.Close() // the other descriptor keeps the connection
}

// thaw makes a connection of a cold one, for a writer that has to wait.
func (c *conn) thaw() error {
	c.sock.Lock()
	defer c.sock.Unlock()
	switch {
	case c.cold == 0:
		return nil
	case c.cold == gone:
		return net.ErrClosed
	}
	fd := int(c.cold)
	f := os.NewFile(uintptr(fd), "stream")
	nc, err := net.FileConn(f) // with a descriptor of its own
	if err == nil {
		c.Conn, c.inner = nc, nc
		c.raw, err = nc.(syscall.Conn).SyscallConn()
	}
	if err == nil {
		ctl := c.raw.Control(func(now uintptr) { err = c.srv.watch.move(c, fd, int(now)) })
		if err == nil {
			err = ctl
		}
	}
	if err != nil {
		c.Conn, c.inner, c.raw = nil, nil, nil
		if nc != nil {
			_ = nc.Close()
		}
		c.cold = gone
		_ = f.Close()
		return fmt.Errorf("httpd: %w", err)
	}
	c.cold, c.deadline = 0, writeDeadline{}
	return f.Close()
}

// writeCold writes what the socket of a cold connection takes at once; cold is false for one that is not.
func (c *conn) writeCold(f *framing) (cold bool, err error) {
	c.sock.Lock()
	defer c.sock.Unlock()
	switch c.cold {
	case 0:
		return false, nil
	case gone:
		return true, net.ErrClosed
	}
	f.try(uintptr(c.cold))
	return true, f.err
}

// closeCold closes a cold connection, which is not used again; false: it is not one.
func (c *conn) closeCold() bool {
	c.sock.Lock()
	defer c.sock.Unlock()
	if c.cold > 0 {
		_ = unix.Close(int(c.cold))
		c.cold = gone
	}
	return c.cold == gone
}

// move has the watcher look at another descriptor of c.
func (w *watcher) move(c *conn, from, to int) error {
	w.mu.Lock()
	s := w.slots[c.slot]
	w.mu.Unlock()
	if s.c != c { // it is being closed
		return net.ErrClosed
	}
	event := unix.EpollEvent{Events: unix.EPOLLRDHUP | unix.EPOLLET, Fd: c.slot, Pad: s.gen}
	var err error
	if ctl := w.raw.Control(func(set uintptr) {
		if err = unix.EpollCtl(int(set), unix.EPOLL_CTL_ADD, to, &event); err == nil {
			_ = unix.EpollCtl(int(set), unix.EPOLL_CTL_DEL, from, nil) // closing it would not do: the other one keeps it open
		}
	}); ctl != nil {
		err = ctl
	}
	if err != nil {
		return fmt.Errorf("httpd: watch connection: %w", err)
	}
	return nil
}
