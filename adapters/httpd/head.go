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

// headScan reads a response head line by line as it arrives, strictly: no blanks around names, no folded lines, no odd status
// lines (RFC 9112 §5.1, §5.2). A scan interrupted by a deadline goes on where it was.
type headScan struct {
	at      int // the next line's place in the buffer
	status  int
	oldest  bool       // HTTP/1.0
	length  int64      // what Content-Length says; -1: there was none
	coded   bool       // a Transfer-Encoding was there
	codings int        // how many it names, "identity" apart
	chunked bool       // the last of them is chunked
	closes  bool       // Connection: close
	stays   bool       // Connection: keep-alive
	started bool       // a byte of the answer was there
	fields  fieldLines // without their text
	begun   bool       // the status line was read
}

// start makes the scan ready for the next head, and keeps its memory.
func (s *headScan) start(started bool) {
	*s = headScan{length: -1, started: started, fields: fieldLines{at: s.fields.at[:0]}}
}

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
			end, err := s.line(buf, s.at+i+1)
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

// line judges the line from s.at to next, the LF included.
func (s *headScan) line(buf []byte, next int) (end bool, err error) {
	stop := next - 2
	if stop < s.at || buf[stop] != '\r' {
		return false, &MalformedError{What: "line end in response head"}
	}
	if !s.begun {
		s.begun = true
		return false, s.statusLine(buf[s.at:stop])
	}
	if stop == s.at {
		return true, s.settle()
	}
	colon := bytes.IndexByte(buf[s.at:stop], ':')
	if colon < 0 || !ValidName(buf[s.at:s.at+colon]) || !ValidValue(buf[s.at+colon+1:stop]) {
		return false, &MalformedError{What: "field in response head"}
	}
	p := place(buf, s.at, colon, next)
	s.fields.add(p)
	return false, s.framing(buf[p.from:p.nameEnd], buf[p.value:p.valueEnd])
}

// framing takes note of a field that says where the message or its connection ends.
func (s *headScan) framing(name, value []byte) error {
	switch len(name) {
	case len("Connection"):
		if equalFold(name, "Connection") {
			s.closes = s.closes || hasItem(value, "close")
			s.stays = s.stays || hasItem(value, "keep-alive")
		}
	case len("Content-Length"):
		if !equalFold(name, "Content-Length") {
			break
		}
		if s.length >= 0 || !digits(value) || len(value) > 18 { // 18 digits fit into an int64
			return &MalformedError{What: "content-length"}
		}
		s.length = 0
		for _, d := range value {
			s.length = 10*s.length + int64(d-'0')
		}
	case len("Transfer-Encoding"):
		if equalFold(name, "Transfer-Encoding") {
			s.coded = true
			s.coding(value)
		}
	}
	return nil
}

// coding takes note of the codings of a body.
func (s *headScan) coding(value []byte) {
	for len(value) > 0 {
		item, rest, _ := bytes.Cut(value, []byte{','})
		value = rest
		if item = bytes.TrimSpace(item); len(item) > 0 && !bytes.EqualFold(item, []byte("identity")) {
			s.codings++
			s.chunked = bytes.EqualFold(item, []byte("chunked"))
		}
	}
}

// settle judges what only the whole head tells.
func (s *headScan) settle() error {
	switch {
	case s.length >= 0 && s.coded: // two ideas of where the body ends: the way responses are smuggled (RFC 9112 §6.3)
		return &MalformedError{What: "response head: both content-length and transfer-encoding"}
	case s.codings > 1 || s.codings == 1 && !s.chunked: // none was asked for (RFC 9110 §10.1.4), and none is known here
		return &MalformedError{What: "transfer-encoding"}
	}
	return nil
}

// statusLine wants "HTTP/1.x NNN", then a blank and any reason, or nothing (RFC 9112 §4).
func (s *headScan) statusLine(text []byte) error {
	if len(text) < 12 || string(text[:7]) != "HTTP/1." || text[7] != '0' && text[7] != '1' ||
		text[8] != ' ' || len(text) > 12 && text[12] != ' ' || !digits(text[9:12]) || !ValidValue(text) {
		return &MalformedError{What: "status line"}
	}
	s.status = int(text[9]-'0')*100 + int(text[10]-'0')*10 + int(text[11]-'0')
	s.oldest = text[7] == '0'
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
		c.status = c.scan.status
		switch {
		case c.status == fasthttp.StatusSwitchingProtocols:
			return &MalformedError{What: "response: an upgrade that was not asked for"}
		case c.status < 200:
			_, _ = c.br.Discard(size) // it is there
			c.scan.start(true)
			continue
		}
		head, _ := c.br.Peek(size) // it is there
		c.head.keep(head, &c.scan.fields)
		_, _ = c.br.Discard(size)
		c.frame()
		return nil
	}
	return &MalformedError{What: "response: too many interim ones"}
}

// frame decides where the body ends (RFC 9112 §6.3) and whether the connection can be used again.
func (c *upConn) frame() {
	c.headDone = true
	s := &c.scan
	c.lastUse = c.lastUse || s.closes || s.oldest && !s.stays
	switch {
	case c.headOnly, c.status == fasthttp.StatusNoContent, c.status == fasthttp.StatusNotModified:
		c.body.start(bodyNone, 0)
	case s.length >= 0:
		c.body.start(bodyLength, s.length)
	case s.chunked && !s.oldest:
		c.body.start(bodyChunked, 0)
	default:
		c.lastUse = true
		c.body.start(bodyUntilClose, 0)
		if s.chunked { // in an answer of HTTP/1.0: nobody can say what was meant
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
