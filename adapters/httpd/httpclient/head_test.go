package httpclient

import (
	"bufio"
	"bytes"
	"io"
	"testing"
	"testing/iotest"

	"github.com/valyala/fasthttp"
)

// framing returns the length of a body; -1 if it comes in chunks, -2 if it ends with its connection, -3 if there is none.
func framing(c *conn) int64 {
	if n, known := c.body.Left(); known {
		return n
	}
	switch {
	case c.body.Done():
		return -3
	case c.lastUse && !c.reader.Chunked || c.body.Err() != nil:
		return -2
	}
	return -1
}

// FuzzHead: a head is parsed the same in pieces of any size, and fasthttp's parser, which accepts more, understands every accepted head in
// the same way.
func FuzzHead(f *testing.F) {
	for _, in := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", "HTTP/1.1 103 Early\r\nA: b\r\n\r\nHTTP/1.0 404 No\r\n\r\n", "HTTP/1.1 200\r\nX:\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity, Chunked\r\nConnection: a, close\r\n\r\n", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n",
	} {
		f.Add([]byte(in))
	}
	read := func(r io.Reader) (*conn, error) {
		c := &conn{br: bufio.NewReaderSize(r, 1024)}
		c.body.SetReader(c.br)
		c.reader.Start(false)
		return c, c.readHead()
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		at, err := read(bytes.NewReader(in))
		slow, slowErr := read(iotest.OneByteReader(bytes.NewReader(in)))
		if (err == nil) != (slowErr == nil) || at.status != slow.status || framing(at) != framing(slow) || at.lastUse != slow.lastUse {
			t.Fatalf("at once %v, slowly %v", err, slowErr)
		}
		if err != nil {
			return
		}
		if at.status < 200 || at.status > 599 || !bytes.Equal(at.fields.Raw(), slow.fields.Raw()) {
			t.Fatalf("status %d, head %q", at.status, at.fields.Raw())
		}
		var theirs fasthttp.ResponseHeader
		if err := theirs.Read(bufio.NewReader(bytes.NewReader(at.fields.Raw()))); err != nil {
			return
		}
		length, known := at.body.Left()
		if theirs.StatusCode() != at.status || known && int64(theirs.ContentLength()) != length ||
			framing(at) == -1 && theirs.ContentLength() != -1 {
			t.Fatalf("%q: fasthttp reads %d with length %d", at.fields.Raw(), theirs.StatusCode(), theirs.ContentLength())
		}
	})
}
