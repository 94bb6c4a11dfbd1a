package httpclient

import (
	"errors"
	"io"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/http1"
)

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
	return c.fault(err)
}

func (c *conn) fault(err error) error {
	var malformed *http1.MalformedError
	var large *http1.TooLargeError
	switch {
	case c.isAborted():
		return ErrAborted
	case http1.IsTimeout(err):
		return errDeadline
	case errors.As(err, &malformed), errors.As(err, &large):
		return err
	}
	return &ReadError{Reused: c.served > 0, Started: c.headDone || c.reader.Started(), Err: err}
}
