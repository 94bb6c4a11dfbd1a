package httpserver

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/internal/testkit"
)

// A connection beyond the limit is refused if none can give way, also over TLS. A silent one is closed soon, and so are all but the first
// if too many come. When another connection ends, there is room.
func TestConnectionsBeyondTheLimit(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls %v", secure), func(t *testing.T) {
			const most = 4
			entered, proceed := make(chan struct{}, most), make(chan struct{})
			var logged atomic.Int32
			ln := testkit.Listen(t)
			if secure {
				cert, _ := testkit.Certificate(t)
				ln = tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{cert}})
			}
			_, addr := serve(t, Options{MaxConns: most, Overloaded: func(ctx *fasthttp.RequestCtx) { ctx.Response.Header.Set("Retry-After", "1"); ctx.SetBodyString("full") },
				Logf: func(format string, _ ...any) {
					if strings.Contains(format, "at work") {
						logged.Add(1)
					}
				}}, ln, func(s *Server) {
				s.Handle("GET", "/x", text)
				s.Handle("GET", "/slow", func(ctx *fasthttp.RequestCtx) { entered <- struct{}{}; <-proceed; text(ctx) })
			})
			dial := func() *client {
				c := dialTo(t, addr)
				if secure {
					c = clientOn(t, tls.Client(c.Conn, &tls.Config{InsecureSkipVerify: true}))
				}
				return c
			}
			slow := make([]*client, most)
			for i := range slow {
				slow[i] = dial()
				slow[i].send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
				testkit.Receive(t, "the handler", entered)
			}
			for range 3 {
				c := dial()
				c.trySend(get)
				if res, body := c.answer(); res.StatusCode != 503 || body != "full" || !res.Close || res.Header.Get("Retry-After") != "1" {
					t.Errorf("%+v %q", res, body)
				}
			}
			began := time.Now()
			var silent []*client
			for range 2 * maxTurnedAway {
				silent = append(silent, dialTo(t, addr))
			}
			for _, c := range silent {
				_, _ = io.Copy(io.Discard, c.Conn) // to its end
			}
			if took := time.Since(began); took > 2*turnAwayTime {
				t.Errorf("silent connections are closed after %v", took)
			}
			if n := logged.Load(); n != 1 {
				t.Errorf("logged %d times", n)
			}
			close(proceed)
			for _, c := range slow {
				if _, body := c.answer(); body != "fine" {
					t.Error("a request in progress was not answered")
				}
			}
			testkit.Eventually(t, "there is room", func() bool {
				c := dial()
				defer c.Close()
				c.trySend(get)
				res, err := http.ReadResponse(c.br, nil)
				if err != nil {
					return false // many connections are still being refused
				}
				defer res.Body.Close()
				return res.StatusCode == 200
			})
		})
	}
}
