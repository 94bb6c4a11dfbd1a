package httpclient

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dragoman/adapters/httpd/http1"
	"dragoman/adapters/httpd/netpoll"
	"dragoman/internal/testkit"
)

func sized(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

func echo(_ int, c net.Conn) {
	each(c, func(r *http.Request, body string) string { return sized(r.Method + " " + r.RequestURI + " " + body) })
}

func TestSendReusesAConnection(t *testing.T) {
	var conns atomic.Int64
	h := newHost(t, HostOptions{URL: upstream(t, func(n int, c net.Conn) { conns.Add(1); echo(n, c) }) + "/base?k=v"})
	for _, target := range []string{"/mcp", "/"} {
		for range 3 {
			req := post("hi")
			req.Target = target
			want := "POST " + strings.Replace(target+" ", "/ ", "/base?k=v ", 1) + "hi"
			if got := whole(t, h, req); got != want {
				t.Fatalf("%q, not %q", got, want)
			}
		}
	}
	large := strings.Repeat("x", 1<<20)
	if got := whole(t, h, post(large)); got != "POST /mcp "+large {
		t.Fatal("not the body")
	}
	if open, idle := h.Conns(); conns.Load() != 1 || open != 1 || idle != 1 {
		t.Fatal(conns.Load(), open, idle)
	}
}

// A POST on a connection that the server has closed is lost and must not be repeated. So it is not sent on it.
func TestSendLooksBeforeItWrites(t *testing.T) {
	closed := make(chan struct{}, 1)
	h := newHost(t, HostOptions{URL: upstream(t, func(_ int, c net.Conn) {
		br := bufio.NewReader(c)
		if r, err := http.ReadRequest(br); err == nil {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(c, sized("fine"))
			_ = c.(*net.TCPConn).CloseWrite() // without announcing it; further requests are not read
			closed <- struct{}{}
			_, _ = br.ReadByte()
		}
	})})
	for range 200 {
		if got := whole(t, h, post("hi")); got != "fine" {
			t.Fatal(got)
		}
		testkit.Receive(t, "the server's close", closed)
		h.mu.Lock()
		c := h.idle[0]
		h.mu.Unlock()
		testkit.Eventually(t, "a dead connection", func() bool { return c.peek.Peek() == netpoll.Closed })
		h.mu.Lock()
		c.idleSince = c.idleSince.Add(-time.Millisecond)
		h.mu.Unlock()
	}
}

func TestSendDropsAConnectionWithUninvitedBytes(t *testing.T) {
	h := newHost(t, HostOptions{URL: upstream(t, func(n int, c net.Conn) {
		each(c, func(*http.Request, string) string {
			return sized("fine") + fmt.Sprintf("HTTP/1.1 500 Bad\r\nX: %d\r\n\r\n", n)
		})
	})})
	for range 20 {
		if got := whole(t, h, post("hi")); got != "fine" {
			t.Fatal(got)
		}
		if open, _ := h.Conns(); open != 0 { // mostly it came in the same segment; otherwise the check before writing finds it
			c := h.idle[0]
			testkit.Eventually(t, "the bytes", func() bool { return c.peek.Peek() == netpoll.Readable })
			c.idleSince = c.idleSince.Add(-time.Millisecond)
		}
	}
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	gone := make(chan struct{}, 10)
	h := newHost(t, HostOptions{IdleLimit: 30 * time.Millisecond, URL: upstream(t, func(n int, c net.Conn) {
		echo(n, c)
		gone <- struct{}{}
	})})
	whole(t, h, post("hi"))
	testkit.Receive(t, "the close", gone)
	testkit.Eventually(t, "an empty pool", func() bool { open, idle := h.Conns(); return open == 0 && idle == 0 })
}

func TestSendRefusesInjection(t *testing.T) {
	h := newHost(t, HostOptions{URL: upstream(t, echo)})
	for name, spoil := range map[string]func(*http1.Request){
		"name":         func(r *http1.Request) { _ = r.Set("X\r\nEvil", "1") },
		"value":        func(r *http1.Request) { _ = r.Set("X-Value", "1\r\nEvil: 2") },
		"name, blank":  func(r *http1.Request) { _ = r.Set("X Evil", "1") },
		"method":       func(r *http1.Request) { r.Method = "GET / HTTP/1.1\r\nX: y\r\n\r\nPOST" },
		"target":       func(r *http1.Request) { r.Target = "/ HTTP/1.1\r\nX: y\r\n\r\n" },
		"other origin": func(r *http1.Request) { r.Target = "http://elsewhere/" },
	} {
		req := post("hi")
		spoil(req)
		var malformed *http1.MalformedError
		if _, err := h.Send(context.Background(), req); !errors.As(err, &malformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, field := range []Header{{"X\r\nY", "1"}, {"X", "1\r\nY: 2"}, {"", "1"}} {
		if _, err := NewHost(HostOptions{URL: "http://a", Headers: []Header{field}}); err == nil || strings.Contains(err.Error(), "1") {
			t.Errorf("%q: %v", field, err)
		}
	}
}

func TestSendSetsItsFields(t *testing.T) {
	seen := make(chan *http.Request, 1)
	addr := upstream(t, func(_ int, c net.Conn) {
		each(c, func(r *http.Request, _ string) string { seen <- r; return sized("") })
	})
	h := newHost(t, HostOptions{URL: addr, Headers: []Header{{"authorization", "Bearer secret"}}})
	req := post("hi")
	for _, field := range []Header{{"host", "client.example"}, {"accept-encoding", "gzip"}, {"Authorization", "Bearer client"}} {
		if err := req.Set(field.Name, field.Value); err != nil {
			t.Fatal(err)
		}
	}
	whole(t, h, req)
	r := testkit.Receive(t, "the request", seen)
	if r.Host != addr || r.Header.Get("Accept-Encoding") != "" || r.ContentLength != 2 {
		t.Fatal(r.Host, r.Header, r.ContentLength)
	}
	req = &http1.Request{Target: "/x"}
	_ = req.Set("Content-Length", "5") // of a missing body: the next request would be taken for it
	whole(t, h, req)
	if bare := testkit.Receive(t, "the request", seen); bare.ContentLength != 0 || bare.Header.Get("Authorization") != "Bearer secret" {
		t.Fatal(bare.ContentLength)
	}
	if got := r.Header.Values("Authorization"); len(got) != 1 || got[0] != "Bearer secret" {
		t.Fatal(got)
	}
}

func TestSendErrorsAndUnsent(t *testing.T) {
	ln := testkit.Listen(t)
	_ = ln.Close()
	h := newHost(t, HostOptions{URL: ln.Addr().String()})
	_, err := h.Send(context.Background(), post("hi"))
	if _, dial := errors.AsType[*DialError](err); !dial || !Unsent(err) {
		t.Fatal(err)
	}
	h = newHost(t, HostOptions{URL: upstream(t, reply()), MaxConns: 1})
	a := send(t, h, post("hi"))
	if _, err := h.Send(context.Background(), post("hi")); !errors.Is(err, ErrTooManyConns) || !Unsent(err) {
		t.Fatal(err)
	}
	a.Close()

	// a server that does not read: the write blocks, and ctx ends it
	silent := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	h = newHost(t, HostOptions{URL: upstream(t, func(_ int, c net.Conn) {
		_, _ = c.Read(make([]byte, 1))
		cancel()
		<-silent
	})})
	defer close(silent)
	_, err = h.Send(ctx, post(strings.Repeat("x", 64<<20)))
	var write *WriteError
	if !errors.As(err, &write) || !write.Wrote || Unsent(err) || !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if _, err = h.Send(ctx, post("hi")); !errors.Is(err, context.Canceled) || !Unsent(err) {
		t.Fatal(err)
	}
	_ = h.Close()
	if _, err = h.Send(context.Background(), post("hi")); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}
