package drive

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/eventstream"
)

// stream is the event stream of HTTP+SSE, which carries the answers. The client opens it first, by GET.
type stream struct {
	conn     net.Conn
	body     io.Reader
	splitter eventstream.Splitter
}

// openStream opens the stream and reads the endpoint for POST requests.
func (l *httpLink) openStream(ctx context.Context) error {
	conn, err := l.d.plan.connect(ctx)
	if err != nil {
		return err
	}
	s := &stream{conn: conn}
	if l.path, err = s.begin(l.d.plan, l.base); err != nil {
		_ = conn.Close() // the connection is of no further use
		return faultf(kindHandshake, "event stream: %v", broken(err))
	}
	l.mu.Lock()
	l.stream = s
	l.mu.Unlock()
	return nil
}

func (l *httpLink) endStream() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stream != nil {
		_ = l.stream.conn.Close() // the connection is of no further use
		l.stream = nil
	}
}

// openEvents requests an event stream over its own connection and reads the head of the response.
func (p *Plan) openEvents(conn net.Conn, path, lines string) (*bufio.Reader, *fasthttp.ResponseHeader, error) {
	if err := conn.SetDeadline(time.Now().Add(p.Timeout)); err != nil {
		return nil, nil, err
	}
	if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: "+p.Host+"\r\nAccept: text/event-stream\r\n"+p.Header+lines+"\r\n"); err != nil {
		return nil, nil, err
	}
	reader := bufio.NewReaderSize(conn, readBuffer)
	head := new(fasthttp.ResponseHeader)
	if err := head.Read(reader); err != nil {
		return nil, nil, err
	}
	media, _, _ := strings.Cut(string(head.ContentType()), ";")
	if head.StatusCode() != fasthttp.StatusOK || strings.TrimSpace(media) != "text/event-stream" {
		return nil, nil, faultf("status "+digitsOf(head.StatusCode()), "%s instead of an event stream", media)
	}
	return reader, head, nil
}

// begin requests the stream and reads its first event.
func (s *stream) begin(p *Plan, path string) (endpoint string, err error) {
	reader, head, err := p.openEvents(s.conn, path, "")
	if err != nil {
		return "", err
	}
	switch n := head.ContentLength(); {
	case n == -1: // fasthttp's value for chunked
		s.body = &chunks{in: reader}
	case n >= 0:
		s.body = io.LimitReader(reader, int64(n))
	default:
		s.body = reader
	}
	s.splitter.Reset(MaxMessage)
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
			// The endpoint is relative to the stream's own address. Credentials are sent nowhere else.
			base := url.URL{Path: path}
			return base.ResolveReference(&url.URL{Path: where.Path, RawPath: where.RawPath, RawQuery: where.RawQuery}).RequestURI(), nil
		}
	}
}

// streamed returns the next message on the stream that answers the call. Responses to other ids are counted as strays.
func (l *httpLink) streamed(digits []byte) ([]byte, error) {
	for {
		event, err := l.stream.splitter.Next(l.stream.body)
		if err != nil {
			return nil, broken(err)
		}
		if !event.IsMessage() || len(event.Data) == 0 {
			continue
		}
		id, response := idOf(event.Data)
		if response && bytes.Equal(id, digits) {
			return event.Data, nil
		}
		if response {
			l.d.stray(event.Data)
		}
	}
}
