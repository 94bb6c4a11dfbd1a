package httpclient

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dragoman/adapters/httpd/http1"
	"dragoman/internal/testkit"
)

func TestAbortReachesTheServerAtOnce(t *testing.T) {
	for name, begin := range map[string]string{
		"waiting for headers": "",
		"inside the head":     "HTTP/1.1 200 OK\r\nContent-",
		"mid-stream":          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Promptly(t, "the abort", func() time.Duration {
				asked, gone := make(chan struct{}), make(chan time.Time, 1)
				h := newHost(t, HostOptions{URL: upstream(t, func(_ int, c net.Conn) {
					br := bufio.NewReader(c)
					r, err := http.ReadRequest(br)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, r.Body)
					_, _ = io.WriteString(c, begin)
					close(asked)
					_, _ = br.ReadByte()
					gone <- time.Now()
				})})
				a := send(t, h, post("hi"))
				ended := make(chan error, 1)
				go func() {
					_, err := a.Body(nil, 100, time.Time{})
					ended <- err
				}()
				testkit.Receive(t, "the request", asked)
				start := time.Now()
				a.Abort()
				a.Abort()
				took := testkit.Receive(t, "the server's news", gone).Sub(start)
				if err := testkit.Receive(t, "the end", ended); !errors.Is(err, ErrAborted) {
					t.Fatal(err)
				}
				a.Close()
				if open, _ := h.Conns(); open != 0 {
					t.Fatal("kept")
				}
				return took
			})
		})
	}
}

func TestAbortAfterCloseHasNoEffect(t *testing.T) {
	h := newHost(t, HostOptions{URL: upstream(t, echo)})
	first := send(t, h, post("1"))
	if _, err := first.Body(nil, 100, soon()); err != nil {
		t.Fatal(err)
	}
	first.Close()
	second := send(t, h, post("2"))
	if second.c != first.c {
		t.Fatal("not the same connection")
	}
	first.Abort()
	first.Close()
	if _, _, err := first.Head(soon()); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	if _, err := first.Read(make([]byte, 1)); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	if body, err := second.Body(nil, 100, soon()); err != nil || string(body) != "POST /mcp 2" {
		t.Fatal(string(body), err)
	}
	second.Close()
	var none Response
	none.Abort()
	none.Finish()
}

func TestDeadlineLeavesTheAnswerUsable(t *testing.T) {
	next := make(chan string)
	h := newHost(t, HostOptions{URL: upstream(t, func(_ int, c net.Conn) {
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		for s := range next {
			_, _ = io.WriteString(c, s)
		}
		_, _ = c.Read(make([]byte, 1))
	})})
	defer close(next)
	a := send(t, h, post("hi"))
	defer a.Close()
	late := func(step string, err error) {
		t.Helper()
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("%s: %v", step, err)
		}
	}
	brief := func() time.Time { return time.Now().Add(5 * time.Millisecond) }
	for _, s := range []string{"HTTP/1.1 103 Early\r\nX: y\r\n\r\nHTT", "P/1.1 200 OK\r\nTransfer-Enc"} {
		next <- s
		_, _, err := a.Head(brief())
		late("head", err)
	}
	next <- "oding: chunked\r\nX-A: b\r\n\r\n3\r\nab"
	if status, head, err := a.Head(soon()); err != nil || status != 200 || string(head.Peek("x-a")) != "b" {
		t.Fatal(status, err)
	}
	p := make([]byte, 10)
	if n, err := a.Read(p); err != nil || string(p[:n]) != "ab" {
		t.Fatal(n, err)
	}
	a.SetDeadline(brief())
	_, err := a.Read(p)
	late("read", err)
	next <- "c\r\n1"
	body, err := a.Body(nil, 100, brief())
	late("body", err)
	next <- "0\r\n0123456789012345\r\n0\r"
	body, err = a.Body(body, 100, brief())
	late("body", err)
	next <- "\n\r\n"
	if body, err = a.Body(body, 100, soon()); err != nil || string(body) != "c0123456789012345" {
		t.Fatalf("%q, %v", body, err)
	}
}

// reply serves one canned response a connection, in pieces, then waits.
func reply(pieces ...string) func(int, net.Conn) {
	return func(_ int, c net.Conn) {
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		for _, s := range pieces {
			if s == "close" {
				return
			}
			_, _ = io.WriteString(c, s)
		}
		_, _ = c.Read(make([]byte, 1))
	}
}

func TestMalformedResponsesAreRefused(t *testing.T) {
	for _, in := range []string{
		"\r\n", "HTTP/1.1\r\n\r\n", "HTTP/1.1 2000 OK\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1  200 OK\r\n\r\n", "HTTP/2.0 200 OK\r\n\r\n",
		"HTTP/1.2 200 OK\r\n\r\n", "HTTP/1.1 +20 OK\r\n\r\n", "HTTP/1.1 099 OK\r\n\r\n", "HTTP/1.1 600 OK\r\n\r\n", "HTTP/1.1 200\tOK\r\n\r\n",
		"HTTP/1.1 200 OK\n\n", "ICY 200 OK\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "garbage that is long enough\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\nx", "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\ncontent-length: 2\r\n\r\nx",
		"HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\nx", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nx", "HTTP/1.1 200 OK\r\nContent-Length: 0x1\r\n\r\nx",
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
		"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length : 1\r\n\r\nx",
		"HTTP/1.1 200 OK\r\nX: a\r\n folded\r\n\r\n", "HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "HTTP/1.1 200 OK\r\n: v\r\n\r\n", "HTTP/1.1 200 OK\r\nX: a\x00b\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX: a\rb\r\n\r\n", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 20),
	} {
		h := newHost(t, HostOptions{URL: upstream(t, reply(in))})
		a := send(t, h, post("hi"))
		var malformed *http1.MalformedError
		if _, err := a.Body(nil, 100, soon()); !errors.As(err, &malformed) {
			t.Errorf("%q: %v", in, err)
		}
		if _, _, err := a.Head(soon()); err == nil && !strings.HasPrefix(in, "HTTP/1.0") {
			t.Errorf("%q: no error at the second read", in)
		}
		a.Close()
		if open, _ := h.Conns(); open != 0 {
			t.Errorf("%q: kept", in)
		}
	}
}

func TestBodiesAndReuse(t *testing.T) {
	for name, c := range map[string]struct {
		in   []string
		body string
		kept bool
	}{
		"length":        {[]string{"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"}, "abc", true},
		"chunked":       {[]string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=\"y\"\r\nabc\r\n0\r\nT: v\r\n\r\n"}, "abc", true},
		"empty":         {[]string{"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"}, "", true},
		"204":           {[]string{"HTTP/1.1 204 No Content\r\n\r\n"}, "", true},
		"no reason":     {[]string{"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n"}, "", true},
		"interim":       {[]string{"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"}, "x", true},
		"until close":   {[]string{"HTTP/1.1 200 OK\r\n\r\nabc", "close"}, "abc", false},
		"close":         {[]string{"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 1\r\n\r\nx"}, "x", false},
		"close in list": {[]string{"HTTP/1.1 200 OK\r\nConnection: x, close\r\nContent-Length: 1\r\n\r\nx"}, "x", false},
		"1.0":           {[]string{"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx"}, "x", false},
		"1.0 kept":      {[]string{"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx"}, "x", true},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, HostOptions{URL: upstream(t, reply(c.in...))})
			a := send(t, h, post("hi"))
			if body, err := a.Body(nil, 100, soon()); err != nil || string(body) != c.body {
				t.Fatalf("%q, %v", body, err)
			}
			if n, err := a.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Fatal(n, err)
			}
			a.Close()
			if _, idle := h.Conns(); idle == 1 != c.kept {
				t.Fatalf("%d kept", idle)
			}
		})
	}
}

func TestCutOffResponses(t *testing.T) {
	for in, started := range map[string]bool{
		"": false, "HTTP/1.1 200 OK\r\nCon": true, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc": true,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab": true, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n": true,
	} {
		h := newHost(t, HostOptions{URL: upstream(t, reply(in, "close"))})
		a := send(t, h, post("hi"))
		_, err := a.Body(nil, 100, soon())
		var read *ReadError
		if !errors.As(err, &read) || read.Started != started || read.Reused || Unsent(err) || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q: %v", in, err)
		}
		a.Close()
	}
}

func TestLimits(t *testing.T) {
	announced := "HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n"
	for in, what := range map[string]string{
		announced: "response body",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" + strings.Repeat("x", 2000) + "\r\n0\r\n\r\n": "response body",
		"HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("x", 2000):                                                        "response body",
		"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2000) + "\r\n\r\n":                                            "response header",
	} {
		h := newHost(t, HostOptions{MaxHeader: 1024, URL: upstream(t, reply(in))})
		a := send(t, h, post("hi"))
		body, err := a.Body(nil, 1000, soon())
		var large *http1.TooLargeError
		if !errors.As(err, &large) || large.What != what || len(body) > 1001 {
			t.Errorf("%.60q: %v", in, err)
		}
		a.Close()
		if open, _ := h.Conns(); open != 0 {
			t.Errorf("%.60q: kept", in)
		}
	}
	for _, in := range []string{sized(strings.Repeat("x", 1000)), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n" + strings.Repeat("x", 1000) + "\r\n0\r\n\r\n"} {
		h := newHost(t, HostOptions{URL: upstream(t, reply(in))})
		a := send(t, h, post("hi"))
		if body, err := a.Body([]byte("before:"), 1000, soon()); err != nil || len(body) != 1007 {
			t.Error(len(body), err)
		}
		a.Close()
	}
}

// A half-read body in the pool would be the answer to the next call.
func TestHalfReadIsNotPooled(t *testing.T) {
	h := newHost(t, HostOptions{URL: upstream(t, func(_ int, c net.Conn) {
		each(c, func(_ *http.Request, body string) string {
			return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n" + body + "\r\n3\r\nabc\r\n"
		})
	})})
	for i := range 50 {
		a := send(t, h, post(fmt.Sprint(i%10)))
		p := make([]byte, 1)
		if n, err := a.Read(p); n != 1 || err != nil || p[0] != byte('0'+i%10) {
			t.Fatal(n, err, p)
		}
		if i%2 == 0 {
			a.Close()
		} else {
			a.Finish() // the end never comes
		}
		if i%4 == 1 { // the next request finds out
			continue
		}
		for limit := soon(); ; time.Sleep(time.Millisecond) { // or the pool does
			if open, _ := h.Conns(); open == 0 {
				break
			} else if i%2 == 0 || time.Now().After(limit) {
				t.Fatal("kept")
			}
		}
	}
}

// The last chunk may come a moment after the last event: after Finish the connection is used again, and no call fails.
func TestFinishDrains(t *testing.T) {
	var conns atomic.Int64
	h := newHost(t, HostOptions{URL: upstream(t, func(_ int, c net.Conn) {
		conns.Add(1)
		br := bufio.NewReader(c)
		for {
			r, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
			time.Sleep(time.Millisecond) // the delay is what is tested
			_, _ = io.WriteString(c, "0\r\n\r\n")
		}
	})})
	for range 50 {
		a := send(t, h, post("hi"))
		p := make([]byte, 10)
		if n, err := a.Read(p); err != nil || string(p[:n]) != "abc" {
			t.Fatal(n, err)
		}
		a.Finish()
	}
	if n := conns.Load(); n > 25 {
		t.Fatalf("%d connections", n)
	}
}

// If the end of a body arrives after its reader has finished, the next user of the connection reads it.
func TestFinishWaitsForNothing(t *testing.T) {
	for _, tail := range []string{"0\r\n\r\n", "3\r\nabc\r\n0\r\nX: y\r\n\r\n"} {
		var conns atomic.Int64
		finished, ended := make(chan bool), make(chan bool)
		h := newHost(t, HostOptions{URL: upstream(t, func(_ int, c net.Conn) {
			conns.Add(1)
			each(c, func(*http.Request, string) string {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"+tail[:1])
				<-finished
				_, _ = io.WriteString(c, tail[1:])
				ended <- true
				return ""
			})
		})})
		for range 50 {
			a := send(t, h, post("hi"))
			p := make([]byte, 10)
			if n, err := a.Read(p); err != nil || string(p[:n]) != "abc" {
				t.Fatal(n, err)
			}
			a.Finish()
			finished <- true
			<-ended
		}
		if n := conns.Load(); n > 25 { // those that came too late
			t.Fatalf("%d connections", n)
		}
	}
}

func TestHeadRequestHasNoBody(t *testing.T) {
	h := newHost(t, HostOptions{URL: upstream(t, func(_ int, c net.Conn) {
		each(c, func(*http.Request, string) string { return "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" })
	})})
	for range 2 {
		req := &http1.Request{Method: "HEAD", Target: "/x"}
		if got := whole(t, h, req); got != "" {
			t.Fatal(got)
		}
	}
	if open, idle := h.Conns(); open != 1 || idle != 1 {
		t.Fatal(open, idle)
	}
}
