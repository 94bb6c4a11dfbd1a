// Package client has the MCP clients of the soak. They use bare connections, so that they can break off anywhere, and check every answer
// that they wait for. They speak as much HTTP as Dragoman does.
package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

const (
	maxBody   = 64 << 20
	maxHeader = 64 << 10
	lineBuf   = 32 << 10
)

// Conn is one connection to a listener. It is for one goroutine.
type Conn struct {
	net.Conn
	addr string
	in   *bufio.Reader
}

// Dial connects. Reads and writes fail after the deadline of ctx, or of Patience.
func Dial(ctx context.Context, addr string) (*Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	if end, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(end) // fails only on a closed connection
	}
	return &Conn{Conn: c, addr: addr, in: bufio.NewReaderSize(c, lineBuf)}, nil
}

// Patience bounds everything on the connection from now on.
func (c *Conn) Patience(d time.Duration) { _ = c.SetDeadline(time.Now().Add(d)) }

// Unread makes the connection that of a client that does not read, by the smallest receive buffer.
func (c *Conn) Unread() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(1 << 10) // the system's minimum is enough
	}
}

// Header is one line of a request's head.
type Header struct{ Name, Value string }

// Send writes a request.
func (c *Conn) Send(method, path string, headers []Header, body string) error {
	_, err := io.WriteString(c.Conn, c.request(method, path, headers, body))
	if err != nil {
		return fmt.Errorf("client: write: %w", err)
	}
	return nil
}

// SendHalf writes a request's head and half its body.
func (c *Conn) SendHalf(method, path string, headers []Header, body string) error {
	all := c.request(method, path, headers, body)
	if _, err := io.WriteString(c.Conn, all[:len(all)-len(body)/2]); err != nil {
		return fmt.Errorf("client: write: %w", err)
	}
	return nil
}

func (c *Conn) request(method, path string, headers []Header, body string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, path, c.addr)
	for _, h := range headers {
		fmt.Fprintf(&b, "%s: %s\r\n", h.Name, h.Value)
	}
	if method == "POST" {
		fmt.Fprintf(&b, "Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n")
	b.WriteString(body)
	return b.String()
}

// Head is the head of a response.
type Head struct {
	Status  int
	Type    string // media type without parameters
	Session string // Mcp-Session-Id
	length  int64  // -1: unknown
	chunked bool
}

// Head reads the head of the next response.
func (c *Conn) Head() (Head, error) {
	h := Head{length: -1}
	line, err := c.line()
	if err != nil {
		return h, err
	}
	proto, rest, _ := strings.Cut(line, " ")
	code, _, _ := strings.Cut(rest, " ")
	if h.Status, err = strconv.Atoi(code); err != nil || proto != "HTTP/1.1" {
		return h, fmt.Errorf("client: malformed status line %.80q", line)
	}
	for read := 0; read < maxHeader; read += len(line) {
		if line, err = c.line(); err != nil {
			return h, err
		}
		if line == "" {
			return h, nil
		}
		if err = h.take(line); err != nil {
			return h, err
		}
	}
	return h, errors.New("client: the response's head does not end")
}

func (h *Head) take(line string) (err error) {
	name, value, _ := strings.Cut(line, ":")
	value = strings.TrimSpace(value)
	switch strings.ToLower(name) {
	case "content-type":
		h.Type, _, _ = strings.Cut(value, ";")
	case "mcp-session-id":
		h.Session = value
	case "transfer-encoding":
		h.chunked = strings.EqualFold(value, "chunked")
	case "content-length":
		if h.length, err = strconv.ParseInt(value, 10, 64); err != nil || h.length < 0 || h.length > maxBody {
			return fmt.Errorf("client: Content-Length %q", value)
		}
	}
	return nil
}

func (c *Conn) line() (string, error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return "", fmt.Errorf("client: read: %w", err)
	}
	return strings.TrimRight(string(line), "\r\n"), nil
}

// Body is the response's body. It must be read to its end before the next request.
func (c *Conn) Body(h Head) io.Reader {
	switch {
	case h.chunked:
		return &chunks{c: c}
	case h.length >= 0:
		return io.LimitReader(c.in, h.length)
	case h.Status == 204 || h.Status == 202:
		return strings.NewReader("")
	}
	return io.LimitReader(c.in, maxBody)
}

// All reads a whole body.
func All(r io.Reader) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, maxBody+1))
	switch {
	case err != nil:
		return raw, fmt.Errorf("client: body: %w", err)
	case len(raw) > maxBody:
		return raw, errors.New("client: the body does not end")
	}
	return raw, nil
}

// chunks reads a chunked body (RFC 9112 §7.1).
type chunks struct {
	c    *Conn
	left int64
	err  error
}

func (b *chunks) Read(p []byte) (int, error) {
	if b.left == 0 && b.err == nil {
		b.err = b.next()
	}
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.c.in.Read(p[:min(int64(len(p)), b.left)])
	if b.left -= int64(n); err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err == nil && b.left == 0 {
		_, err = b.c.line() // the line end after a chunk's data
	}
	b.err = err
	return n, nil
}

// next reads the size of a chunk. Trailers follow the last one.
func (b *chunks) next() error {
	line, err := b.c.line()
	if err != nil {
		return unexpected(err)
	}
	size, _, _ := strings.Cut(line, ";")
	if b.left, err = strconv.ParseInt(strings.TrimSpace(size), 16, 64); err != nil || b.left < 0 {
		return fmt.Errorf("client: malformed chunk size %.80q", line)
	}
	for b.left == 0 {
		if line, err = b.c.line(); err != nil {
			return unexpected(err)
		}
		if line == "" {
			return io.EOF
		}
	}
	return nil
}

// unexpected keeps the end of a connection from looking like the end of a body.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("client: body: %w", io.ErrUnexpectedEOF)
	}
	return err
}

// Event is one event of an event stream.
type Event struct{ Name, Data string }

// Events reads an event stream.
type Events struct{ in *bufio.Reader }

// NewEvents reads the events of a body.
func NewEvents(body io.Reader) *Events { return &Events{in: bufio.NewReaderSize(body, lineBuf)} }

// Next reads the next event that has data; io.EOF at the stream's end.
func (e *Events) Next() (Event, error) {
	var ev Event
	for {
		line, err := e.in.ReadString('\n')
		if err != nil {
			return ev, err
		}
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			if ev.Data != "" {
				return ev, nil
			}
			ev = Event{}
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			ev.Name = value
		case "data":
			if ev.Data != "" {
				ev.Data += "\n"
			}
			ev.Data += value
		}
	}
}
