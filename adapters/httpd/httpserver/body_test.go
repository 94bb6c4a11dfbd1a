package httpserver

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/valyala/fasthttp"
)

// gatekept serves /x, which answers with the request's body, to clients with the key.
func gatekept(t *testing.T) (addr string, gated, handled *atomic.Int64) {
	gated, handled = new(atomic.Int64), new(atomic.Int64)
	_, addr = serve(t, Options{HandlerOptions: HandlerOptions{Gates: []func(*fasthttp.RequestCtx) bool{func(ctx *fasthttp.RequestCtx) bool {
		gated.Add(1)
		if string(FieldsOf(ctx).Peek("x-key")) == "right" {
			return true
		}
		ctx.Error("no key", 401)
		return false
	}}}}, nil, func(s *Server) {
		s.Handle("POST", "/x", func(ctx *fasthttp.RequestCtx) {
			handled.Add(1)
			ctx.SetBody(ctx.PostBody())
		})
	})
	return addr, gated, handled
}

func TestALargeBodyIsNotReadBeforeTheGates(t *testing.T) {
	for name, head := range map[string]string{
		"length":  fmt.Sprintf("Content-Length: %d\r\n", smallBody+1),
		"chunked": "Transfer-Encoding: chunked\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			addr, gated, handled := gatekept(t)
			c := dialTo(t, addr)
			c.send("POST /x HTTP/1.1\r\nHost: a\r\n" + head + "\r\n") // without the body
			if resp, body := c.answer(); resp.StatusCode != 401 || body != "no key" {
				t.Fatal(resp.StatusCode, body)
			}
			if gated.Load() != 1 || handled.Load() != 0 {
				t.Fatalf("gated %d, handled %d", gated.Load(), handled.Load())
			}
		})
	}
}

func TestNoContinueWithoutExpect(t *testing.T) {
	addr, gated, handled := gatekept(t)
	c := dialTo(t, addr)
	long, short := strings.Repeat("x", 5*smallBody), "hi"
	const head = "POST /x HTTP/1.1\r\nHost: a\r\nX-Key: right\r\n"
	sized := func(body string) string { return fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(body), body) }
	pieces := fmt.Sprintf("%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", head, len(long), long)
	requests := []string{short, long, short, short, long, short}
	for round := range 3 {
		var all strings.Builder
		for _, body := range requests {
			all.WriteString(sized(body))
		}
		all.WriteString(pieces)
		go func() { _, _ = c.Conn.Write([]byte(all.String())) }() // ends with the connection: its answers are read below
		for i, body := range append(requests[:len(requests):len(requests)], long) {
			if resp, got := c.answer(); resp.StatusCode != 200 || got != body {
				t.Fatalf("round %d, answer %d: %d, %.60q", round, i, resp.StatusCode, got)
			}
		}
	}
	if n := int64(3 * (len(requests) + 1)); gated.Load() != n || handled.Load() != n {
		t.Fatalf("gated %d, handled %d, want %d", gated.Load(), handled.Load(), n)
	}
}
