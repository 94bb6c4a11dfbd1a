package drive

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/eventstream"
)

const (
	readBuffer = 16 << 10
	endLimit   = 2 * time.Second // for ending a session
)

// httpLink is a client of streamable HTTP, of the REST envelope, or of HTTP+SSE.
type httpLink struct {
	d        *driver
	reader   *bufio.Reader
	response fasthttp.Response
	splitter eventstream.Splitter
	body     bytes.Reader
	last     []byte // the last message of an event stream
	used     bool   // the connection has carried an answer: the server may have closed it since

	session  session
	stream   *stream // of HTTP+SSE
	base     string  // the plan's path, or one of its several
	path     string  // the path of POST requests
	requests []request

	mu   sync.Mutex
	conn net.Conn
}

func newHTTPLink(d *driver) *httpLink {
	return &httpLink{d: d, base: d.plan.Path, reader: bufio.NewReaderSize(nil, readBuffer)}
}

// open implements link.
func (l *httpLink) open(ctx context.Context) error {
	l.hangUp()
	l.endStream()
	l.session, l.path = session{}, l.base
	if l.d.plan.Face == SSE {
		if err := l.openStream(ctx); err != nil {
			return err
		}
	}
	if err := l.dial(ctx); err != nil {
		return err
	}
	if l.d.plan.Face.Sessions() {
		if err := l.initialize(); err != nil {
			return err
		}
	}
	l.requests = l.d.plan.requests(l.session, l.path)
	return nil
}

// mend implements link. It closes a connection that may still carry an old answer. A client of HTTP+SSE reopens its stream, which is its
// session; a client of streamable HTTP opens a new session if the old one is unknown.
func (l *httpLink) mend(ctx context.Context, err error) error {
	f, _ := err.(*fault)
	switch {
	case l.stream != nil, f == nil, f.kind == "status 404", f.kind == "status 400", len(l.requests) == 0:
		return l.open(ctx)
	case f.kind == kindTimeout, f.kind == kindConnection, f.kind == kindID, f.kind == kindTooLarge, l.conn == nil:
		return l.dial(ctx)
	}
	return nil
}

// connect opens a connection to the server.
func (p *Plan) connect(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.Addr)
	if err != nil {
		return nil, &fault{kindConnection, err.Error()}
	}
	if p.TLS == nil {
		return conn, nil
	}
	secure := tls.Client(conn, p.TLS)
	if err = secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, &fault{kindConnection, "TLS: " + err.Error()}
	}
	return secure, nil
}

// dial opens the connection for POST requests. An open stream stays.
func (l *httpLink) dial(ctx context.Context) error {
	l.hangUp()
	conn, err := l.d.plan.connect(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.conn = conn
	l.mu.Unlock()
	l.reader.Reset(conn)
	l.used = false
	return nil
}

func (l *httpLink) hangUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		_ = l.conn.Close() // the connection is of no further use
		l.conn = nil
	}
}

// hurry implements link.
func (l *httpLink) hurry(deadline time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		_ = l.conn.SetDeadline(deadline) // fails only if it is closed
	}
	if l.stream != nil {
		_ = l.stream.conn.SetDeadline(deadline)
	}
}

// close implements link.
func (l *httpLink) close() {
	if l.session.id != "" && l.d.plan.Face == LegacyHTTP {
		if l.conn != nil || l.dial(context.Background()) == nil {
			p := l.d.plan
			bye := "DELETE " + l.path + " HTTP/1.1\r\nHost: " + p.Host + "\r\n" + p.Header + "MCP-Protocol-Version: " + l.session.version +
				"\r\nMcp-Session-Id: " + l.session.id + "\r\n\r\n"
			_ = l.exchange([]byte(bye), time.Now().Add(endLimit)) // the measurement is over
		}
	}
	l.hangUp()
	l.endStream()
}

// do implements link.
func (l *httpLink) do(call int, digits []byte, deadline time.Time) ([]byte, int, error) {
	r := &l.requests[call]
	r.number(digits)
	if l.conn == nil { // the server closed it after the last answer
		if err := l.dial(l.d.ctx); err != nil {
			return nil, 0, err
		}
	}
	used := l.used
	err := l.exchange(r.raw, deadline)
	if used && gone(err) { // a server may close a connection between calls: connect again
		l.d.anew.Add(1)
		if err = l.dial(l.d.ctx); err == nil {
			err = l.exchange(r.raw, deadline)
		}
	}
	if err != nil {
		return nil, 0, broken(err)
	}
	l.used = true
	status := l.response.StatusCode()
	if l.stream == nil {
		message, err := l.message()
		if l.response.ConnectionClose() {
			l.hangUp()
		}
		return message, status, err
	}
	if status != fasthttp.StatusAccepted && status != statusOK {
		return nil, status, statusFault(status, l.response.Body())
	}
	message, err := l.streamed(digits)
	return message, statusOK, err
}

// exchange writes a request and reads the response to it.
func (l *httpLink) exchange(raw []byte, deadline time.Time) error {
	if err := l.conn.SetDeadline(deadline); err != nil {
		return err
	}
	if l.stream != nil {
		if err := l.stream.conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	if l.d.ctx.Err() != nil { // the interrupt may have come before the deadline
		l.hurry(time.Now().Add(grace))
	}
	if _, err := l.conn.Write(raw); err != nil {
		return err
	}
	l.response.Reset()
	err := l.response.ReadLimitBody(l.reader, MaxMessage)
	if errors.Is(err, fasthttp.ErrBodyTooLarge) {
		return faultf(kindTooLarge, "an answer of more than %d bytes", MaxMessage)
	}
	return err
}

// gone reports whether a connection was closed before any byte of the answer.
func gone(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func statusFault(status int, body []byte) error {
	return faultf("status "+digitsOf(status), "%s", quote(body))
}

// message returns the body of the response, or the last message of its event stream.
func (l *httpLink) message() ([]byte, error) {
	status, body := l.response.StatusCode(), l.response.Body()
	switch media, _, _ := bytes.Cut(l.response.Header.ContentType(), []byte(";")); string(bytes.TrimSpace(media)) {
	case "application/json":
		return body, nil
	case "text/event-stream":
		return l.lastEvent(body)
	}
	if status != statusOK {
		return nil, statusFault(status, body)
	}
	return nil, faultf(kindType, "%q: %s", l.response.Header.ContentType(), quote(body))
}

// lastEvent returns the last message of an event stream, which is the response.
func (l *httpLink) lastEvent(body []byte) ([]byte, error) {
	l.body.Reset(body)
	l.splitter.Reset(len(body) + 1)
	l.last = l.last[:0]
	for {
		event, err := l.splitter.Next(&l.body)
		if err == io.EOF && len(l.last) > 0 {
			return l.last, nil
		}
		if err != nil {
			return nil, faultf(kindStream, "%v in %s", err, quote(body))
		}
		if event.IsMessage() && len(event.Data) > 0 {
			l.last = append(l.last[:0], event.Data...)
		}
	}
}

// initialize does the handshake of a legacy client.
func (l *httpLink) initialize() error {
	hello := strings.Replace(initializeBody(l.d.plan.Revision), Number, initializeID, 1)
	answer, err := l.post(session{}, "initialize", hello, []byte(initializeID))
	if err != nil {
		return err
	}
	l.session = session{id: string(l.response.Header.Peek("Mcp-Session-Id"))}
	if l.session.version, err = agreed(answer); err != nil {
		return err
	}
	_, err = l.post(l.session, "notifications/initialized", initializedBody, nil)
	return err
}

// post sends one message outside of the measurement. With id nil it does not wait for an answer.
func (l *httpLink) post(s session, method, text string, id []byte) ([]byte, error) {
	p := l.d.plan
	if err := l.exchange([]byte(p.head(s, l.path, method, "", len(text))+text), time.Now().Add(p.Timeout)); err != nil {
		return nil, faultf(kindHandshake, "%s: %v", method, broken(err))
	}
	status := l.response.StatusCode()
	switch {
	case status >= 300:
		return nil, faultf(kindHandshake, "%s: %v", method, statusFault(status, l.response.Body()))
	case id == nil:
		if l.response.ConnectionClose() {
			return nil, l.dial(l.d.ctx)
		}
		return nil, nil
	case l.stream != nil:
		return l.streamed(id)
	}
	message, err := l.message()
	if err == nil && l.response.ConnectionClose() {
		message, err = bytes.Clone(message), l.dial(l.d.ctx)
	}
	return message, err
}
