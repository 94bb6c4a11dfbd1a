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

// headScan reads a message's head line by line as it arrives, strictly: no blanks around names, no folded lines, no odd first
// lines (RFC 9112 §5.1, §5.2): whoever finds two readers who differ in what they let pass can hide a message in what one of them
// takes for a body. A scan interrupted by a deadline goes on where it was.
type headScan struct {
	ofRequest bool // else a response's
	at        int  // the next line's place in the buffer
	status    int
	oldest    bool       // HTTP/1.0
	length    int64      // what Content-Length says; -1: there was none
	coded     bool       // a Transfer-Encoding was there
	codings   int        // how many it names, "identity" apart
	chunked   bool       // the last of them is chunked
	closes    bool       // Connection: close
	stays     bool       // Connection: keep-alive
	started   bool       // a byte of the message was there
	fields    fieldLines // without their text
	begun     bool       // the first line was read
	whole     bool       // all this was found in last
	known     bool       // by a head that has come once more
	request   requestLine
	last      lastHead
}

// start makes the scan ready for the next head, and keeps its memory. What it has found in the last one it keeps as well, until it
// sees another.
func (s *headScan) start(started bool) {
	s.known = false
	if s.started = started; !s.whole {
		s.reset()
	}
}

func (s *headScan) reset() {
	s.at, s.status, s.oldest, s.length, s.coded, s.codings, s.chunked = 0, 0, false, -1, false, 0, false
	s.closes, s.stays, s.begun, s.whole, s.request = false, false, false, false, requestLine{}
	s.fields.reset()
	s.last.differs = false
}

// next reads until the head is whole in br's buffer and returns its size.
func (s *headScan) next(br *bufio.Reader) (int, error) {
	if s.whole {
		if size, err := s.same(br); size > 0 || err != nil {
			return size, err
		}
	}
	for {
		buf, _ := br.Peek(br.Buffered())
		s.started = s.started || len(buf) > 0
		for s.at < len(buf) {
			if s.begun {
				if known, err := s.again(buf); err != nil {
					return 0, err
				} else if known {
					continue
				}
			}
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
				s.last.keep(buf[:s.at], s.fields.at)
				s.whole = true
				return s.at, nil
			}
		}
		if len(buf) == br.Size() {
			what := "response header"
			if s.ofRequest {
				what = "request header"
			}
			return 0, &TooLargeError{What: what, Limit: br.Size()}
		}
		if _, err := br.Peek(len(buf) + 1); err != nil {
			return 0, cut(err)
		}
	}
}

// same gives the size of a head that is the last one once more, as most are between two who know each other: what was found in that
// one holds for it. 0: it is another.
func (s *headScan) same(br *bufio.Reader) (int, error) {
	if _, err := br.Peek(1); err != nil {
		s.reset()
		return 0, cut(err)
	}
	s.started = true
	buf, _ := br.Peek(br.Buffered())
	if size := len(s.last.text); len(buf) >= size && string(buf[:size]) == string(s.last.text) {
		s.known = true
		return size, nil
	}
	s.reset()
	return 0, nil
}

// line judges the line from s.at to next, the LF included.
func (s *headScan) line(buf []byte, next int) (end bool, err error) {
	stop := next - 2
	if stop < s.at || buf[stop] != '\r' {
		return false, &MalformedError{What: "line end in head"}
	}
	if !s.begun {
		return false, s.firstLine(buf[s.at:stop])
	}
	if stop == s.at {
		return true, s.settle()
	}
	text, colon := buf[s.at:stop], 0
	for colon < len(text) && token[text[colon]] {
		colon++
	}
	if colon == 0 || colon == len(text) || text[colon] != ':' || !clean(text[colon+1:]) {
		return false, &MalformedError{What: "field in head"}
	}
	p := place(buf, s.at, colon, next)
	p.special = isSpecial(text[:colon])
	s.last.differs = true
	return false, s.field(buf, p)
}

// field takes note of a field.
func (s *headScan) field(buf []byte, p fieldPlace) error {
	s.fields.add(p)
	if !p.special {
		return nil
	}
	if s.ofRequest {
		s.request.field(buf, p)
	}
	return s.framing(buf[p.from:p.nameEnd], buf[p.value:p.valueEnd])
}

// isSpecial says of a name whether its field has a meaning for whoever reads the head.
func isSpecial(name []byte) bool {
	switch len(name) {
	case len("Host"), len("Expect"), len("Connection"), len("Content-Length"), len("Transfer-Encoding"):
		return true
	}
	return false
}

// lastHead is the last head that was read from a connection. Most of the next one's lines are the same: those are known to be right.
type lastHead struct {
	text    []byte
	at      []fieldPlace
	differs bool // the head that is being read has other lines
}

// again takes a line that has come before, in the same place.
func (s *headScan) again(buf []byte) (bool, error) {
	i := len(s.fields.at)
	if i >= len(s.last.at) {
		return false, nil
	}
	old := &s.last.at[i]
	size, by := old.end-old.from, s.at-old.from
	if len(buf)-s.at < size || string(buf[s.at:s.at+size]) != string(s.last.text[old.from:old.end]) {
		return false, nil
	}
	p := fieldPlace{from: s.at, nameEnd: old.nameEnd + by, value: old.value + by, valueEnd: old.valueEnd + by, end: s.at + size, special: old.special}
	if !p.special {
		s.fields.add(p)
	} else if err := s.field(buf, p); err != nil {
		return false, err
	}
	s.at = p.end
	return true, nil
}

// keep remembers a head.
func (l *lastHead) keep(head []byte, at []fieldPlace) {
	if l.differs || len(at) != len(l.at) || string(head) != string(l.text) {
		l.text, l.at = append(l.text[:0], head...), append(l.at[:0], at...)
	}
}

// forget leaves nothing of the last head in memory: credentials are among it.
func (s *headScan) forget() {
	s.reset()
	s.last.forget()
}

func (l *lastHead) forget() {
	clear(l.text)
	l.text, l.at = l.text[:0], l.at[:0]
	if cap(l.text) > keptBuffer {
		*l = lastHead{}
	}
}

func (s *headScan) firstLine(text []byte) error {
	switch {
	case !s.ofRequest:
		s.begun = true
		return s.statusLine(text)
	case len(text) == 0: // in front of a request there may be empty lines (RFC 9112 §2.2)
		return nil
	}
	s.begun = true
	return s.requestLine(text)
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
		if item = bytes.TrimSpace(item); s.ofRequest || len(item) > 0 && !bytes.EqualFold(item, []byte("identity")) {
			s.codings++
			s.chunked = bytes.EqualFold(item, []byte("chunked"))
		}
	}
}

// settle judges what only the whole head tells.
func (s *headScan) settle() error {
	switch {
	case s.length >= 0 && s.coded: // two ideas of where the body ends: the way responses are smuggled (RFC 9112 §6.3)
		return &MalformedError{What: "head: both content-length and transfer-encoding"}
	case s.ofRequest:
		return s.settleRequest()
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
		if !c.scan.known { // else it is there still
			head, _ := c.br.Peek(size) // it has been read
			c.head.keep(head, &c.scan.fields)
		}
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
