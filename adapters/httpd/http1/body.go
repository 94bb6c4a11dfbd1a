package http1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// maxLine bounds the size line of a chunk and a line of the trailer. maxOverhead bounds the framing beyond the data: the defence
// against a body of tiny chunks with long extensions.
const (
	maxLine     = 4 << 10
	maxOverhead = 16 << 10
)

type bodyKind uint8

const (
	bodyNone bodyKind = iota
	bodySized
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

// Body decodes a message body (RFC 9112 §6) from a buffered connection, and never reads past its end. A read that ends by a deadline
// consumes nothing and can be repeated. Any other error is permanent.
type Body struct {
	br        *bufio.Reader
	kind      bodyKind
	state     chunkState
	left      int64 // of the body, or of the chunk
	got       int64 // bytes handed out
	overhead  int64
	done      bool // the end has been read
	err       error
	limit     int64  // of a request's body in chunks; 0: none
	ofRequest bool   // else a response's
	borrowed  []byte // by Whole
}

var errMore = errors.New("httpd: more bytes needed")

// SetReader makes b read from br.
func (b *Body) SetReader(br *bufio.Reader) { b.br = br }

// StartEmpty begins a message without a body.
func (b *Body) StartEmpty() { b.start(bodyNone, 0) }

// StartSized begins a body of length bytes.
func (b *Body) StartSized(length int64) { b.start(bodySized, length) }

// StartChunked begins a body in chunks.
func (b *Body) StartChunked() { b.start(bodyChunked, 0) }

// StartUntilClose begins a body that ends with its connection.
func (b *Body) StartUntilClose() { b.start(bodyUntilClose, 0) }

// LimitRequest makes the body, which has been started, that of a request in chunks: limit bytes are allowed, and no field of a head
// in the trailer.
func (b *Body) LimitRequest(limit int) { b.ofRequest, b.limit = true, int64(limit) }

func (b *Body) start(kind bodyKind, length int64) {
	*b = Body{br: b.br, kind: kind, left: length}
	b.done = kind == bodyNone || kind == bodySized && length == 0
}

// Done reports whether the end was read.
func (b *Body) Done() bool { return b.done }

// Err returns the error that ended the body; Fail sets it.
func (b *Body) Err() error { return b.err }

// Fail makes err the result of every read.
func (b *Body) Fail(err error) { b.err = err }

// Got returns how many bytes were handed out.
func (b *Body) Got() int64 { return b.got }

// Left returns how many bytes a body of known length still has.
func (b *Body) Left() (n int64, known bool) { return b.left, b.kind == bodySized }

// Borrowed returns the body that Whole has handed out.
func (b *Body) Borrowed() []byte { return b.borrowed }

// Read implements io.Reader. At the end it consumes the framing after the last byte if that has arrived, so that Done is true early.
func (b *Body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if b.done {
		return 0, io.EOF
	}
	n, err := b.readKind(p)
	b.got += int64(n)
	if err != nil && err != io.EOF && !IsTimeout(err) {
		b.err = err
	}
	return n, err
}

func (b *Body) readKind(p []byte) (int, error) {
	switch b.kind {
	case bodySized:
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
			b.err = e // for the next read
			break
		}
	}
	return n, err
}

// Whole takes a body of known length, at most limit bytes, out of the buffer if all of it has arrived and nothing was read. It is
// borrowed from the buffer.
func (b *Body) Whole(limit int) ([]byte, bool) {
	n := b.left
	if b.kind != bodySized || b.done || b.got > 0 || b.err != nil || n > int64(limit) || n > int64(b.br.Buffered()) {
		return nil, false
	}
	all, _ := b.br.Peek(int(n)) // it is buffered
	_, _ = b.br.Discard(int(n)) // it is buffered
	b.left, b.got, b.done, b.borrowed = 0, n, true, all
	return all, true
}

// part reads from the rest of a body or chunk.
func (b *Body) part(p []byte) (int, error) {
	n, err := b.br.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, UnexpectedEOF(err)
}

// step consumes one piece of framing; without wait it returns errMore rather than read from the connection.
func (b *Body) step(wait bool) error {
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
		if b.limit > 0 && b.left > b.limit-b.got {
			return ErrBodyTooLarge
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

// misplaced reports whether a field is forbidden in the trailer of a request because it controls framing, routing or authentication
// (RFC 9110 §6.5.1).
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
func (b *Body) line(wait bool) ([]byte, error) {
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
			return nil, UnexpectedEOF(err)
		}
	}
}

// chunkLength reads the hexadecimal size that begins a size line and ignores an extension (RFC 9112 §7.1.1).
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
	switch lower := b | 0x20; {
	case '0' <= b && b <= '9':
		return int(b - '0')
	case 'a' <= lower && lower <= 'f':
		return int(lower-'a') + 10
	}
	return -1
}

// Buffered returns the part of the body that is buffered in one piece, up to the end of a chunk. It is valid until the next read.
func (b *Body) Buffered() []byte {
	b.frames()
	if b.done || b.err != nil || b.kind == bodyChunked && b.state != chunkData {
		return nil
	}
	n := b.br.Buffered()
	if b.kind != bodyUntilClose {
		n = int(min(int64(n), b.left))
	}
	piece, _ := b.br.Peek(n) // it is buffered
	return piece
}

// Discard consumes the first n bytes that Buffered has returned.
func (b *Body) Discard(n int) {
	_, _ = b.br.Discard(n) // they are buffered
	b.got += int64(n)
	if b.kind == bodyUntilClose {
		return
	}
	b.left -= int64(n)
	switch {
	case b.left > 0:
	case b.kind == bodySized:
		b.done = true
	default:
		b.state = chunkEnd
		b.frames()
	}
}

// frames consumes the buffered framing between chunks.
func (b *Body) frames() {
	for b.kind == bodyChunked && b.state != chunkData && !b.done && b.err == nil {
		if err := b.step(false); err == errMore {
			return
		} else if err != nil {
			b.err = err // for the next read
		}
	}
}

// DiscardBuffered consumes the buffered part of a body, without a read, and reports whether that was the rest of it.
func (b *Body) DiscardBuffered() bool {
	for piece := b.Buffered(); len(piece) > 0; piece = b.Buffered() {
		b.Discard(len(piece))
	}
	return b.done
}
