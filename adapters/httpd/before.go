package httpd

import (
	"bytes"
	"strings"

	"github.com/valyala/fasthttp"
)

// The gates are to see a request before its body is read, whether or not its client waits to be asked for the body. fasthttp
// looks at a request between head and body in one place only, where a client waits (Expect: 100-continue, RFC 9110 §10.1.1).
// So a request with a body that is not here already with its head gets that expectation written into it, and the interim
// answer, which its client does not expect, is taken out of what is written.

// smallBody is up to how many bytes a body is read before the gates see its head: it comes with the head, or nearly so.
const smallBody = 8 << 10

const (
	expectation = "100-continue"
	unasked     = "X-Dragoman-Unasked" // marks an expectation of ours; nobody else can set it
)

var interim = []byte("HTTP/1.1 100 Continue\r\n\r\n")

// headRead is called by fasthttp between head and body.
func headRead(h *fasthttp.RequestHeader) (none fasthttp.RequestConfig) {
	if n := h.ContentLength(); n != chunked && n <= smallBody {
		return none
	}
	h.Del(unasked)
	switch expects := h.Peek(fasthttp.HeaderExpect); {
	case string(expects) == expectation:
	case strings.EqualFold(string(expects), expectation):
		h.Set(fasthttp.HeaderExpect, expectation)
	default: // of other expectations nothing is known, and nothing is waited for
		h.Set(fasthttp.HeaderExpect, expectation)
		h.Set(unasked, "1")
	}
	return none
}

// chunked is the length of a body that does not tell it.
const chunked = -1

// uninvited takes back what headRead has written, and tells whether it has.
func uninvited(ctx *fasthttp.RequestCtx) bool {
	h := &ctx.Request.Header
	if len(h.Peek(unasked)) == 0 {
		return false
	}
	h.Del(unasked)
	h.Del(fasthttp.HeaderExpect)
	return true
}

// withhold gives what of p, the next bytes to be written, may leave before the interim answer that ends them, or one of the
// writes that follow. Answers to earlier requests of a pipeline may be in front of it. The rest is dropped if it is the
// interim answer, and kept until that is known.
func (c *conn) withhold(p []byte) []byte {
	p = append(c.kept, p...)
	c.kept = nil
	if rest, ok := bytes.CutSuffix(p, interim); ok {
		c.quiet = false
		return rest
	}
	for n := min(len(interim)-1, len(p)); n > 0; n-- {
		if bytes.HasSuffix(p, interim[:n]) {
			c.kept = bytes.Clone(p[len(p)-n:])
			return p[:len(p)-n]
		}
	}
	return p
}
