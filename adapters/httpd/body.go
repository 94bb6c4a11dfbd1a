package httpd

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"os"

	"github.com/valyala/fasthttp"
)

// maxLine bounds a chunk's size line and a trailer line; maxOverhead what framing may cost beyond the data, which is the
// defence against a body of tiny chunks with long extensions.
const (
	maxLine     = 4 << 10
	maxOverhead = 16 << 10
)

type bodyKind uint8

const (
	bodyNone bodyKind = iota
	bodyLength
	bodyUntilClose
	bodyChunked
)

type chunkState uint8

const (
	chunkSize chunkState = iota
	chunkData
	chunkEnd // CRLF after the data
	chunkTrailer
)

// body decodes a message body (RFC 9112 §6) from a buffered connection, and never reads past its end. A read that ends
// by a deadline takes nothing: it can be tried again. Any other failure stays.
type body struct {
	br        *bufio.Reader
	kind      bodyKind
	state     chunkState
	left      int64 // of the body, or of the chunk
	got       int64 // bytes handed out
	overhead  int64
	done      bool // the end has been read
	err       error
	most      int64  // bytes that a body in chunks may have; 0: no limit is kept here
	ofRequest bool   // else a response's
	lent      []byte // by whole
}

var errMore = errors.New("httpd: more bytes needed")

func (b *body) start(kind bodyKind, length int64) {
	*b = body{br: b.br, kind: kind, left: length}
	b.done = kind == bodyNone || kind == bodyLength && length == 0
}

// read is an io.Reader. At the end it reads the framing after the last byte if that has arrived, so that done tells.
func (b *body) read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if b.done {
		return 0, io.EOF
	}
	n, err := b.readKind(p)
	b.got += int64(n)
	if err != nil && err != io.EOF && !isDeadline(err) {
		b.err = err
	}
	return n, err
}

func (b *body) readKind(p []byte) (int, error) {
	switch b.kind {
	case bodyLength:
		n, err := b.part(p)
		b.done = b.left == 0
		return n, err
	case bodyUntilClose:
		n, err := b.br.Read(p)
		b.done = err == io.EOF
		return n, err
	}
	for b.state != chunkData {
		if err := b.step(true); err != nil {
			return 0, err
		}
		if b.done {
			return 0, io.EOF
		}
	}
	n, err := b.part(p)
	if b.left == 0 {
		b.state = chunkEnd
	}
	for err == nil && !b.done && b.state != chunkData {
		if e := b.step(false); e == errMore {
			break
		} else if e != nil {
			b.err = e // told at the next read
			break
		}
	}
	return n, err
}

// whole takes a body of known length out of the buffer, of which nothing was read yet, if it is there.
func (b *body) whole(limit int) ([]byte, bool) {
	n := b.left
	if b.kind != bodyLength || b.done || b.got > 0 || b.err != nil || n > int64(limit) || n > int64(b.br.Buffered()) {
		return nil, false
	}
	all, _ := b.br.Peek(int(n)) // it is there
	_, _ = b.br.Discard(int(n)) // the same
	b.left, b.got, b.done, b.lent = 0, n, true, all
	return all, true
}

// part reads of what is left.
func (b *body) part(p []byte) (int, error) {
	n, err := b.br.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, cut(err)
}

// step goes over one piece of framing; without wait it returns errMore rather than read from the connection.
func (b *body) step(wait bool) error {
	line, err := b.line(wait)
	if err != nil {
		return err
	}
	switch b.state {
	case chunkEnd:
		if len(line) > 0 {
			return &MalformedError{What: "chunk: longer than its size"}
		}
		b.state = chunkSize
	case chunkSize:
		if b.left, err = chunkLength(line); err != nil {
			return err
		}
		if b.most > 0 && b.left > b.most-b.got {
			return fasthttp.ErrBodyTooLarge
		}
		b.state = chunkData
		b.overhead = max(0, b.overhead+int64(len(line))-16-2*b.left)
		if b.left == 0 {
			b.state = chunkTrailer
		}
	default:
		b.overhead += int64(len(line))
		if len(line) == 0 {
			b.done = true
		} else if name, _, ok := bytes.Cut(line, []byte{':'}); !ok || !ValidName(name) || b.ofRequest && misplaced(name) {
			return &MalformedError{What: "trailer"}
		}
	}
	if b.overhead > maxOverhead {
		return &MalformedError{What: "chunks: more framing than data"}
	}
	return nil
}

// misplaced says of which fields a request must not have any behind its body: they say where that ends, to whom it goes, or who
// asks (RFC 9110 §6.5.1).
func misplaced(name []byte) bool {
	for _, field := range [...]string{"Authorization", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Cookie", "Expect",
		"Host", "TE", "Trailer", "Transfer-Encoding", "Upgrade"} {
		if len(name) == len(field) && equalFold(name, field) {
			return true
		}
	}
	return false
}

// line takes one line off the buffer, without its CRLF. It is valid until the next read.
func (b *body) line(wait bool) ([]byte, error) {
	for {
		buf, _ := b.br.Peek(b.br.Buffered())
		if i := bytes.IndexByte(buf, '\n'); i >= 0 {
			if i == 0 || buf[i-1] != '\r' {
				return nil, &MalformedError{What: "line end in chunked body"}
			}
			_, err := b.br.Discard(i + 1)
			return buf[:i-1], err
		}
		if b.state == chunkEnd && len(buf) > 1 || len(buf) >= min(maxLine, b.br.Size()) {
			return nil, &MalformedError{What: "chunked body: line without end"}
		}
		if !wait {
			return nil, errMore
		}
		if _, err := b.br.Peek(len(buf) + 1); err != nil {
			return nil, cut(err)
		}
	}
}

// chunkLength reads the hexadecimal size that begins a size line; an extension is passed over (RFC 9112 §7.1.1).
func chunkLength(line []byte) (n int64, err error) {
	digits := 0
	for ; digits < len(line); digits++ {
		d := hexDigit(line[digits])
		if d < 0 {
			break
		}
		if digits == 15 {
			return 0, &MalformedError{What: "chunk size: too large"}
		}
		n = n<<4 | int64(d)
	}
	rest := bytes.TrimLeft(line[digits:], " \t")
	if digits == 0 || len(rest) > 0 && rest[0] != ';' || !ValidValue(rest) {
		return 0, &MalformedError{What: "chunk size"}
	}
	return n, nil
}

func hexDigit(b byte) int {
	switch {
	case '0' <= b && b <= '9':
		return int(b - '0')
	case 'a' <= b && b <= 'f':
		return int(b-'a') + 10
	case 'A' <= b && b <= 'F':
		return int(b-'A') + 10
	}
	return -1
}

// cut makes an end inside a message the error that it is.
func cut(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// isDeadline reports whether err only says that a deadline has passed.
func isDeadline(err error) bool {
	if err == nil {
		return false
	}
	var ne net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &ne) && ne.Timeout()
}
