package httpserver

import (
	"bytes"
	"testing"

	"github.com/valyala/fasthttp"
)

// A served request allocates nothing, as with fasthttp.
func TestServingAllocatesNothing(t *testing.T) {
	l := &nullLeaver{}
	_, addr := serve(t, Options{HandlerOptions: HandlerOptions{Gates: []func(*fasthttp.RequestCtx) bool{func(*fasthttp.RequestCtx) bool { return true }}}}, nil,
		func(s *Server) {
			s.Handle("GET", "/x", func(ctx *fasthttp.RequestCtx) {
				watch := WatchClient(ctx, l)
				ctx.SetBodyString("fine")
				watch.Stop()
			})
		})
	c := dialTo(t, addr)
	request, answer := []byte(get), make([]byte, 4096)
	n := testing.AllocsPerRun(200, func() {
		_, _ = c.Write(request)
		if n, err := c.Conn.Read(answer); err != nil || !bytes.HasSuffix(answer[:n], []byte("fine")) {
			t.Fatalf("%q, %v", answer[:n], err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
