package httpserver

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// used makes a connection on which requests have been answered.
func used(t *testing.T, addr string) *client {
	t.Helper()
	c := dialTo(t, addr)
	for range 4 {
		c.say(get)
		c.answer()
	}
	return c
}

// What arrives while a handler runs is not lost: the next request, whole or in part, is answered after the first, and an end
// that came with the last bytes is seen, on a connection that could be idle for an hour.
func TestNothingIsLostWhileAHandlerRuns(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	_, addr := serve(t, Options{IdleTimeout: time.Hour, ReadTimeout: time.Hour}, nil, func(s *Server) {
		s.Handle("GET", "/x", text)
		s.Handle("GET", "/slow", func(ctx *fasthttp.RequestCtx) {
			entered <- struct{}{}
			<-leave
			ctx.SetBodyString("slow")
		})
	})
	const slow = "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n"
	for _, more := range []string{"", get, get[:7], get + get[:len(get)-1]} {
		c := used(t, addr)
		c.say(slow)
		receive(t, "the handler", entered)
		c.say(more)
		whole := len(more) / len(get)
		if more == "" {
			if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
		}
		leave <- struct{}{}
		if _, body := c.answer(); body != "slow" {
			t.Fatal(body)
		}
		for range whole {
			if _, body := c.answer(); body != "fine" {
				t.Fatal(body)
			}
		}
		if rest := len(more) - whole*len(get); rest > 0 {
			c.say(get[rest:])
			c.answer()
		}
		if more == "" {
			if _, err := c.br.ReadByte(); err != io.EOF {
				t.Fatal(err)
			}
		}
	}

	// The end in the same segment as the request.
	c := used(t, addr)
	c.say(get)
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	c.answer()
	if _, err := c.br.ReadByte(); err != io.EOF {
		t.Fatal(err)
	}
}

// An end that the watcher has noticed behind a request in the pipe is seen once that request is answered.
func TestAnEndBehindAPipelinedRequest(t *testing.T) {
	entered, left, leave := make(chan struct{}), make(leaver, 1), make(chan struct{})
	_, addr := serve(t, Options{IdleTimeout: time.Hour, ReadTimeout: time.Hour}, nil, func(s *Server) {
		s.Handle("GET", "/x", text)
		s.Handle("GET", "/slow", func(ctx *fasthttp.RequestCtx) {
			armed := WatchClient(ctx, left)
			defer armed.Stop()
			close(entered)
			<-leave
			ctx.SetBodyString("slow")
		})
	})
	c := used(t, addr)
	c.say("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
	receive(t, "the handler", entered)
	c.say(get)
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	receive(t, "the Leaver's call", left)
	close(leave)
	for _, want := range []string{"slow", "fine"} {
		if _, body := c.answer(); body != want {
			t.Fatal(body)
		}
	}
	if _, err := c.br.ReadByte(); err != io.EOF {
		t.Fatal(err)
	}
}

// A server that ends by force does not wait for a handler that does not: its client is told, and so is the handler's Leaver.
func TestForcedShutdownDoesNotWaitForAHandler(t *testing.T) {
	s, err := NewServer(Options{})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	entered, release, left := make(chan struct{}), make(chan struct{}), make(leaver, 1)
	s.Handle("GET", "/x", text)
	s.Handle("GET", "/slow", func(ctx *fasthttp.RequestCtx) {
		armed := WatchClient(ctx, left)
		defer armed.Stop()
		close(entered)
		<-release
	})
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	c := used(t, ln.Addr().String())
	c.say("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
	receive(t, "the handler", entered)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	down := make(chan error, 1)
	go func() { down <- s.Shutdown(ctx) }()
	if err := receive(t, "Shutdown's return", down); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	receive(t, "the Leaver's call", left)
	close(release)
	if _, err := c.br.ReadByte(); err == nil {
		t.Error("it was answered")
	}
	if err := receive(t, "Serve's return", served); err != nil {
		t.Error(err)
	}
	if s.Conns() != 0 {
		t.Error("connections left")
	}
}
