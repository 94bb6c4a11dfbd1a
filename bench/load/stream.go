package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/eventstream"
)

const maxChunkLine = 1 << 10

// stream is where a two-way client's answers come: the event stream that it opens first, by GET.
type stream struct {
	conn     net.Conn
	reader   *bufio.Reader
	body     io.Reader
	splitter eventstream.Splitter
}

func (s *stream) close() { _ = s.conn.Close() } // nothing is left to lose

// openStream opens the stream and learns where to post.
func (w *worker) openStream(ctx context.Context) error {
	dialer := net.Dialer{Timeout: w.plan.Timeout}
	conn, err := dialer.DialContext(ctx, "tcp", w.plan.Addr)
	if err != nil {
		return fmt.Errorf("load: %w", err)
	}
	s := &stream{conn: conn, reader: bufio.NewReaderSize(conn, readBuffer)}
	path, err := s.begin(w.plan.Addr, w.streamPath, time.Now().Add(w.plan.Timeout))
	if err != nil {
		s.close()
		return fmt.Errorf("load: event stream: %w", err)
	}
	w.stream, w.plan.Path = s, path
	return nil
}

// begin asks for the stream and reads its first event.
func (s *stream) begin(addr, path string, deadline time.Time) (endpoint string, err error) {
	if err = s.conn.SetDeadline(deadline); err != nil {
		return "", err
	}
	if _, err = io.WriteString(s.conn, "GET "+path+" HTTP/1.1\r\nHost: "+addr+"\r\nAccept: text/event-stream\r\n\r\n"); err != nil {
		return "", err
	}
	var head fasthttp.ResponseHeader
	if err = head.Read(s.reader); err != nil {
		return "", err
	}
	media, _, _ := strings.Cut(string(head.ContentType()), ";")
	if head.StatusCode() != fasthttp.StatusOK || media != "text/event-stream" {
		return "", fmt.Errorf("HTTP status %d, %s", head.StatusCode(), media)
	}
	switch n := head.ContentLength(); {
	case n == -1: // chunked, as fasthttp says it
		s.body = &chunks{in: s.reader}
	case n >= 0:
		s.body = io.LimitReader(s.reader, int64(n))
	default:
		s.body = s.reader
	}
	s.splitter.Reset(maxBody)
	for {
		event, err := s.splitter.Next(s.body)
		if err != nil {
			return "", err
		}
		if string(event.Name) == "endpoint" {
			where, err := url.Parse(string(event.Data))
			if err != nil {
				return "", err
			}
			return where.RequestURI(), nil
		}
	}
}

// streamed gives the next message on the stream that answers id. Responses to something else are counted.
func (w *worker) streamed(id []byte) ([]byte, error) {
	for {
		event, err := w.stream.splitter.Next(w.stream.body)
		if err != nil {
			return nil, fmt.Errorf("load: event stream: %w", err)
		}
		if !event.IsMessage() || len(event.Data) == 0 {
			continue
		}
		if hasID(event.Data, id) {
			return event.Data, nil
		}
		if !bytes.Contains(event.Data, []byte(`"method":`)) {
			w.strays++
		}
	}
}

// Chunks reads a chunked body from in (RFC 9112 §7.1) up to its end, which is io.EOF; where it is cut off the error is
// io.ErrUnexpectedEOF.
func Chunks(in *bufio.Reader) io.Reader { return &chunks{in: in} }

// chunks reads a chunked body (RFC 9112 §7.1).
type chunks struct {
	in   *bufio.Reader
	left int64
	err  error
}

func (c *chunks) Read(p []byte) (int, error) {
	if c.left == 0 && c.err == nil {
		c.err = c.next()
	}
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.in.Read(p[:min(int64(len(p)), c.left)])
	if c.left -= int64(n); err == nil && c.left == 0 {
		_, err = c.line() // behind a chunk's data
	}
	if c.err = err; err == io.EOF {
		c.err = io.ErrUnexpectedEOF
	}
	return n, nil
}

// next reads the size of a chunk. A stream has no trailers that would matter: behind the last chunk it is over.
func (c *chunks) next() error {
	line, err := c.line()
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	size, _, _ := strings.Cut(line, ";")
	if c.left, err = strconv.ParseInt(strings.TrimSpace(size), 16, 64); err != nil || c.left < 0 {
		return fmt.Errorf("the size of a chunk was expected, not %.80q", line)
	}
	if c.left == 0 {
		return io.EOF
	}
	return nil
}

func (c *chunks) line() (string, error) {
	line, err := c.in.ReadSlice('\n')
	if err == nil && len(line) > maxChunkLine {
		err = errors.New("the line of a chunk is too long")
	}
	return strings.TrimRight(string(line), "\r\n"), err
}
