package httpserver

import (
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"dragoman/internal/testkit"
)

// Some responses have no body whatever a handler wrote, and HEAD gets the length of what GET gets.
func TestResponsesWithoutABody(t *testing.T) {
	_, addr := serve(t, Options{}, nil, func(s *Server) {
		for _, method := range []string{"GET", "HEAD"} {
			s.Handle(method, "/{status}", func(ctx *fasthttp.RequestCtx) {
				ctx.SetBodyString("fine")
				ctx.SetStatusCode(map[string]int{"200": 200, "204": 204, "304": 304, "205": 205}[ctx.UserValue("status").(string)])
			})
		}
	})
	for _, c := range []struct{ method, status, length, body string }{
		{"GET", "200", "4", "fine"}, {"HEAD", "200", "4", ""}, {"GET", "204", "", ""}, {"GET", "304", "", ""}, {"GET", "205", "4", "fine"},
	} {
		for _, version := range []string{"1.1", "1.0"} {
			client := dialTo(t, addr)
			client.send(c.method + " /" + c.status + " HTTP/" + version + "\r\nHost: a\r\nConnection: close\r\n\r\n")
			all, err := io.ReadAll(client.br)
			head, body, _ := strings.Cut(string(all), "\r\n\r\n")
			if err != nil || !strings.HasPrefix(head, "HTTP/1.1 "+c.status) || body != c.body || c.length != "" && !strings.Contains(head, "Content-Length: "+c.length) {
				t.Errorf("%s %s: %q, %v", c.method, c.status, all, err)
			}
		}
	}
}

// A client of HTTP/1.0 keeps its connection only if it asks for that, and is told that it may.
func TestKeepAliveOfHTTP10(t *testing.T) {
	_, addr := serve(t, Options{}, nil, func(s *Server) { s.Handle("GET", "/x", text) })
	c := dialTo(t, addr)
	for range 2 {
		c.send("GET /x HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n")
		if resp, body := c.answer(); body != "fine" || !strings.EqualFold(resp.Header.Get("Connection"), "keep-alive") {
			t.Fatalf("%q, %q", resp.Header, body)
		}
	}
	c.send("GET /x HTTP/1.0\r\nHost: a\r\n\r\n")
	if resp, body := c.answer(); body != "fine" || !resp.Close {
		t.Errorf("%q, %q", resp.Header, body)
	}
	if _, err := c.br.ReadByte(); err != io.EOF {
		t.Errorf("the connection stays: %v", err)
	}
}

// Targets are a path, an asterisk, or a whole URI, and CONNECT has an authority; others are refused (RFC 9112 §3.2).
func TestRequestTargets(t *testing.T) {
	_, addr := serve(t, Options{HandlerOptions: HandlerOptions{NotFound: func(ctx *fasthttp.RequestCtx) { ctx.Error("no route", 404) }}}, nil, func(s *Server) {
		s.Handle("GET", "/x", func(ctx *fasthttp.RequestCtx) {
			ctx.SetBodyString(string(PathOf(ctx)) + " at " + string(HostOf(ctx)))
		})
		s.Handle("GET", "/v/{name}", func(ctx *fasthttp.RequestCtx) {
			ctx.SetBodyString(string(PathOf(ctx)) + " at " + string(HostOf(ctx)))
		})
	})
	for request, want := range map[string]string{
		"GET /x HTTP/1.1\r\nHost: a.example:80":            "/x at a.example:80",
		"GET /x?q=/y HTTP/1.1\r\nHost: a-1":                "/x at a-1",
		"GET /x HTTP/1.1\r\nHost: A.Example":               "/x at a.example",
		"GET http://b/x HTTP/1.1\r\nHost: a":               "/x at b",
		"GET http://b.example:8/v/%61 HTTP/1.1\r\nHost: a": "/v/%61 at b.example:8",
		"GET /v/a HTTP/1.1\r\nHost: a":                     "/v/a at a",
		"GET x HTTP/1.1\r\nHost: a":                        "Bad Request",
		"GET http:/x HTTP/1.1\r\nHost: a":                  "Bad Request",
		"OPTIONS * HTTP/1.1\r\nHost: a":                    "Method Not Allowed",
		"CONNECT a:80 HTTP/1.1\r\nHost: a":                 "no route",
	} {
		c := dialTo(t, addr)
		c.send(request + "\r\n\r\n")
		if _, body := c.answer(); body != want {
			t.Errorf("%q: %q, want %q", request, body, want)
		}
	}
}

// The length of a request's body is known before it is read; one that no machine holds is refused.
func TestLengthOf(t *testing.T) {
	seen := make(chan int, 1)
	_, addr := serve(t, Options{MaxBody: 10}, nil, func(s *Server) {
		s.Handle("POST", "/x", func(ctx *fasthttp.RequestCtx) { seen <- LengthOf(ctx) })
	})
	for fields, want := range map[string]int{"\r\n": 0, "Content-Length: 0\r\n\r\n": 0, "Content-Length: 2\r\n\r\nhi": 2, "Content-Length: 10\r\n\r\n0123456789": 10,
		"Transfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n0\r\n\r\n": -1} {
		c := dialTo(t, addr)
		c.send("POST /x HTTP/1.1\r\nHost: a\r\n" + fields)
		if resp, _ := c.answer(); resp.StatusCode != 200 {
			t.Fatalf("%q: %d", fields, resp.StatusCode)
		}
		if n := testkit.Receive(t, "the length", seen); n != want {
			t.Errorf("%q: %d", fields, n)
		}
	}
	for _, fields := range []string{"Content-Length: 11\r\n\r\n01234567890", "Content-Length: 1099511627777\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\nb\r\n01234567890\r\n0\r\n\r\n"} {
		c := dialTo(t, addr)
		c.send("POST /x HTTP/1.1\r\nHost: a\r\n" + fields)
		if resp, _ := c.answer(); resp.StatusCode != 413 {
			t.Errorf("%q: %d", fields, resp.StatusCode)
		}
	}
}

// The memory of a large body can be taken and given back; that of a small one belongs to the connection.
func TestTakeBody(t *testing.T) {
	taken := make(chan []byte, 1)
	_, addr := serve(t, Options{}, nil, func(s *Server) {
		s.Handle("POST", "/x", func(ctx *fasthttp.RequestCtx) { taken <- TakeBody(ctx) })
	})
	for _, size := range []int{10, maxKept - 1, maxKept, maxKept + 1} {
		c := dialTo(t, addr)
		body := strings.Repeat("b", size)
		c.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: " + strconv.Itoa(size) + "\r\n\r\n" + body)
		c.answer()
		got := testkit.Receive(t, "the body", taken)
		if size < maxKept && got != nil || size >= maxKept && string(got) != body {
			t.Errorf("%d bytes: %d are taken", size, len(got))
		}
		if got != nil {
			RecycleBody(got)
		}
	}
}
