package httpserver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/internal/testkit"
)

func TestServerAnswersAndRefuses(t *testing.T) {
	_, addr := serve(t, Options{
		MaxBody: 1000, MaxHeader: 2048, HandlerOptions: HandlerOptions{
			NotFound: func(ctx *fasthttp.RequestCtx) { ctx.Error("no such thing", 404) },
			MethodNotAllowed: func(ctx *fasthttp.RequestCtx) {
				ctx.SetStatusCode(405)
				ctx.SetBodyString("not so")
			},
			Refused: func(ctx *fasthttp.RequestCtx, status int) {
				ctx.SetBodyString("refused: " + strconv.Itoa(status) + " " + fasthttp.StatusMessage(status))
			},
		}}, nil, func(s *Server) {
		s.Handle("GET", "/x", text)
		s.Handle("POST", "/x", func(ctx *fasthttp.RequestCtx) { ctx.SetBody(ctx.PostBody()) })
		s.Handle("GET", "/panic", func(*fasthttp.RequestCtx) { panic("on purpose") })
	})
	for name, c := range map[string]struct {
		in     string
		status int
		body   string
	}{
		"get":           {get, 200, "fine"},
		"post":          {"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi", 200, "hi"},
		"chunked":       {"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2;e=1\r\nhi\r\n0\r\n\r\n", 200, "hi"},
		"expect":        {"POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n", 100, ""},
		"no such path":  {"GET /X HTTP/1.1\r\nHost: a\r\n\r\n", 404, "no such thing"},
		"no slash":      {"GET /x/ HTTP/1.1\r\nHost: a\r\n\r\n", 404, "no such thing"},
		"no method":     {"PUT /x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 405, "not so"},
		"large":         {"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n" + strings.Repeat("x", 1001), 413, "refused: 413 Request Entity Too Large"},
		"large chunked": {"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" + strings.Repeat("x", 1001) + "\r\n0\r\n\r\n", 413, "refused: 413 Request Entity Too Large"},
		"large, asked":  {"POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1001\r\n\r\n", 413, "refused: 413 Request Entity Too Large"},
		"long head":     {"GET /x HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 3000) + "\r\n\r\n", 431, "refused: 431 Request Header Fields Too Large"},
		"no request":    {"what?\r\n\r\n", 400, "refused: 400 Bad Request"},
		"panic":         {"GET /panic HTTP/1.1\r\nHost: a\r\n\r\n", 500, "refused: 500 Internal Server Error"},
	} {
		t.Run(name, func(t *testing.T) {
			c1 := dialTo(t, addr)
			c1.send(c.in)
			resp, body := c1.answer()
			if resp.StatusCode != c.status || body != c.body {
				t.Fatalf("%d %q", resp.StatusCode, body)
			}
			if resp.Header.Get("Server") != "" {
				t.Fatal("a Server header")
			}
			if _, err := http.ParseTime(resp.Header.Get("Date")); err != nil && c.status != 100 {
				t.Fatal(err)
			}
			if c.status == 405 && resp.Header.Get("Allow") == "" {
				t.Fatal("no Allow")
			}
		})
	}
}

// A refusal must reach a client that is still sending: closing with unread bytes would reset the connection.
func TestRefusalReachesASender(t *testing.T) {
	_, addr := serve(t, Options{MaxBody: 1000}, nil, func(s *Server) { s.Handle("POST", "/x", text) })
	for range 20 {
		c := dialTo(t, addr)
		c.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 4000000\r\n\r\n")
		for range 40 { // the client ignores a failed write
			if _, err := c.Write(bytes.Repeat([]byte("x"), 100000)); err != nil {
				break
			}
		}
		if resp, _ := c.answer(); resp.StatusCode != 413 {
			t.Fatal(resp.StatusCode)
		}
	}
}

func TestGatesComeBeforeTheBodyThatIsAskedFor(t *testing.T) {
	addr, gated, handled := gatekept(t)
	c := dialTo(t, addr)
	c.send("POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
	if resp, body := c.answer(); resp.StatusCode != 401 || body != "no key" {
		t.Fatal(resp.StatusCode, body)
	}
	c = dialTo(t, addr)
	c.send("POST /x HTTP/1.1\r\nHost: a\r\nX-KEY: right\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
	if resp := c.head(); resp.StatusCode != 100 {
		t.Fatal(resp.StatusCode)
	}
	c.send("hi")
	if resp, body := c.answer(); resp.StatusCode != 200 || body != "hi" {
		t.Fatal(resp.StatusCode, body)
	}
	c.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi")
	if resp, _ := c.answer(); resp.StatusCode != 401 {
		t.Fatal(resp.StatusCode)
	}
	if gated.Load() != 3 || handled.Load() != 1 {
		t.Fatalf("gated %d, handled %d", gated.Load(), handled.Load())
	}
}

func TestSlowLorisIsClosed(t *testing.T) {
	_, addr := serve(t, Options{ReadTimeout: 100 * time.Millisecond}, nil, func(s *Server) { s.Handle("POST", "/x", text) })
	for _, part := range []string{"POST /x HT", "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc"} {
		c := dialTo(t, addr)
		c.send(part)
		start := time.Now()
		if resp, _ := c.answer(); resp.StatusCode != 408 {
			t.Fatal(resp.StatusCode)
		}
		if _, err := c.br.ReadByte(); err != io.EOF || time.Since(start) > 2*time.Second {
			t.Fatalf("after %v: %v", time.Since(start), err)
		}
	}
}

func TestIdleConnectionIsClosed(t *testing.T) {
	_, addr := serve(t, Options{IdleTimeout: 50 * time.Millisecond}, nil, func(s *Server) { s.Handle("GET", "/x", text) })
	c := dialTo(t, addr)
	c.send(get)
	c.answer()
	if _, err := c.br.ReadByte(); err != io.EOF {
		t.Fatal(err)
	}
}

// fasthttp's pools keep the largest buffer they ever saw.
func TestLargeBuffersAreNotKept(t *testing.T) {
	large := strings.Repeat("x", 1<<20)
	var kept atomic.Int64
	kept.Store(-1)
	_, addr := serve(t, Options{}, nil, func(s *Server) {
		s.Handle("POST", "/x", func(ctx *fasthttp.RequestCtx) { _, _ = ctx.Write(ctx.PostBody()) })
		s.Handle("GET", "/x", func(ctx *fasthttp.RequestCtx) {
			kept.Store(int64(cap(ctx.Request.Body()) + cap(ctx.Response.Body())))
		})
	})
	c := dialTo(t, addr)
	for range 3 {
		c.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1048576\r\n\r\n" + large)
		if _, body := c.answer(); body != large {
			t.Fatal("not the body")
		}
		c.send(get)
		c.answer()
		if n := kept.Load(); n < 0 || n > 2*maxKept {
			t.Fatalf("%d bytes kept", n)
		}
	}
}

func TestShutdownLetsHandlersFinish(t *testing.T) {
	entered, proceed := make(chan struct{}), make(chan struct{})
	s, addr := serve(t, Options{}, nil, func(s *Server) {
		s.Handle("GET", "/x", func(ctx *fasthttp.RequestCtx) {
			entered <- struct{}{}
			<-proceed
			text(ctx)
		})
		s.Handle("GET", "/idle", text)
	})
	idle := dialTo(t, addr)
	idle.send("GET /idle HTTP/1.1\r\nHost: a\r\n\r\n")
	idle.answer()
	fresh := dialTo(t, addr)
	busy := dialTo(t, addr)
	busy.send(get)
	testkit.Receive(t, "the handler", entered)
	testkit.Eventually(t, "three connections", func() bool { return s.Conns() == 3 })
	down := make(chan error, 1)
	go func() { down <- s.Shutdown(context.Background()) }()
	for _, c := range []*client{idle, fresh} {
		if _, err := c.br.ReadByte(); err == nil {
			t.Fatal("still open")
		}
	}
	if _, err := net.Dial("tcp", addr); err == nil {
		t.Fatal("still accepting")
	}
	select {
	case <-down:
		t.Fatal("did not wait")
	default:
	}
	close(proceed)
	resp, body := busy.answer()
	if body != "fine" || !resp.Close {
		t.Fatal(body, resp.Close)
	}
	if err := testkit.Receive(t, "Shutdown", down); err != nil {
		t.Fatal(err)
	}
}

func TestShutdownForces(t *testing.T) {
	entered, gone := make(chan struct{}, 1), make(leaver, 1)
	s, addr := serve(t, Options{}, nil, func(s *Server) {
		s.Handle("GET", "/x", func(ctx *fasthttp.RequestCtx) {
			watch := WatchClient(ctx, gone)
			defer watch.Stop()
			entered <- struct{}{}
			<-gone
		})
	})
	c := dialTo(t, addr)
	c.send(get)
	testkit.Receive(t, "the handler", entered)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if s.Conns() != 0 {
		t.Fatal("connections left")
	}
}

func TestServerOnAUnixSocketAndThroughNetHTTP(t *testing.T) {
	s, err := NewServer(Options{})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := Listen("unix:" + t.TempDir() + "/s")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	_, addr := serve(t, Options{}, ln, func(s *Server) { s.Handle("GET", "/x", text) })
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", addr)
	}}
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr}).Get("http://a/x")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); string(body) != "fine" {
		t.Fatal(string(body))
	}
}
