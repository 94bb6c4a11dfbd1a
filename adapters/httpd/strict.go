package httpd

import (
	"bytes"

	"github.com/valyala/fasthttp"
)

// fasthttp is lenient where a proxy in front may read a head otherwise than we do; whoever finds such a pair of readers can hide
// a request in what one of them takes for a body. So what it lets pass and RFC 9112 does not is refused here, and the connection
// closed: what follows such a head on it is nobody's request.

// index finds the fields of a request's head and tells what in it others may read differently; empty: nothing. fasthttp has
// looked at it already.
func (l *fieldLines) index(h *fasthttp.RequestHeader) (ambiguous string) {
	l.raw, l.at, l.lengths = h.RawHeaders(), l.at[:0], 0
	if !h.IsHTTP11() && string(h.Protocol()) != "HTTP/1.0" {
		return "version" // RFC 9112 §2.3
	}
	length, coded := false, false
	for at := 0; at < len(l.raw); {
		end := bytes.IndexByte(l.raw[at:], '\n')
		if end < 1 || l.raw[at+end-1] != '\r' {
			return "line end" // RFC 9112 §2.2
		}
		line := l.raw[at : at+end-1]
		if len(line) == 0 {
			break
		}
		colon := bytes.IndexByte(line, ':')
		if colon < 1 || line[0] == ' ' || line[0] == '\t' {
			return "folded line" // RFC 9112 §5.2
		}
		name := line[:colon]
		l.add(place(l.raw, at, colon, at+end+1))
		at += end + 1
		if bytes.IndexByte(name, ' ') >= 0 {
			return "field name" // RFC 9112 §5.1
		}
		switch {
		case len(name) == len("Content-Length") && equalFold(name, "Content-Length"):
			length = true
		case len(name) == len("Transfer-Encoding") && equalFold(name, "Transfer-Encoding"):
			if coded = true; !bytes.EqualFold(bytes.Trim(line[colon+1:], " \t"), []byte("chunked")) {
				return "transfer-encoding" // RFC 9112 §6.1
			}
		}
	}
	if length && coded {
		return "both content-length and transfer-encoding" // RFC 9112 §6.1, §11.2
	}
	return ""
}

// strict refuses a request with an ambiguous head.
func (s *Server) strict(ctx *fasthttp.RequestCtx, c *conn) bool {
	if c.fields.lines.index(&ctx.Request.Header) == "" {
		return true
	}
	c.linger = true
	ctx.SetStatusCode(fasthttp.StatusBadRequest)
	s.explain(ctx, fasthttp.StatusBadRequest)
	ctx.SetConnectionClose()
	return false
}

// keepHead remembers the head of a request whose body comes in chunks: fasthttp adds the fields that follow such a body to it,
// and they would say after the gates what the gates have judged before (RFC 9110 §6.5.1).
func (c *conn) keepHead(h *fasthttp.RequestHeader) {
	if h.ContentLength() == chunked {
		c.asked = new(fasthttp.RequestHeader)
		h.CopyTo(c.asked)
	}
}

// dropTrailer makes the head what it was.
func (c *conn) dropTrailer(h *fasthttp.RequestHeader) {
	if c.asked == nil {
		return
	}
	if c.asked.Len() != h.Len() {
		c.asked.CopyTo(h)
	}
	c.asked = nil
}
