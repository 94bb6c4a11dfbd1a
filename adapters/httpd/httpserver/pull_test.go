package httpserver

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/internal/testkit"
)

// script is a Source that waits for the test's events.
type script struct {
	lines  chan string // closed: io.EOF
	fail   chan error
	gone   leaver
	watch  Watch
	closed chan bool
}

func newScript() *script {
	return &script{lines: make(chan string, 10), fail: make(chan error, 1), gone: make(leaver, 1), closed: make(chan bool, 2)}
}

func (s *script) Next(dst []byte) ([]byte, error) {
	select {
	case line, ok := <-s.lines:
		if !ok {
			return dst, io.EOF
		}
		if last, ok := strings.CutPrefix(line, "last:"); ok {
			return append(dst, last...), io.EOF
		}
		return append(dst, line...), nil
	case err := <-s.fail:
		return dst, err
	case <-s.gone:
		return dst, ErrLeft
	}
}

func (s *script) Close(sent bool) {
	s.watch.Stop()
	s.closed <- sent
}

// writes counts the writes to a listener's connections.
type writes struct {
	net.Listener
	n atomic.Int64
}

type countedWrites struct {
	*net.TCPConn
	n *atomic.Int64
}

func (w *writes) Accept() (net.Conn, error) {
	c, err := w.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &countedWrites{c.(*net.TCPConn), &w.n}, nil
}

func (c *countedWrites) Write(p []byte) (int, error) {
	c.n.Add(1)
	return c.TCPConn.Write(p)
}

func streaming(t *testing.T, opts Options, src *script, first string) (*writes, string) {
	ln := &writes{Listener: testkit.Listen(t)}
	_, addr := serve(t, opts, ln, func(s *Server) {
		s.Handle("GET", "/x", text)
		for _, method := range []string{"POST", "HEAD"} {
			s.Handle(method, "/x", func(ctx *fasthttp.RequestCtx) {
				src.watch = WatchClient(ctx, src.gone)
				StreamFrom(ctx, []byte(first), src)
			})
		}
	})
	return ln, addr
}

const open = "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"

func TestStreamHeadComesBeforeTheFirstEvent(t *testing.T) {
	src := newScript()
	ln, addr := streaming(t, Options{}, src, "")
	c := dialTo(t, addr)
	c.send(open)
	resp := c.head() // the source has no event yet
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no",
	} {
		if got := resp.Header.Get(name); got != want {
			t.Fatalf("%s: %q", name, got)
		}
	}
	src.lines <- "data: 1\n\n"
	c.expect("9\r\ndata: 1\n\n\r\n")
	large := "data: " + strings.Repeat("x", 100000) + "\n\n"
	src.lines <- large
	c.expect("186a8\r\n" + large + "\r\n")
	src.lines <- "data: 2\n\n"
	c.expect("9\r\ndata: 2\n\n\r\n")
	close(src.lines)
	c.expect("0\r\n\r\n")
	if !testkit.Receive(t, "Close", src.closed) {
		t.Fatal("not sent")
	}
	if n := ln.n.Load(); n != 5 {
		t.Fatalf("%d writes for a head, three events and an end", n)
	}
	c.send(get) // and the connection goes on
	if _, body := c.answer(); body != "fine" {
		t.Fatal(body)
	}
}

func TestStreamAfterAndALastEvent(t *testing.T) {
	src := newScript()
	ln, addr := streaming(t, Options{}, src, "data: 1\n\n")
	src.lines <- "last:data: 2\n\n"
	c := dialTo(t, addr)
	c.send(open + get) // a pipelined request does not hold the end back
	c.head()
	c.expect("9\r\ndata: 1\n\n\r\n9\r\ndata: 2\n\n\r\n0\r\n\r\n")
	if _, body := c.answer(); body != "fine" {
		t.Fatal(body)
	}
	if n := ln.n.Load(); n != 3 {
		t.Fatalf("%d writes for head with event, event with end, answer", n)
	}
}

func TestStreamEndsWithItsClient(t *testing.T) {
	for name, leave := range map[string]func(*client){
		"FIN": func(c *client) { _ = c.Close() },
		"RST": func(c *client) { c.reset() },
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Promptly(t, "the end", func() time.Duration {
				src := newScript()
				_, addr := streaming(t, Options{}, src, "")
				c := dialTo(t, addr)
				c.send(open)
				c.head()
				start := time.Now()
				leave(c)
				if testkit.Receive(t, "Close", src.closed) {
					t.Fatal("sent?")
				}
				took := time.Since(start)
				if len(src.closed) != 0 {
					t.Fatal("closed twice")
				}
				return took
			})
		})
	}
}

func TestStreamErrorBreaksOff(t *testing.T) {
	src := newScript()
	_, addr := streaming(t, Options{}, src, "data: 1\n\n")
	src.fail <- errors.New("upstream broke")
	c := dialTo(t, addr)
	c.send(open)
	resp := c.head()
	if body, err := io.ReadAll(resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) || string(body) != "data: 1\n\n" {
		t.Fatalf("%q, %v", body, err)
	}
	if testkit.Receive(t, "Close", src.closed) {
		t.Fatal("sent?")
	}
}

func TestStreamToAClientThatDoesNotRead(t *testing.T) {
	src := newScript()
	_, addr := streaming(t, Options{WriteTimeout: 50 * time.Millisecond}, src, "")
	c := dialTo(t, addr)
	c.send(open)
	c.head()
	src.lines <- strings.Repeat("x", 32<<20)
	if testkit.Receive(t, "Close", src.closed) {
		t.Fatal("sent?")
	}
}

func TestStreamToHTTP10AndHead(t *testing.T) {
	src := newScript()
	_, addr := streaming(t, Options{}, src, "")
	c := dialTo(t, addr)
	c.send("POST /x HTTP/1.0\r\nContent-Length: 0\r\n\r\n")
	resp := c.head()
	if len(resp.TransferEncoding) != 0 || !resp.Close {
		t.Fatal(resp.TransferEncoding, resp.Close)
	}
	src.lines <- "data: 1\n\n"
	c.expect("data: 1\n\n")
	src.lines <- "last:data: 2\n\n"
	if body, err := io.ReadAll(c.br); err != nil || string(body) != "data: 2\n\n" {
		t.Fatalf("%q, %v", body, err)
	}
	testkit.Receive(t, "Close", src.closed)

	c = dialTo(t, addr)
	c.send("HEAD /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	c.head()
	if testkit.Receive(t, "Close", src.closed) {
		t.Fatal("sent?")
	}
}

func TestStreamReplaced(t *testing.T) {
	src := newScript()
	_, addr := serve(t, Options{}, nil, func(s *Server) {
		s.Handle("POST", "/x", func(ctx *fasthttp.RequestCtx) {
			StreamFrom(ctx, []byte("data: 1\n\n"), src)
			ctx.Error("replaced", 500)
		})
		s.Handle("GET", "/x", func(ctx *fasthttp.RequestCtx) {
			StreamFrom(ctx, nil, src)
			panic("on purpose")
		})
	})
	for _, request := range []string{open, get} {
		c := dialTo(t, addr)
		c.send(request)
		if resp, _ := c.answer(); resp.StatusCode != 500 {
			t.Fatal(resp.StatusCode)
		}
		if testkit.Receive(t, "Close", src.closed) {
			t.Fatal("sent?")
		}
	}
}
