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

// openStream opens the stream and learns where to post.
func (l *httpLink) openStream(ctx context.Context) error {
	conn, err := l.d.plan.connect(ctx)
	if err != nil {
		return err
	}
	s := &stream{conn: conn}
	if l.path, err = s.begin(l.d.plan, l.home); err != nil {
		_ = conn.Close() // nothing is left to lose
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
		_ = l.stream.conn.Close() // nothing is left to lose
		l.stream = nil
	}
}

// openEvents asks for an event stream over a connection of its own, and reads the head of the answer.
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
		return nil, nil, faultf("status "+digitsOf(head.StatusCode()), "%s, and no event stream", media)
	}
	return reader, head, nil
}

// begin asks for the stream and reads its first event.
func (s *stream) begin(p *Plan, path string) (endpoint string, err error) {
	reader, head, err := p.openEvents(s.conn, path, "")
	if err != nil {
		return "", err
	}
	switch n := head.ContentLength(); {
	case n == -1: // chunked, as fasthttp says it
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
			// Relative to the stream's own address. Credentials go nowhere else.
			base := url.URL{Path: path}
			return base.ResolveReference(&url.URL{Path: where.Path, RawPath: where.RawPath, RawQuery: where.RawQuery}).RequestURI(), nil
		}
	}
}

// streamed gives the next message on the stream that answers the call. Responses to something else are counted.
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
