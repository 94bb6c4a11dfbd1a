package httpserver

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/internal/testkit"
)

// used makes a connection on which requests have been answered.
func used(t *testing.T, addr string) *client {
	t.Helper()
	c := dialTo(t, addr)
	for range 4 {
		c.send(get)
		c.answer()
	}
	return c
}

// Bytes that arrive while a handler runs are not lost: the next request, complete or not, is answered after the first. An end that came
// with the last bytes is noticed although the connection could be idle for an hour.
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
		c.send(slow)
		testkit.Receive(t, "the handler", entered)
		c.send(more)
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
			c.send(get[rest:])
			c.answer()
		}
		if more == "" {
			if _, err := c.br.ReadByte(); err != io.EOF {
				t.Fatal(err)
			}
		}
	}

	// The end of the connection in the same segment as the request.
	c := used(t, addr)
	c.send(get)
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	c.answer()
	if _, err := c.br.ReadByte(); err != io.EOF {
		t.Fatal(err)
	}
}

// An end that the watcher has noticed after a pipelined request takes effect once that request is answered.
func TestAnEndBehindAPipelinedRequest(t *testing.T) {
	entered, left, leave := make(chan struct{}), make(leaver, 1), make(chan struct{})
	_, addr := serve(t, Options{IdleTimeout: time.Hour, ReadTimeout: time.Hour}, nil, func(s *Server) {
		s.Handle("GET", "/x", text)
		s.Handle("GET", "/slow", func(ctx *fasthttp.RequestCtx) {
			watch := WatchClient(ctx, left)
			defer watch.Stop()
			close(entered)
			<-leave
			ctx.SetBodyString("slow")
		})
	})
	c := used(t, addr)
	c.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
	testkit.Receive(t, "the handler", entered)
	c.send(get)
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	testkit.Receive(t, "the Leaver's call", left)
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

// A forced shutdown does not wait for a handler that does not end: its client gets an error, and its Leaver is notified.
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
		watch := WatchClient(ctx, left)
		defer watch.Stop()
		close(entered)
		<-release
	})
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	c := used(t, ln.Addr().String())
	c.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
	testkit.Receive(t, "the handler", entered)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	down := make(chan error, 1)
	go func() { down <- s.Shutdown(ctx) }()
	if err := testkit.Receive(t, "Shutdown's return", down); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	testkit.Receive(t, "the Leaver's call", left)
	close(release)
	if _, err := c.br.ReadByte(); err == nil {
		t.Error("it was answered")
	}
	if err := testkit.Receive(t, "Serve's return", served); err != nil {
		t.Error(err)
	}
	if s.Conns() != 0 {
		t.Error("connections left")
	}
}
