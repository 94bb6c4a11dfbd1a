// Package socket connects to servers that speak stdio's lines over a Unix or TCP socket.
package socket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"dragoman/adapters/mux"
	"dragoman/adapters/stdio/lines"
	"dragoman/adapters/stdio/upstream"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

const (
	defaultConnectTimeout = 10 * time.Second
	defaultAliveTimeout   = 5 * time.Second
	// linger limits how long Close waits for the peer to read pending data and to close its side.
	linger = 500 * time.Millisecond
	// keepIdle and keepCount configure TCP keep-alive: a peer that has vanished is noticed after keepIdle * (1 +
	// keepCount).
	keepIdle  = 15 * time.Second
	keepCount = 4
)

// Options configure the connection to a server that speaks lines over a socket.
type Options struct {
	// Name is the upstream's name in the configuration, for errors.
	Name string
	// Network and Address are as for net.Dial: "unix" and a path, or "tcp" and HOST:PORT.
	Network, Address string
	// ConnectTimeout limits connecting; 0 means 10 s.
	ConnectTimeout time.Duration
	// AliveTimeout is how long a server that has been silent in several calls may take for a sign of life, after which the
	// connection is closed; 0 means 5 s. See mux.Watch.
	AliveTimeout time.Duration
	// MaxLine limits a line in either direction, in bytes without its terminator; 0 means DefaultMaxLine.
	MaxLine int
	// Noise, if not nil, is called with lines that are not messages: the server's first five, then one a minute. skipped
	// is how many were left out before this one.
	Noise func(line []byte, err error, skipped int)
	// Replaced, if not nil, is called when a connection is given up because the server gave no sign of life, with the error of its
	// calls and the time for which it had been silent. It must not block.
	Replaced func(fault error, silent time.Duration)
}

// Dialer makes links to a server that listens on a Unix or TCP socket and speaks as over stdio, one message a line: the
// custom transport with stdio's framing that revision 2026-07-28 describes. Each connection has one client and one era
// for its whole life.
type Dialer struct {
	opt    Options
	noises upstream.Sampler
	open   atomic.Int64 // connections; for tests
}

// NewDialer returns a Dialer. It does not connect.
func NewDialer(opt Options) *Dialer {
	if opt.ConnectTimeout <= 0 {
		opt.ConnectTimeout = defaultConnectTimeout
	}
	if opt.AliveTimeout <= 0 {
		opt.AliveTimeout = defaultAliveTimeout
	}
	if opt.MaxLine < 1 {
		opt.MaxLine = lines.DefaultMaxLine
	}
	if opt.Noise == nil {
		opt.Noise = func([]byte, error, int) {}
	}
	return &Dialer{opt: opt}
}

// Dial returns the transport.Dial for connections of one era. Its errors are ctx's, or a *proxy.Error that is Unreachable
// and names the address. None is final, because the server may still come up.
func (s *Dialer) Dial(server proxy.Era) transport.Dial {
	return func(ctx context.Context, sink transport.Sink) (transport.Link, error) {
		return s.connect(ctx, server, sink)
	}
}

func (s *Dialer) connect(ctx context.Context, server proxy.Era, sink transport.Sink) (transport.Link, error) {
	dialer := net.Dialer{Timeout: s.opt.ConnectTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: keepIdle, Interval: keepIdle, Count: keepCount}}
	conn, err := dialer.DialContext(ctx, s.opt.Network, s.opt.Address)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, s.unreachable(err)
	}
	return s.attach(conn, server, sink), nil
}

// unreachable returns an error that says why there is no connection, and what fixes it.
func (s *Dialer) unreachable(err error) *proxy.Error {
	cause := err
	var op *net.OpError
	if errors.As(err, &op) {
		cause = op.Err // without the address, which is named anyway
	}
	var late net.Error
	text := fmt.Sprintf("%s cannot be reached at %s: ", upstream.Called(s.opt.Name), s.address())
	switch {
	case errors.Is(err, fs.ErrNotExist) && s.opt.Network == "unix":
		text += "there is no such socket; start the server, or correct the url"
	case errors.Is(err, syscall.ECONNREFUSED):
		text += "nobody listens there; start the server, or correct the url"
	case errors.Is(err, fs.ErrPermission):
		text += "the socket may not be opened; give this user the right to write to it"
	case errors.As(err, &late) && late.Timeout():
		text += fmt.Sprintf("no connection within %s (upstreams.%s.connect_timeout)", upstream.Duration(s.opt.ConnectTimeout), upstream.Key(s.opt.Name))
	default:
		text += cause.Error()
	}
	e := proxy.NewError(proxy.Unreachable, text)
	e.Cause = err
	return e
}

// address returns the server's address in the form of the configuration.
func (s *Dialer) address() string {
	if s.opt.Network == "unix" {
		return "unix:" + s.opt.Address
	}
	return s.opt.Network + "://" + s.opt.Address
}

// noise reports some of the lines that are not messages.
func (s *Dialer) noise(line []byte, err error) {
	if tell, skipped := s.noises.Take(time.Now()); tell {
		s.opt.Noise(line, err, skipped)
	}
}

// connection is one connection over a socket, as a transport.Link.
type connection struct {
	*mux.Mux
	s      *Dialer
	conn   net.Conn
	in     *lines.Reader
	out    *lines.Writer
	sink   transport.Sink
	began  time.Time
	reader chan struct{}               // closed when the reader, and with it the connection, has ended
	closed atomic.Bool                 // by Close
	lost   atomic.Pointer[proxy.Error] // why it was given up; nil: it was not
}

// attach returns a link that owns the connection.
func (s *Dialer) attach(conn net.Conn, server proxy.Era, sink transport.Sink) *connection {
	src, dst := ends(conn)
	c := &connection{s: s, conn: conn, sink: sink, began: time.Now(), reader: make(chan struct{}),
		in: lines.NewReader(src, s.opt.MaxLine), out: lines.NewWriter(dst, lines.WriterOptions{MaxLine: s.opt.MaxLine})}
	c.in.SetEndless(lines.EndlessAfter)
	c.Mux = mux.NewLines(server, c, sink)
	c.Watch(mux.Watch{Heard: c.in.Received, Limit: s.opt.AliveTimeout, Dead: c.wedged})
	s.open.Add(1)
	go c.read() // ends with the connection
	return c
}

// Keep implements mux.Lines.
func (c *connection) Keep() (release func()) { return c.in.Keep() }

// Run implements mux.Lines.
func (c *connection) Run() wire.Run { return c.in.Run() }

// WriteParts implements mux.Lines.
func (c *connection) WriteParts(ctx context.Context, parts ...[]byte) error {
	err := c.out.WriteScanned(ctx, parts...)
	if err == nil {
		return nil
	}
	var long *lines.LineTooLongError
	var refused *lines.RefusedError
	var known *proxy.Error
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &refused) && errors.As(err, &known): // not sent, as on a link that has failed
		return proxy.Unsent(known)
	case errors.As(err, &known): // the connection's end gives the reason
		return known
	case errors.As(err, &long):
		return proxy.Errf(proxy.RequestTooLarge, "the message is longer than limits.line, %d bytes", long.Limit)
	}
	return proxy.Errf(proxy.Lost, "%s does not take requests: %w", upstream.Called(c.s.opt.Name), err)
}

// read passes lines to the mux until the connection ends. Then pending calls fail.
func (c *connection) read() {
	defer close(c.reader)
	defer c.s.open.Add(-1)
	for {
		line, err := c.in.ReadLine()
		switch {
		case err != nil:
			if c.long(err) {
				continue
			}
			c.ended(err)
			return
		case c.in.Ended() && !upstream.Complete(line): // cut off by the end, which is reported next
		default:
			if err := c.Deliver(line); err != nil {
				c.s.noise(line, err)
			}
		}
	}
}

// long reports whether err is that of a line too long. If so, it fails the call that the line answers.
func (c *connection) long(err error) bool {
	var long *lines.LineTooLongError
	if !errors.As(err, &long) {
		return false
	}
	c.s.noise(long.Prefix, err)
	c.TooLong(long.Prefix, long.Suffix, proxy.Errf(proxy.ResponseTooLarge,
		"the upstream server's answer is a line longer than limits.line, %d bytes", long.Limit))
	return true
}

// ended is called when nothing more can be read. A server that closes only its own side cannot answer any more either.
func (c *connection) ended(err error) {
	how := "broke off: " + err.Error()
	if errors.Is(err, io.EOF) {
		how = "was closed by the server"
	}
	fault := proxy.Errf(proxy.Lost, "the connection to %s at %s %s after %s", upstream.Called(c.s.opt.Name), c.s.address(), how, upstream.Duration(time.Since(c.began)))
	if lost := c.lost.Load(); lost != nil {
		fault = lost
	}
	closed := c.closed.Load()
	c.out.Fail(fault)
	c.Fail(fault)
	if !closed {
		c.sink.Lost(fault)
	}
	_ = c.conn.Close()
}

// wedged gives the connection up: the server behind it gives no sign of life. Another connection may find it alive.
func (c *connection) wedged(calls int, since time.Time) {
	fault := proxy.Errf(proxy.Lost, "the connection to %s at %s is given up: it was silent in %d calls in a row, and gave no sign of life within %s (upstreams.%s.health_check_timeout)",
		upstream.Called(c.s.opt.Name), c.s.address(), calls, upstream.Duration(c.s.opt.AliveTimeout), upstream.Key(c.s.opt.Name))
	if c.s.opt.Replaced != nil {
		c.s.opt.Replaced(fault, time.Since(since))
	}
	c.lost.Store(fault)
	c.out.Fail(fault)
	c.Fail(fault)
	_ = c.conn.Close() // the reader ends, and reports the loss
}

// Close implements transport.Link. It closes the proxy's side, which the server sees like the end of its stdin, and waits
// for the server to close its side. After linger the connection is cut.
func (c *connection) Close() error {
	if !c.closed.Swap(true) {
		c.Fail(proxy.Errf(proxy.Lost, "the connection to %s was closed", upstream.Called(c.s.opt.Name)))
		c.hangUp()
	}
	<-c.reader
	return nil
}

func (c *connection) hangUp() {
	ctx, cancel := context.WithTimeout(context.Background(), linger)
	defer cancel()
	c.out.Shut(proxy.Errf(proxy.SessionLost, "the connection to %s was closed", upstream.Called(c.s.opt.Name)))
	half, can := c.conn.(interface{ CloseWrite() error })
	if can && c.out.Flush(ctx) == nil && half.CloseWrite() == nil {
		select {
		case <-c.reader:
		case <-ctx.Done():
		}
	}
	_ = c.conn.Close() // the reader closes it too
}
