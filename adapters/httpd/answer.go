package httpd

import (
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	waist "dragoman/proxy"
)

var errDeadline = fmt.Errorf("httpd: waiting for the upstream: %w", os.ErrDeadlineExceeded)

// Answer is the response to one Send. It is a small value that may be copied; all copies are the same Answer. It is used
// by one goroutine, Abort apart, until Close or Finish, one of which must be called. What it handed out, the header
// above all, is valid until then; afterwards every method is harmless: reads return ErrClosed. The zero Answer is closed.
type Answer struct {
	c   *upConn
	gen uint64
}

func (a Answer) conn() *upConn {
	if a.c == nil || a.c.gen.Load() != a.gen {
		return nil
	}
	return a.c
}

// Head waits for the status and the header, until a deadline or, if that is zero, as long as it takes; interim
// responses are passed over. An error that is os.ErrDeadlineExceeded leaves the Answer as it was: Head may be called
// again, as it may after success. Other errors are ErrAborted, *MalformedError, *TooLargeError and *ReadError.
func (a Answer) Head(until time.Time) (int, *Fields, error) {
	c := a.conn()
	if c == nil {
		return 0, nil, ErrClosed
	}
	if err := c.waitHead(until); err != nil {
		return 0, nil, err
	}
	return c.status, &c.head, nil
}

func (c *upConn) waitHead(until time.Time) error {
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
	if err == nil && c.shown != "" && c.status == fasthttp.StatusUnauthorized {
		c.host.opts.Credentials.Refused(c.shown)
	}
	return err
}

// SetDeadline sets until when Read may wait; zero is for ever.
func (a Answer) SetDeadline(until time.Time) {
	if c := a.conn(); c != nil {
		c.readUntil = until
	}
}

// Read reads of the decoded body, as soon as there is any; io.EOF is its proper end. An error that is
// os.ErrDeadlineExceeded leaves the Answer as it was; the others are those of Head. If Head was not called, Read waits for
// it first.
func (a Answer) Read(p []byte) (int, error) {
	c := a.conn()
	if c == nil {
		return 0, ErrClosed
	}
	if err := c.waitHead(c.readUntil); err != nil {
		return 0, err
	}
	return c.read(p, c.readUntil)
}

func (c *upConn) read(p []byte, until time.Time) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c.setDeadline(until)
	for {
		n, err := c.body.read(p)
		if n > 0 && isDeadline(err) {
			err = nil
		}
		if n > 0 || err != nil {
			return n, c.failure(err)
		}
	}
}

// Body reads the whole body, at most limit bytes of it, and returns dst with it appended. A longer one is a
// *TooLargeError, found before anything is read if the server announced it. After an error that is
// os.ErrDeadlineExceeded, calling again with what was returned goes on.
func (a Answer) Body(dst []byte, limit int, until time.Time) ([]byte, error) {
	c := a.conn()
	if c == nil {
		return dst, ErrClosed
	}
	if err := c.waitHead(until); err != nil {
		return dst, err
	}
	for {
		if c.body.done {
			return dst, nil
		}
		ahead := int64(1)
		if c.body.kind == bodyLength {
			ahead = c.body.left
		}
		if c.body.got > int64(limit) || c.body.kind == bodyLength && c.body.got+ahead > int64(limit) {
			return dst, &TooLargeError{What: "response body", Limit: limit}
		}
		if len(dst) == cap(dst) { // grow as bytes come, not as they are announced
			dst = slices.Grow(dst, int(min(ahead, max(int64(len(dst)), 64<<10))))
		}
		room := min(int64(cap(dst)-len(dst)), int64(limit)+1-c.body.got)
		n, err := c.read(dst[len(dst):len(dst)+int(room)], until)
		dst = dst[:len(dst)+n]
		if c.body.got > int64(limit) {
			return dst, &TooLargeError{What: "response body", Limit: limit}
		}
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
	}
}

// Whole gives the body where it stands if Head was told and all of it has come with that; it is borrowed until Close. Otherwise, and
// where it has more than limit bytes, it gives nothing, and Body is to be called.
func (a Answer) Whole(limit int) ([]byte, bool) {
	c := a.conn()
	if c == nil || !c.headDone {
		return nil, false
	}
	return c.body.whole(limit)
}

// Abort gives the request up: the connection is closed at once, whoever is blocked on it returns with ErrAborted, and
// the server sees it. It may be called from any goroutine, at any time, more than once. After Close or Finish it does
// nothing, also when the connection is at work for another Answer. Close must still be called.
func (a Answer) Abort() {
	if a.c == nil {
		return
	}
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	if a.c.gen.Load() == a.gen && !a.c.aborted {
		a.c.aborted = true
		_ = a.c.wire.Close()
	}
}

// Close ends the Answer. The connection goes back to the pool if the body was read to its end, else it is closed.
func (a Answer) Close() { a.end(false) }

// Finish is Close for an Answer of which everything that matters has been read, such as the last event of a stream. It waits for
// nothing: the connection may be used again if the end of the body is here, or arrives within 5 ms and 16 KiB.
func (a Answer) Finish() { a.end(true) }

func (a Answer) end(drain bool) {
	c := a.conn()
	if c == nil {
		return
	}
	if drain && !c.body.done {
		c.ending()
	}
	c.mu.Lock()
	if c.gen.Load() != a.gen {
		c.mu.Unlock()
		return
	}
	c.gen.Add(1)
	aborted := c.aborted
	c.mu.Unlock()
	if waist.Poison {
		spoil(c.body.lent)
	}
	whole := c.body.done && c.br.Buffered() == 0 || !c.owes.IsZero()
	if aborted || !c.headDone || !whole || c.body.err != nil || c.lastUse {
		c.host.drop(c)
		return
	}
	c.host.put(c)
}

// Reason is the text for a status, for messages about an answer: "502 Bad Gateway".
func Reason(status int) string { return fmt.Sprintf("%d %s", status, fasthttp.StatusMessage(status)) }
