package netpoll

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// moves counts how often the system's read deadline is set.
type moves struct {
	net.Conn
	n int
}

func (m *moves) SetReadDeadline(t time.Time) error {
	m.n++
	return m.Conn.SetReadDeadline(t)
}

// conn reads as users of a ReadDeadline do.
type conn struct {
	net.Conn
	reads ReadDeadline
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	for n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && c.reads.Retry(c.Conn) {
		n, err = c.Conn.Read(p)
	}
	return n, err
}

// A deadline that is postponed repeatedly is set once, and a read still ends at the last one.
func TestReadDeadlineIsMovedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		system := &moves{Conn: near}
		c := &conn{Conn: system}
		begun := time.Now()
		for range 1000 {
			time.Sleep(time.Millisecond)
			if err := c.reads.Set(c.Conn, time.Now().Add(10*time.Second)); err != nil {
				t.Fatal(err)
			}
		}
		if system.n != 1 {
			t.Errorf("moved %d times", system.n)
		}
		if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) != 11*time.Second {
			t.Errorf("%d, %v after %v", n, err, time.Since(begun))
		}
		if system.n != 2 {
			t.Errorf("moved %d times", system.n)
		}
	})
}

// An earlier deadline takes effect at once, and a removed one ends no read.
func TestReadDeadlineNearerAndNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		c := &conn{Conn: near}
		begun := time.Now()
		for _, d := range []time.Duration{time.Minute, time.Second} {
			if err := c.reads.Set(c.Conn, begun.Add(d)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		if err := c.reads.Set(c.Conn, time.Time{}); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Hour, func() { _, _ = far.Write([]byte("x")) })
		if n, err := c.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Errorf("%d, %v after %v", n, err, time.Since(begun))
		}
	})
}
