package httpserver

import (
	"testing"

	"github.com/valyala/fasthttp"
)

// The handler of an open connection is replaced: a request in progress ends with the old one, and the next request gets the new one with
// its gates.
func TestSetHandler(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	s, addr := serve(t, Options{}, nil, func(s *Server) {
		s.Handle("GET", "/x", func(ctx *fasthttp.RequestCtx) {
			close(begun)
			<-release
			ctx.SetBodyString("old")
		})
	})
	c := dialTo(t, addr)
	c.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
	<-begun
	f := NewHandler(HandlerOptions{
		Gates: []func(*fasthttp.RequestCtx) bool{func(ctx *fasthttp.RequestCtx) bool {
			if string(ctx.Path()) != "/secret" {
				return true
			}
			ctx.Error("no", 403)
			return false
		}},
		NotFound: func(ctx *fasthttp.RequestCtx) { ctx.Error("not any more", 404) },
	})
	f.Handle("GET", "/y", func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString("new") })
	s.SetHandler(f)
	close(release)
	if res, body := c.answer(); res.StatusCode != 200 || body != "old" {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	for path, want := range map[string]string{"/x": "not any more", "/y": "new", "/secret": "no"} {
		c.send("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")
		if _, body := c.answer(); body != want {
			t.Errorf("%s: %s", path, body)
		}
	}
}

// After DisableKeepAlives each response closes its connection, also that of a request in progress. New connections are accepted.
func TestDisableKeepAlives(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	s, addr := serve(t, Options{}, nil, func(s *Server) {
		s.Handle("GET", "/slow", func(ctx *fasthttp.RequestCtx) {
			close(begun)
			<-release
			ctx.SetBodyString("slow")
		})
		s.Handle("GET", "/x", text)
	})
	stays, slow := dialTo(t, addr), dialTo(t, addr)
	stays.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
	if res, _ := stays.answer(); res.Close {
		t.Fatal("it ends without a reason")
	}
	slow.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
	<-begun
	s.DisableKeepAlives()
	close(release)
	for _, c := range []*client{slow, stays, dialTo(t, addr)} {
		if c != slow {
			c.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n")
		}
		if res, _ := c.answer(); res.StatusCode != 200 || !res.Close {
			t.Errorf("%d, its connection ends: %v", res.StatusCode, res.Close)
		}
	}
}
