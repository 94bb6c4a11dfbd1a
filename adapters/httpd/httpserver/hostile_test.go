package httpserver

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/http1"
	"dragoman/adapters/httpd/netpoll"
	"dragoman/internal/testkit"
)

// A large body is not read before the gates have seen the head, whatever the method and the expectation.
func TestNoWayAroundTheGates(t *testing.T) {
	for name, head := range map[string]string{
		"GET":               "GET /x HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n",
		"GET in chunks":     "GET /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n",
		"HEAD":              "HEAD /x HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n",
		"DELETE":            "DELETE /x HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n",
		"a strange method":  "BREW /x HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n",
		"expects the other": "POST /x HTTP/1.1\r\nHost: a\r\nExpect: 200-ok\r\nContent-Length: 100000\r\n",
		"expects nothing":   "POST /x HTTP/1.1\r\nHost: a\r\nExpect:\r\nContent-Length: 100000\r\n",
		"expects twice":     "POST /x HTTP/1.1\r\nHost: a\r\nExpect: x\r\nExpect: 100-continue\r\nContent-Length: 100000\r\n",
		"as a trailer":      "POST /x HTTP/1.1\r\nHost: a\r\nTrailer: X-Key\r\nTransfer-Encoding: chunked\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			addr, gated, handled := gatekept(t)
			c := dialTo(t, addr)
			c.send(head + "\r\n") // without the body
			res, err := http.ReadResponse(c.br, &http.Request{Method: strings.Fields(head)[0]})
			if err != nil || res.StatusCode != 401 || gated.Load() != 1 || handled.Load() != 0 {
				t.Fatalf("%v %v, gated %d, handled %d", res, err, gated.Load(), handled.Load())
			}
			_ = res.Body.Close()
		})
	}
}

// A client that expects 100 Continue gets it, however it writes the expectation.
func TestExpectationsInAnyCase(t *testing.T) {
	_, addr := serve(t, Options{}, nil, func(s *Server) {
		s.Handle("POST", "/x", func(ctx *fasthttp.RequestCtx) { ctx.SetBody(ctx.PostBody()) })
	})
	c := dialTo(t, addr)
	c.send("POST /x HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 10000\r\n\r\n")
	if res := c.head(); res.StatusCode != 100 {
		t.Fatal(res.StatusCode)
	}
	c.send(strings.Repeat("x", 10000))
	if res, body := c.answer(); res.StatusCode != 200 || len(body) != 10000 {
		t.Fatal(res.StatusCode)
	}
}

// Trailers are not used as fields of the head, which the gates have seen.
func TestTrailersAreNoHead(t *testing.T) {
	fields := make(chan string, 10)
	_, addr := serve(t, Options{}, nil, func(s *Server) {
		s.Handle("POST", "/x", func(ctx *fasthttp.RequestCtx) {
			var all []string
			for name, value := range FieldsOf(ctx).All() {
				all = append(all, string(name)+"="+string(value))
			}
			fields <- strings.Join(all, " ")
			ctx.SetBody(ctx.PostBody())
		})
	})
	c := dialTo(t, addr)
	for range 2 {
		for _, trailer := range []string{"Mcp-Session-Id: evil\r\n", "X-Key: evil\r\nX-Key: evil\r\n", "origin: evil\r\nMCP-Name: evil\r\n"} {
			c.send("POST /x HTTP/1.1\r\nHost: a\r\nX-Key: mine\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n" + trailer + "\r\n")
			if res, body := c.answer(); res.StatusCode != 200 || body != "hi" {
				t.Fatal(res.StatusCode, body)
			}
			if got := testkit.Receive(t, "the head", fields); strings.Contains(got, "evil") || !strings.Contains(got, "X-Key=mine") {
				t.Errorf("%s", got)
			}
		}
		c.send("POST /x HTTP/1.1\r\nHost: a\r\nX-Key: other\r\nContent-Length: 2\r\n\r\nhi")
		if res, body := c.answer(); res.StatusCode != 200 || body != "hi" || !strings.Contains(testkit.Receive(t, "the head", fields), "X-Key=other") {
			t.Fatal(res.StatusCode, body)
		}
	}
}

// An incomplete request, and a request sent byte by byte, is closed at the read timeout, wherever it stops.
func TestSlowRequestsEverywhere(t *testing.T) {
	const head = "POST /x HTTP/1.1\r\nHost: a\r\n"
	for name, sent := range map[string]string{
		"head":           head + "X: y",
		"head's end":     head + "Content-Length: 3\r\n",
		"small body":     head + "Content-Length: 100\r\n\r\n{",
		"large body":     head + "Content-Length: 100000\r\n\r\n{",
		"chunk size":     head + "Transfer-Encoding: chunked\r\n\r\n1",
		"chunk":          head + "Transfer-Encoding: chunked\r\n\r\nffff\r\nx",
		"many chunks":    head + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1\r\nx\r\n", 100),
		"extension":      head + "Transfer-Encoding: chunked\r\n\r\n1;" + strings.Repeat("x", 100),
		"trailer":        head + "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX: ",
		"asked for more": head + "Expect: 100-continue\r\nContent-Length: 100000\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, addr := serve(t, Options{ReadTimeout: 200 * time.Millisecond}, nil, func(s *Server) { s.Handle("POST", "/x", text) })
			c := dialTo(t, addr)
			began := time.Now()
			go func() { // a byte at a time; it goes on after the end of the text, and ends with the connection
				for i := 0; ; i++ {
					b := "x"
					if i < len(sent) {
						b = sent[i : i+1]
					}
					if _, err := io.WriteString(c.Conn, b); err != nil {
						return
					}
					if i >= len(sent) {
						time.Sleep(10 * time.Millisecond)
					}
				}
			}()
			res := c.head()
			if res.StatusCode == 100 {
				res = c.head()
			}
			if res.StatusCode != 408 && res.StatusCode != 400 || time.Since(began) > 3*time.Second {
				t.Errorf("%d after %v", res.StatusCode, time.Since(began))
			}
			_, _ = io.Copy(io.Discard, c.br)
			if took := time.Since(began); took > 4*time.Second {
				t.Errorf("open for %v", took)
			}
		})
	}
}

// A client that announces a large body and sends nothing does not get memory for it: bodies in progress share a budget, and slow ones give
// way to new ones.
func TestAnnouncedBodiesHaveRoomTogether(t *testing.T) {
	const size = 1 << 20
	s, addr := serve(t, Options{MaxReading: 4 * size}, nil, func(s *Server) {
		s.Handle("POST", "/x", func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString(fmt.Sprint(len(ctx.PostBody()))) })
	})
	var slow []*client
	for i := range 12 {
		c := dialTo(t, addr)
		c.send(fmt.Sprintf("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\nx", size))
		slow = append(slow, c)
		testkit.Eventually(t, "it is read, or waits", func() bool {
			s.budget.mu.Lock()
			defer s.budget.mu.Unlock()
			return len(s.budget.queue)+s.budget.waiting > i || i >= 4
		})
	}
	small := dialTo(t, addr)
	small.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi")
	if res, _ := small.answer(); res.StatusCode != 200 {
		t.Errorf("small bodies need none: %d", res.StatusCode)
	}
	good := fmt.Sprintf("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", size, strings.Repeat("x", size))
	testkit.Eventually(t, "the slowest gives way", func() bool {
		c := dialTo(t, addr)
		c.trySend(good)
		res, body := c.answer()
		return res.StatusCode == 200 && body == fmt.Sprint(size)
	})
	statuses := map[int]int{}
	for i, c := range slow {
		s.budget.mu.Lock()
		if used := s.budget.used; used > 4*size {
			t.Errorf("%d bytes are being read", used)
		}
		s.budget.mu.Unlock()
		if i < 4 {
			res, _ := c.answer()
			statuses[res.StatusCode]++
		}
	}
	if statuses[408] != 4 {
		t.Errorf("the first client got %v", statuses)
	}
	for _, c := range slow {
		_ = c.Close()
	}
	testkit.Eventually(t, "all room is free", func() bool {
		s.budget.mu.Lock()
		defer s.budget.mu.Unlock()
		return s.budget.used == 0 && len(s.budget.queue) == 0
	})
}

// Clients that exceed the budget wait for one another. A client that gets no room in time gets an error.
func TestBodiesWaitForRoom(t *testing.T) {
	const size = 64 << 10
	s, addr := serve(t, Options{MaxReading: 2 * size, MaxBody: size}, nil, func(s *Server) {
		s.Handle("POST", "/x", func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString(fmt.Sprint(len(ctx.PostBody()))) })
	})
	const head = "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
	first, second, third := dialTo(t, addr), dialTo(t, addr), dialTo(t, addr)
	for i, c := range []*client{first, second, third} {
		c.send(head)
		testkit.Eventually(t, "it is read, or waits", func() bool {
			s.budget.mu.Lock()
			defer s.budget.mu.Unlock()
			return len(s.budget.queue)+s.budget.waiting == i+1
		})
	}
	for _, c := range []*client{first, second, third} { // the third is read when the first is done
		c.send("2\r\nhi\r\n0\r\n\r\n")
		if res, body := c.answer(); res.StatusCode != 200 || body != "2" {
			t.Errorf("%d %s", res.StatusCode, body)
		}
	}

	r := &budget{max: 10, waiting: maxWaiting}
	_, _ = r.enter(&conn{}, 10, time.Now())
	if began := time.Now(); r.wait(&conn{}, 1) || time.Since(began) > readingTime/2 {
		t.Error("waiting requests are not bounded")
	}
}

// trySend writes, and ignores errors: the other side may have closed the connection.
func (c *client) trySend(s string) { _, _ = io.WriteString(c.Conn, s) }

func TestBudget(t *testing.T) {
	pipe := func() *conn {
		a, b := net.Pipe()
		t.Cleanup(func() { _, _ = a.Close(), b.Close() })
		return &conn{socket: netpoll.Socket{Conn: a}}
	}
	r := &budget{max: 10}
	now := time.Now()
	a, b, c := pipe(), pipe(), pipe()
	enter := func(c *conn, n int, now time.Time) bool { _, wait := r.enter(c, n, now); return wait == 0 }
	if !enter(a, 100, now) {
		t.Error("one is read whatever its size")
	}
	if freed, wait := r.enter(b, 1, now.Add(readingTime-1)); wait != 1 || freed == nil {
		t.Error("there was no room")
	}
	if !enter(b, 5, now.Add(readingTime)) || !enter(c, 5, now.Add(readingTime)) {
		t.Error("the first did not give way")
	}
	if _, err := a.socket.Conn.Read(make([]byte, 1)); !http1.IsTimeout(err) {
		t.Errorf("the body was read on: %v", err)
	}
	for _, x := range []*conn{a, b, b, c} {
		r.leave(x)
	}
	if r.used != 0 || len(r.queue) != 0 {
		t.Errorf("%d used by %d", r.used, len(r.queue))
	}
}

// Idle connections give way to new ones; connections with a request in progress do not.
func TestIdleConnectionsGiveWay(t *testing.T) {
	entered, proceed := make(chan struct{}, 10), make(chan struct{})
	s, addr := serve(t, Options{MaxConns: 16}, nil, func(s *Server) {
		s.Handle("GET", "/x", text)
		s.Handle("GET", "/slow", func(ctx *fasthttp.RequestCtx) { entered <- struct{}{}; <-proceed; text(ctx) })
	})
	slow := dialTo(t, addr)
	slow.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
	testkit.Receive(t, "the handler", entered)
	for what, say := range map[string]string{"silent": "", "half a head": "GET /x HTT", "kept alive": get, "half a body": "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{"} {
		for i := range 64 {
			c := dialTo(t, addr)
			c.send(say)
			if say == get {
				c.answer()
			}
			if n := s.Conns(); n > 20 {
				t.Fatalf("%s: %d connections", what, n)
			}
			if i%8 > 0 {
				continue
			}
			good := dialTo(t, addr)
			good.send(get)
			if _, body := good.answer(); body != "fine" {
				t.Fatalf("%s: a well-behaved client is not served", what)
			}
		}
	}
	close(proceed)
	if _, body := slow.answer(); body != "fine" {
		t.Fatal("a request in progress was not answered")
	}
}

// FuzzAmbiguous: the standard library reads every request that we accept in the same way: the same number of requests, at the same offsets,
// with the same bodies.
func FuzzAmbiguous(f *testing.F) {
	for _, in := range []string{
		"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhiGET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", "GET / HTTP/1.1\nHost: a\n\n",
		"POST /x HTTP/1.1\r\nHost: a\r\nX Y: z\r\n\r\n", "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n",
	} {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		ours := bufio.NewReaderSize(bytes.NewReader(in), 4096)
		x := &serveState{br: ours}
		x.current.handler = NewHandler(HandlerOptions{})
		x.head.Requests = true
		x.head.Start(false)
		size, err := x.head.Read(ours)
		if err != nil {
			return
		}
		head, _ := ours.Peek(size)
		if x.parse(head) != nil {
			return
		}
		_, _ = ours.Discard(size)
		theirs := bufio.NewReaderSize(bytes.NewReader(in), 4096)
		for { // we take empty lines in front, the standard library none (RFC 9112 §2.2)
			if b, err := theirs.Peek(1); err != nil || b[0] != '\r' && b[0] != '\n' {
				break
			}
			_, _ = theirs.Discard(1)
		}
		std, err := http.ReadRequest(theirs)
		if err != nil {
			return // we are stricter
		}
		if err := x.fetchBody(1 << 20); err != nil {
			return // refused, and the connection closed
		}
		body, err := io.ReadAll(std.Body)
		if err != nil {
			return
		}
		if ours := x.ctx.Request.Body(); !bytes.Equal(body, ours) {
			t.Fatalf("we read a body of %q, the standard library %q", ours, body)
		}
		rest, _ := io.ReadAll(ours)
		other, _ := io.ReadAll(theirs)
		if !bytes.Equal(rest, other) {
			t.Fatalf("we leave %q, the standard library %q", rest, other)
		}
	})
}
