package httpclient

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/http1"
	"dragoman/adapters/httpd/netpoll"
	"dragoman/proxy"
)

var errDeadline = fmt.Errorf("httpd: waiting for the upstream: %w", os.ErrDeadlineExceeded)

// Response is the response to one Send. It is a small value that may be copied; all copies are the same Response. Except for Abort it
// is for one goroutine. Close or Finish must be called: what the Response has returned, fields included, is valid until then, and
// afterwards reads return ErrClosed and other methods do nothing. The zero Response is closed.
type Response struct {
	c   *conn
	gen uint64
}

func (r Response) conn() *conn {
	if r.c == nil || r.c.gen.Load() != r.gen {
		return nil
	}
	return r.c
}

// Head waits for the status and the fields, until a deadline or, if that is zero, as long as it takes. Interim responses are skipped.
// An error that is os.ErrDeadlineExceeded leaves the Response as it was: Head may be called again, as it may after success. Other
// errors are ErrAborted, *http1.MalformedError, *http1.TooLargeError and *ReadError.
func (r Response) Head(until time.Time) (int, *http1.Fields, error) {
	c := r.conn()
	if c == nil {
		return 0, nil, ErrClosed
	}
	if err := c.waitHead(until); err != nil {
		return 0, nil, err
	}
	return c.status, &c.fields, nil
}

func (c *conn) waitHead(until time.Time) error {
	if c.headDone {
		return nil
	}
	if c.headErr != nil {
		return c.headErr
	}
	c.setDeadline(until)
	err := c.failure(c.readHead())
	if err != nil && err != errDeadline {
		c.headErr = err
	}
	if err == nil && c.credentials != "" && c.status == fasthttp.StatusUnauthorized {
		c.host.opts.Credentials.Refused(c.credentials)
	}
	return err
}

// SetDeadline sets the deadline of Read; zero is none.
func (r Response) SetDeadline(until time.Time) {
	if c := r.conn(); c != nil {
		c.readUntil = until
	}
}

// Read reads from the decoded body as soon as there is any; io.EOF is its proper end. An error that is os.ErrDeadlineExceeded leaves
// the Response as it was; the others are those of Head. If Head was not called, Read waits for it first.
func (r Response) Read(p []byte) (int, error) {
	c := r.conn()
	if c == nil {
		return 0, ErrClosed
	}
	if err := c.waitHead(c.readUntil); err != nil {
		return 0, err
	}
	return c.read(p, c.readUntil)
}

func (c *conn) read(p []byte, until time.Time) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c.setDeadline(until)
	for {
		n, err := c.body.Read(p)
		if n > 0 && err != nil && http1.IsTimeout(err) {
			err = nil
		}
		if n > 0 || err != nil {
			return n, c.failure(err)
		}
	}
}

// Body appends the whole body to dst, at most limit bytes of it. A longer one is a *http1.TooLargeError, before anything is read if the
// server has announced its length. An *ArrivalError says that HostOptions.Arrivals has no room for more. After an error that is os.ErrDeadlineExceeded, another call with what was returned goes on.
func (r Response) Body(dst []byte, limit int, until time.Time) ([]byte, error) {
	c := r.conn()
	if c == nil {
		return dst, ErrClosed
	}
	if err := c.waitHead(until); err != nil {
		return dst, err
	}
	for {
		if c.body.Done() {
			return dst, nil
		}
		ahead, known := c.body.Left()
		if !known {
			ahead = 1
		}
		if c.body.Got() > int64(limit) || known && c.body.Got()+ahead > int64(limit) {
			return dst, &http1.TooLargeError{What: "response body", Limit: limit}
		}
		if len(dst) == cap(dst) { // grow as bytes come, not as they are announced; each growth leaves the smaller memory as garbage
			more := int(min(ahead, max(trusted*int64(len(dst)), 64<<10)))
			if err := c.hold(len(dst) + more); err != nil {
				return dst, err
			}
			dst = slices.Grow(dst, more)
		}
		room := min(int64(cap(dst)-len(dst)), int64(limit)+1-c.body.Got())
		n, err := c.read(dst[len(dst):len(dst)+int(room)], until)
		dst = dst[:len(dst)+n]
		if c.body.Got() > int64(limit) {
			return dst, &http1.TooLargeError{What: "response body", Limit: limit}
		}
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
	}
}

// Whole returns the body without copying it if all of it arrived with the head, which was read, and it has at most limit bytes. It is
// borrowed until Close. Otherwise Body must be called.
func (r Response) Whole(limit int) ([]byte, bool) {
	c := r.conn()
	if c == nil || !c.headDone {
		return nil, false
	}
	return c.body.Whole(limit)
}

// Abort cancels the request: it closes the connection at once, so that the server notices, and blocked reads return ErrAborted. It may
// be called from any goroutine, at any time, more than once. After Close or Finish it does nothing, even if the connection serves
// another Response by then. Close must still be called.
func (r Response) Abort() {
	if r.c == nil {
		return
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if r.c.gen.Load() == r.gen && !r.c.aborted {
		r.c.aborted = true
		_ = r.c.sock.Close()
	}
}

// Close ends the Response. The connection goes back to the pool if the body was read to its end, else it is closed.
func (r Response) Close() { r.end(false) }

// Finish is Close for a Response whose relevant part has been read, such as the last event of a stream. It does not wait: the
// connection is used again if the end of the body has arrived, or arrives within 5 ms and 16 KiB.
func (r Response) Finish() { r.end(true) }

func (r Response) end(drain bool) {
	c := r.conn()
	if c == nil {
		return
	}
	if drain && !c.body.Done() {
		c.finish()
	}
	c.mu.Lock()
	if c.gen.Load() != r.gen {
		c.mu.Unlock()
		return
	}
	c.gen.Add(1)
	aborted := c.aborted
	c.mu.Unlock()
	_ = c.hold(0) // less has room
	proxy.Overwrite(c.body.Borrowed())
	whole := c.body.Done() && c.br.Buffered() == 0 || !c.owes.IsZero()
	if aborted || !c.headDone || !whole || c.body.Err() != nil || c.lastUse {
		c.host.drop(c)
		return
	}
	c.served++
	c.idleSince = time.Now()
	c.host.keep(c)
}

// Reason returns a status with its text: "502 Bad Gateway".
func Reason(status int) string { return fmt.Sprintf("%d %s", status, fasthttp.StatusMessage(status)) }

// trusted is the number of further bytes that a server is believed to send, for each that has come.
const trusted = 15

// maxInterim is how many 1xx responses may precede the final one (RFC 9110 §15.2).
const maxInterim = 16

// readHead reads the head of the final response, skips interim ones, and prepares the body. It may be called again after a deadline.
func (c *conn) readHead() error {
	for ; c.interim <= maxInterim; c.interim++ {
		size, err := c.reader.Read(c.br)
		if err != nil {
			return err
		}
		c.status = c.reader.Status
		switch {
		case c.status == fasthttp.StatusSwitchingProtocols:
			return &http1.MalformedError{What: "response: an upgrade that was not asked for"}
		case c.status < 200:
			_, _ = c.br.Discard(size) // it is buffered
			c.reader.Start(true)
			continue
		}
		if !c.reader.Known { // else the fields are those of the last response
			head, _ := c.br.Peek(size) // it is buffered
			c.fields.Copy(head, &c.reader)
		}
		_, _ = c.br.Discard(size)
		c.frame()
		return nil
	}
	return &http1.MalformedError{What: "response: too many interim ones"}
}

// frame decides where the body ends (RFC 9112 §6.3) and whether the connection can be used again.
func (c *conn) frame() {
	c.headDone = true
	h := &c.reader
	c.lastUse = c.lastUse || h.Closes || h.HTTP10 && !h.KeepAlive
	switch {
	case c.headOnly, c.status == fasthttp.StatusNoContent, c.status == fasthttp.StatusNotModified:
		c.body.StartEmpty()
	case h.Length >= 0:
		c.body.StartSized(h.Length)
	case h.Chunked && !h.HTTP10:
		c.body.StartChunked()
	default:
		c.lastUse = true
		c.body.StartUntilClose()
		if h.Chunked { // HTTP/1.0 has no chunks: the body may be either
			c.body.Fail(&http1.MalformedError{What: "transfer-encoding in HTTP/1.0"})
		}
	}
}

// failure turns an error of the connection into one for the caller.
func (c *conn) failure(err error) error {
	if err == nil || err == io.EOF {
		return err
	}
	_, malformed := errors.AsType[*http1.MalformedError](err)
	_, large := errors.AsType[*http1.TooLargeError](err)
	switch {
	case c.isAborted():
		return ErrAborted
	case http1.IsTimeout(err):
		return errDeadline
	case malformed, large:
		return err
	}
	return &ReadError{Reused: c.served > 0, Started: c.headDone || c.reader.Started(), Err: err}
}

// Bounds on the end of a body that is still to come after Finish.
const (
	drainTime  = 5 * time.Millisecond
	drainBytes = 16 << 10
)

// Buffered returns the part of the body that has arrived in one piece, without waiting; Discard consumes it. It is valid until the next
// read.
func (r Response) Buffered() []byte {
	if c := r.conn(); c != nil && c.headDone {
		return c.body.Buffered()
	}
	return nil
}

// Discard consumes the first n bytes that Buffered has returned.
func (r Response) Discard(n int) {
	if c := r.conn(); c != nil {
		c.body.Discard(n)
	}
}

// finish prepares for the rest of a body whose reader has finished. It does not wait for the rest: the connection goes into the pool,
// and its next user reads it first.
func (c *conn) finish() {
	if !c.headDone || c.lastUse || c.body.Err() != nil || c.body.DiscardBuffered() {
		return
	}
	switch now := time.Now(); {
	case c.body.Err() != nil:
	case netpoll.CanPeek && c.peek != nil:
		c.owes = now.Add(drainTime)
	default: // without a Peeker its arrival cannot be seen later
		c.drain(now.Add(drainTime))
	}
}

// drain reads the outstanding end of a response until a time. It reports whether the connection can be used.
func (c *conn) drain(until time.Time) bool {
	if cap(c.out) < 1<<10 {
		c.out = make([]byte, 0, 1<<10)
	}
	sink := c.out[:1<<10] // the request has been sent
	for left := drainBytes; left > 0 && !c.body.Done(); {
		n, err := c.read(sink, until)
		left -= n
		if err != nil {
			break
		}
	}
	c.owes = time.Time{}
	return c.body.Done() && c.body.Err() == nil && c.br.Buffered() == 0
}

// awaitEnd waits for the outstanding end of a response, within its time.
func (c *conn) awaitEnd(now time.Time) bool {
	until := c.owes
	if c.peek.Peek() == netpoll.Readable { // it may have arrived long ago
		until = now.Add(drainTime)
	}
	return until.After(now) && c.drain(until)
}
