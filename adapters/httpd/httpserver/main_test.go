package httpserver

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
	"go.uber.org/goleak"

	"dragoman/internal/testkit"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// fasthttp's clock for Date headers: one for the process, from the first answer on, and nobody can end it
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"))
}

// serve starts a Server whose handlers setup registers, on ln or a loopback port.
func serve(t *testing.T, opts Options, ln net.Listener, setup func(*Server)) (*Server, string) {
	t.Helper()
	s, err := NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	setup(s)
	if ln == nil {
		if ln, err = Listen("127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Patient)
		defer cancel()
		if !s.draining.Load() {
			if err := s.Shutdown(ctx); err != nil {
				t.Error(err)
			}
		}
		if err := testkit.Receive(t, "Serve's return", served); err != nil {
			t.Error(err)
		}
	})
	return s, ln.Addr().String()
}

// client is a connection that sends and expects raw bytes.
type client struct {
	net.Conn
	t  *testing.T
	br *bufio.Reader
}

func dialTo(t *testing.T, addr string) *client {
	t.Helper()
	network := "tcp"
	if strings.HasPrefix(addr, "/") {
		network = "unix"
	}
	nc, err := net.Dial(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	return clientOn(t, nc)
}

func clientOn(t *testing.T, nc net.Conn) *client {
	t.Helper()
	t.Cleanup(func() { _ = nc.Close() })
	if err := nc.SetDeadline(time.Now().Add(testkit.Patient)); err != nil {
		t.Fatal(err)
	}
	return &client{Conn: nc, t: t, br: bufio.NewReader(nc)}
}

func (c *client) send(s string) {
	c.t.Helper()
	if _, err := io.WriteString(c.Conn, s); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) expect(want string) {
	c.t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c.br, got); err != nil || string(got) != want {
		c.t.Fatalf("received %q, %v; want %q", got[:n], err, want)
	}
}

// answer reads a whole response.
func (c *client) answer() (*http.Response, string) {
	c.t.Helper()
	resp, err := http.ReadResponse(c.br, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatalf("body after %q: %v", body, err)
	}
	return resp, string(body)
}

// head reads a response up to its body.
func (c *client) head() *http.Response {
	c.t.Helper()
	resp, err := http.ReadResponse(c.br, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp
}

func (c *client) reset() {
	c.t.Helper()
	if err := c.Conn.(*net.TCPConn).SetLinger(0); err != nil {
		c.t.Fatal(err)
	}
	_ = c.Close()
}

const get = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n"

func text(ctx *fasthttp.RequestCtx) { ctx.SetBodyString("fine") }
