package httpclient

import (
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/http1"
	"dragoman/proxy"
)

var errDeadline = fmt.Errorf("httpd: waiting for the upstream: %w", os.ErrDeadlineExceeded)

// Response is the response to one Send. It is a small value that may be copied; all copies are the same Response. It is used by one
// goroutine, except for Abort, until Close or Finish, one of which must be called. What it has returned, the fields above all, is
// valid until then; afterwards every method is harmless: reads return ErrClosed. The zero Response is closed.
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
		if n > 0 && http1.IsTimeout(err) {
			err = nil
		}
		if n > 0 || err != nil {
			return n, c.failure(err)
		}
	}
}

// Body appends the whole body to dst, at most limit bytes of it. A longer one is a *http1.TooLargeError, before anything is read if the
// server has announced its length. After an error that is os.ErrDeadlineExceeded, another call with what was returned goes on.
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
		if len(dst) == cap(dst) { // grow as bytes come, not as they are announced
			dst = slices.Grow(dst, int(min(ahead, max(int64(len(dst)), 64<<10))))
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

// Finish is Close for a Response of which all that matters was read, such as the last event of a stream. It does not wait: the
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
	proxy.Overwrite(c.body.Borrowed())
	whole := c.body.Done() && c.br.Buffered() == 0 || !c.owes.IsZero()
	if aborted || !c.headDone || !whole || c.body.Err() != nil || c.lastUse {
		c.host.drop(c)
		return
	}
	c.host.put(c)
}

// Reason returns a status with its text: "502 Bad Gateway".
func Reason(status int) string { return fmt.Sprintf("%d %s", status, fasthttp.StatusMessage(status)) }
