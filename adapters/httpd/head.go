package httpd

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/valyala/fasthttp"
)

// maxInterim is how many 1xx responses may precede an answer (RFC 9110 §15.2).
const maxInterim = 16

// headScan looks a response head over line by line as it arrives, strictly: fasthttp, which parses it then, would let
// blanks around names, folded lines and odd status lines pass (RFC 9112 §5.1, §5.2). A scan interrupted by a deadline goes
// on where it was.
type headScan struct {
	at      int // the next line's place in the buffer
	status  int
	length  bool // a Content-Length was there
	coded   bool // a Transfer-Encoding was there
	started bool // a byte of the answer was there
}

var crlf = []byte("\r\n")

// next reads until the head is whole in br's buffer and returns its size.
func (s *headScan) next(br *bufio.Reader) (int, error) {
	for {
		buf, _ := br.Peek(br.Buffered())
		s.started = s.started || len(buf) > 0
		for s.at < len(buf) {
			i := bytes.IndexByte(buf[s.at:], '\n')
			if i < 0 {
				break
			}
			line := buf[s.at : s.at+i+1]
			end, err := s.line(line)
			if err != nil {
				return 0, err
			}
			s.at += i + 1
			if end {
				return s.at, nil
			}
		}
		if len(buf) == br.Size() {
			return 0, &TooLargeError{What: "response header", Limit: br.Size()}
		}
		if _, err := br.Peek(len(buf) + 1); err != nil {
			return 0, cut(err)
		}
	}
}

// line judges one line, the LF included.
func (s *headScan) line(line []byte) (end bool, err error) {
	text, ok := bytes.CutSuffix(line, crlf)
	if !ok {
		return false, &MalformedError{What: "line end in response head"}
	}
	if s.at == 0 {
		return false, s.statusLine(text)
	}
	if len(text) == 0 {
		return true, nil
	}
	name, value, ok := bytes.Cut(text, []byte{':'})
	if !ok || !ValidName(name) || !ValidValue(value) {
		return false, &MalformedError{What: "field in response head"}
	}
	switch {
	case len(name) == len("Content-Length") && bytes.EqualFold(name, []byte("Content-Length")):
		if s.length || !digits(bytes.TrimSpace(value)) {
			return false, &MalformedError{What: "content-length"}
		}
		s.length = true
	case len(name) == len("Transfer-Encoding") && bytes.EqualFold(name, []byte("Transfer-Encoding")):
		s.coded = true
	}
	if s.length && s.coded { // two ideas of where the body ends: the way responses are smuggled (RFC 9112 §6.3)
		return false, &MalformedError{What: "response head: both content-length and transfer-encoding"}
	}
	return false, nil
}

// statusLine wants "HTTP/1.x NNN", then a blank and any reason, or nothing (RFC 9112 §4).
func (s *headScan) statusLine(text []byte) error {
	if len(text) < 12 || !bytes.HasPrefix(text, []byte("HTTP/1.")) || text[7] != '0' && text[7] != '1' ||
		text[8] != ' ' || len(text) > 12 && text[12] != ' ' || !digits(text[9:12]) || !ValidValue(text) {
		return &MalformedError{What: "status line"}
	}
	s.status = int(text[9]-'0')*100 + int(text[10]-'0')*10 + int(text[11]-'0')
	if s.status < 100 || s.status > 599 {
		return &MalformedError{What: "status code"}
	}
	return nil
}

func digits(b []byte) bool {
	for _, d := range b {
		if d < '0' || d > '9' {
			return false
		}
	}
	return len(b) > 0
}

// readHead reads the final response head, passing over interim ones, and prepares the body. It may be called again
// after a deadline.
func (c *upConn) readHead() error {
	for ; c.interim <= maxInterim; c.interim++ {
		size, err := c.scan.next(c.br)
		if err != nil {
			return err
		}
		before := c.br.Buffered()
		if err := c.head.Read(c.br); err != nil || before-c.br.Buffered() != size {
			return &MalformedError{What: "response head"}
		}
		status, coded := c.scan.status, c.scan.coded
		c.scan = headScan{started: true}
		switch {
		case status == fasthttp.StatusSwitchingProtocols:
			return &MalformedError{What: "response: an upgrade that was not asked for"}
		case status < 200:
			continue
		}
		c.frame(status, coded)
		return nil
	}
	return &MalformedError{What: "response: too many interim ones"}
}

// frame decides where the body ends (RFC 9112 §6.3) and whether the connection can be used again.
func (c *upConn) frame(status int, coded bool) {
	c.headDone = true
	c.lastUse = c.lastUse || c.head.ConnectionClose() || hasToken(c.head.PeekAll("Connection"), "close")
	length := c.head.ContentLength()
	switch {
	case c.headOnly, status == fasthttp.StatusNoContent, status == fasthttp.StatusNotModified:
		c.body.start(bodyNone, 0)
	case length >= 0:
		c.body.start(bodyLength, int64(length))
	case length == -1:
		c.body.start(bodyChunked, 0)
	default:
		c.lastUse = true
		c.body.start(bodyUntilClose, 0)
		if coded { // chunked in an answer of HTTP/1.0: nobody can say what was meant
			c.body.err = &MalformedError{What: "transfer-encoding in HTTP/1.0"}
		}
	}
}

// failure makes of a low error what the caller is told.
func (c *upConn) failure(err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	return c.fault(err)
}

func (c *upConn) fault(err error) error {
	var malformed *MalformedError
	var large *TooLargeError
	switch {
	case c.isAborted():
		return ErrAborted
	case isDeadline(err):
		return errDeadline
	case errors.As(err, &malformed), errors.As(err, &large):
		return err
	}
	return &ReadError{Reused: c.served > 0, Started: c.headDone || c.scan.started, Err: err}
}
