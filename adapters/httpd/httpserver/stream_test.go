package httpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/internal/testkit"
)

// holding serves streams and returns a channel with their results.
func holding(t *testing.T, opts Options, so StreamOptions) (s *Server, addr string, held chan *Stream, closed chan error) {
	held, closed = make(chan *Stream, 2000), make(chan error, 2000)
	so.OnClose = func(err error) { closed <- err }
	s, addr = serve(t, opts, nil, func(s *Server) { s.Handle("GET", "/x", holder(so, held)) })
	return s, addr, held, closed
}

func holder(so StreamOptions, held chan *Stream) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		ctx.Response.Header.Set("X-Mine", "yes")
		h, err := OpenStream(ctx, so)
		if err != nil {
			ctx.Error(err.Error(), 503)
			return
		}
		held <- h
	}
}

func TestOpenStreamWriteEndAndKeepAlive(t *testing.T) {
	s, addr, held, closed := holding(t, Options{KeepAlive: 30 * time.Millisecond}, StreamOptions{First: []byte("data: 0\n\n")})
	c := dialTo(t, addr)
	c.send(get)
	resp := c.head()
	if resp.Header.Get("X-Mine") != "yes" || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatal(resp.Header)
	}
	h := testkit.Receive(t, "the stream", held)
	c.expect("9\r\ndata: 0\n\n\r\n")
	c.expect("e\r\n: keep-alive\n\n\r\ne\r\n: keep-alive\n\n\r\n")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 25 {
				if err := h.Write([]byte("data: 1\n\n")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	h.End()
	h.End()
	body, err := io.ReadAll(c.br)
	got := strings.ReplaceAll(string(body), "e\r\n: keep-alive\n\n\r\n", "")
	if err != nil || got != strings.Repeat("9\r\ndata: 1\n\n\r\n", 100)+"0\r\n\r\n" {
		t.Fatalf("%q, %v", got, err)
	}
	if err := testkit.Receive(t, "OnClose", closed); err != nil {
		t.Fatal(err)
	}
	if err := h.Write([]byte("x")); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	testkit.Eventually(t, "nothing left", func() bool { return s.Streams() == 0 && s.Conns() == 0 && len(closed) == 0 })
}

func TestOpenStreamEndsWithItsPeer(t *testing.T) {
	_, addr, held, closed := holding(t, Options{}, StreamOptions{})
	for name, leave := range map[string]func(*client){
		"FIN":            func(c *client) { _ = c.Close() },
		"RST":            func(c *client) { c.reset() },
		"pipelined, FIN": func(c *client) { c.send(get); _ = c.Close() },
	} {
		testkit.Promptly(t, name, func() time.Duration {
			c := dialTo(t, addr)
			c.send(get)
			c.head()
			c.expect("8\r\n: open\n\n\r\n")
			h := testkit.Receive(t, "the stream", held)
			start := time.Now()
			leave(c)
			if err := testkit.Receive(t, "OnClose", closed); !errors.Is(err, ErrLeft) {
				t.Fatalf("%s: %v", name, err)
			}
			took := time.Since(start)
			if h.Write([]byte("x")) == nil {
				t.Fatalf("%s: written after the client had left", name)
			}
			return took
		})
	}
}

func TestOpenStreamPeerDoesNotRead(t *testing.T) {
	event := []byte("data: " + strings.Repeat("x", 100<<10) + "\n\n")
	_, addr, held, closed := holding(t, Options{}, StreamOptions{})
	c := dialTo(t, addr)
	c.send(get)
	h := testkit.Receive(t, "the stream", held)
	for n := 0; ; n++ {
		start := time.Now()
		err := h.Write(event)
		if took := time.Since(start); took > time.Second {
			t.Fatalf("a write waited %v", took)
		}
		if errors.Is(err, ErrSlowReader) {
			break
		}
		if err != nil || n > 1000 {
			t.Fatal(n, err)
		}
	}
	if err := testkit.Receive(t, "OnClose", closed); !errors.Is(err, ErrSlowReader) {
		t.Fatal(err)
	}

	_, addr, held, closed = holding(t, Options{WriteTimeout: 30 * time.Millisecond}, StreamOptions{Queue: 1 << 30})
	c = dialTo(t, addr)
	c.send(get)
	h = testkit.Receive(t, "the stream", held)
	if err := h.Write(make([]byte, 32<<20)); err != nil {
		t.Fatal(err)
	}
	if err := testkit.Receive(t, "OnClose", closed); !errors.Is(err, ErrSlowReader) {
		t.Fatal(err)
	}
}

// Events that do not fit into the socket wait and arrive in order.
func TestOpenStreamQueue(t *testing.T) {
	_, addr, held, closed := holding(t, Options{KeepAlive: time.Hour}, StreamOptions{Queue: 64 << 20}) // nothing comes between
	c := dialTo(t, addr)
	c.send(get)
	c.head()
	_ = c.SetDeadline(time.Now().Add(time.Minute)) // 20 MB, with the race detector, beside other tests
	h := testkit.Receive(t, "the stream", held)
	var want strings.Builder
	want.WriteString("8\r\n: open\n\n\r\n")
	for i := range 200 {
		event := fmt.Sprintf("data: %d %s\n\n", i, strings.Repeat("x", 100000))
		if err := h.Write([]byte(event)); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&want, "%x\r\n%s\r\n", len(event), event)
	}
	h.End()
	want.WriteString("0\r\n\r\n")
	if got, err := io.ReadAll(c.br); err != nil || string(got) != want.String() {
		t.Fatalf("%d bytes of %d, %v", len(got), want.Len(), err)
	}
	if err := testkit.Receive(t, "OnClose", closed); err != nil {
		t.Fatal(err)
	}
}

func TestOpenStreamLimit(t *testing.T) {
	_, addr, held, closed := holding(t, Options{MaxStreams: 1}, StreamOptions{})
	first, second := dialTo(t, addr), dialTo(t, addr)
	first.send(get)
	first.head()
	testkit.Receive(t, "the stream", held)
	second.send(get)
	if resp, body := second.answer(); resp.StatusCode != 503 || body != ErrTooManyStreams.Error() {
		t.Fatal(resp.StatusCode, body)
	}
	_ = first.Close()
	testkit.Receive(t, "OnClose", closed)
	testkit.Eventually(t, "room again", func() bool {
		second.send(get)
		resp := second.head()
		if resp.StatusCode != 200 {
			_, _ = io.Copy(io.Discard, resp.Body)
		}
		return resp.StatusCode == 200
	})
}

func TestOpenStreamThousandIdle(t *testing.T) {
	const n = 1000
	s, addr, held, closed := holding(t, Options{}, StreamOptions{})
	before := runtime.NumGoroutine()
	clients := make([]*client, n)
	for i := range clients {
		clients[i] = dialTo(t, addr)
		clients[i].send(get)
	}
	for _, c := range clients {
		c.head()
		testkit.Receive(t, "the stream", held)
	}
	testkit.Eventually(t, "no goroutine a stream", func() bool { return runtime.NumGoroutine() < before+5 })
	if s.Streams() != n {
		t.Fatal(s.Streams())
	}
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Patient)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	for range n {
		if err := testkit.Receive(t, "OnClose", closed); !errors.Is(err, ErrShutdown) {
			t.Fatal(err)
		}
	}
	for _, c := range clients {
		if rest, err := io.ReadAll(c.br); err != nil || !strings.HasSuffix(string(rest), "\r\n0\r\n\r\n") {
			t.Fatalf("%q, %v", rest, err)
		}
	}
}

func TestOpenStreamDrain(t *testing.T) {
	s, addr, held, closed := holding(t, Options{}, StreamOptions{OnDrain: func(h *Stream) { _ = h.Write([]byte("data: bye\n\n")) }})
	c := dialTo(t, addr)
	c.send(get)
	c.head()
	testkit.Receive(t, "the stream", held)
	if err := s.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	if len(closed) != 1 {
		t.Fatal("Shutdown did not wait for OnClose")
	}
	c.expect("8\r\n: open\n\n\r\nb\r\ndata: bye\n\n\r\n0\r\n\r\n")
}

func TestOpenStreamOverTLSAndHTTP10(t *testing.T) {
	cert, _ := testkit.Certificate(t)
	held := make(chan *Stream, 2)
	_, addr := serve(t, Options{}, tls.NewListener(testkit.Listen(t), &tls.Config{Certificates: []tls.Certificate{cert}}), func(s *Server) {
		s.Handle("GET", "/x", holder(StreamOptions{}, held))
	})
	for _, version := range []string{"1.1", "1.0"} {
		nc, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		c := clientOn(t, nc)
		c.send("GET /x HTTP/" + version + "\r\nHost: a\r\n\r\n")
		resp := c.head()
		h := testkit.Receive(t, "the stream", held)
		if err := h.Write([]byte("data: 1\n\n")); err != nil {
			t.Fatal(err)
		}
		h.End()
		if body, err := io.ReadAll(resp.Body); err != nil || string(body) != ": open\n\ndata: 1\n\n" {
			t.Fatalf("%q, %v", body, err)
		}
	}
}
