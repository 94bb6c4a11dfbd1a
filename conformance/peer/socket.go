package peer

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"dragoman/adapters/stdio/lines"
)

// Socket is a server that listens and uses each connection like the stdin and stdout of a program.
type Socket struct {
	Network, Address string        // of net.Dial: "unix" and a path, or "tcp" and HOST:PORT
	Grace            time.Duration // for the server to close its side after ours; 0: 5 s
}

// Spawn implements Spawner: it connects. There is no stderr.
func (s Socket) Spawn(ctx context.Context, _ func(line string)) (Lines, error) {
	if s.Grace == 0 {
		s.Grace = 5 * time.Second
	}
	d := net.Dialer{Timeout: connectTime}
	conn, err := d.DialContext(ctx, s.Network, s.Address)
	if err != nil {
		return nil, err
	}
	return &connection{conn: conn, in: lines.NewReader(conn, maxBody), grace: s.Grace}, nil
}

type connection struct {
	conn  net.Conn
	grace time.Duration
	write sync.Mutex
	read  sync.Mutex
	in    *lines.Reader
}

// Write implements Lines.
func (c *connection) Write(line []byte) error {
	c.write.Lock()
	defer c.write.Unlock()
	_, err := c.conn.Write(append(line[:len(line):len(line)], '\n'))
	return err
}

// ReadLine implements Lines.
func (c *connection) ReadLine() ([]byte, error) {
	c.read.Lock()
	defer c.read.Unlock()
	return c.in.ReadLine()
}

// Stop implements Lines: it closes our side, and waits for theirs.
func (c *connection) Stop() (end string, forced bool) {
	defer func() { _ = c.conn.Close() }()
	_ = c.conn.SetDeadline(time.Now().Add(c.grace)) // without a deadline it waits for the end of the connection
	if half, ok := c.conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	c.read.Lock() // ReadLine returns at the end, at the deadline, or with a line
	defer c.read.Unlock()
	if _, err := io.Copy(io.Discard, c.conn); errors.Is(err, os.ErrDeadlineExceeded) {
		return "it has not closed the connection", true
	}
	return "the connection was closed", false
}
