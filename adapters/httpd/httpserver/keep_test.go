package httpserver

import (
	"fmt"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

// Kept parts of a request do not change when more arrives on its connection, or has arrived with it.
func TestKeptBodiesStay(t *testing.T) {
	kept := make(chan []byte, 64)
	_, addr := serve(t, Options{}, nil, func(s *Server) {
		s.Handle("POST", "/x", func(ctx *fasthttp.RequestCtx) {
			body := ctx.PostBody()
			if len(body) > 0 && body[0] == 'k' {
				KeepBody(ctx)
				kept <- body
			}
			ctx.SetBody(body)
		})
	})
	const head = "POST /x HTTP/1.1\r\nHost: a\r\n"
	sized := func(body string) string { return fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(body), body) }
	pieces := func(body string) string {
		return fmt.Sprintf("%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", head, len(body), body)
	}
	for _, size := range []int{10, smallBody - 1000, smallBody + 1000, maxKept + 1000} {
		for way, frame := range map[string]func(string) string{"length": sized, "chunked": pieces} {
			c := dialTo(t, addr)
			var all strings.Builder
			var want []string
			for i := range 6 {
				letter := "kx"[i%2 : i%2+1]
				want = append(want, letter+strings.Repeat(fmt.Sprint(i), size))
				all.WriteString(frame(want[i]))
			}
			c.send(all.String())
			for i := range want {
				if resp, body := c.answer(); resp.StatusCode != 200 || body != want[i] {
					t.Fatalf("%s, %d bytes: answer %d is %d, %d bytes", way, size, i, resp.StatusCode, len(body))
				}
			}
			for i := 0; i < len(want); i += 2 {
				if body := <-kept; string(body) != want[i] {
					t.Errorf("%s, %d bytes: body %d became %.20q", way, size, i, body)
				}
			}
		}
	}
}
