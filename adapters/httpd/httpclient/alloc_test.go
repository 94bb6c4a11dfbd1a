package httpclient

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"dragoman/adapters/httpd/http1"
	"dragoman/internal/testkit"
)

// canned answers requests that end with "}" without allocating, so that only the client is measured.
func canned(answer string) func(int, net.Conn) {
	return func(_ int, c net.Conn) {
		buf, out := make([]byte, 4096), []byte(answer)
		for n := 0; ; {
			m, err := c.Read(buf[n:])
			if err != nil {
				return
			}
			if n += m; !bytes.HasSuffix(buf[:n], []byte("}")) {
				continue
			}
			n = 0
			if _, err := c.Write(out); err != nil {
				return
			}
		}
	}
}

func TestExchangeAllocatesNothing(t *testing.T) {
	for name, answer := range map[string]string{
		"length":  "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nDate: x\r\n\r\n{}",
		"chunked": "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
	} {
		h := newHost(t, HostOptions{URL: upstream(t, canned(answer)), Headers: []Header{{"Authorization", "Bearer x"}}})
		var req http1.Request
		payload := []byte(`{"jsonrpc":"2.0"}`)
		dst := make([]byte, 0, 1024)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		failed := false
		n := testing.AllocsPerRun(200, func() {
			req.Reset()
			req.Method, req.Target, req.Body = "POST", "/mcp", payload
			_ = req.Set("Mcp-Method", "tools/call")
			until := time.Now().Add(time.Minute)
			a, err := h.Send(ctx, &req)
			if err != nil {
				failed = true
				return
			}
			if _, _, err := a.Head(until); err != nil {
				failed = true
			}
			if body, err := a.Body(dst, 1000, until); err != nil || string(body) != "{}" {
				failed = true
			}
			a.Close()
		})
		if n != 0 || failed {
			t.Errorf("%s: %v allocations, failed: %v", name, n, failed)
		}
	}
}

// Aborts at any moment, on connections that are reused meanwhile: no answer is ever another's.
func TestAbortStress(t *testing.T) {
	h := newHost(t, HostOptions{URL: upstream(t, echo)})
	var aborts sync.WaitGroup
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 200 {
				body := string(rune('a'+w)) + string(rune('a'+i%26))
				a, err := h.Send(context.Background(), post(body))
				if err != nil {
					t.Error(err)
					return
				}
				abort := i%2 == 0
				if abort {
					spin := rand.IntN(200)
					aborts.Go(func() {
						for range spin {
							_, _ = a.c, io.EOF
						}
						a.Abort()
					})
				}
				got, err := a.Body(nil, 100, soon())
				if err == nil && string(got) != "POST /mcp "+body || err != nil && !abort {
					t.Errorf("%q for %q, %v", got, body, err)
				}
				a.Close()
			}
		})
	}
	wg.Wait()
	aborts.Wait()
	testkit.Eventually(t, "all idle", func() bool { open, idle := h.Conns(); return open == idle })
}

func BenchmarkExchange(b *testing.B) {
	ln := testkit.Listen(b)
	defer ln.Close()
	go func() {
		if c, err := ln.Accept(); err == nil {
			canned("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")(0, c)
		}
	}()
	h, err := NewHost(HostOptions{URL: "http://" + ln.Addr().String(), Proxy: "off"})
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close()
	var req http1.Request
	payload := []byte(`{"jsonrpc":"2.0"}`)
	dst := make([]byte, 0, 1024)
	for b.Loop() {
		req.Reset()
		req.Method, req.Target, req.Body = "POST", "/mcp", payload
		a, err := h.Send(context.Background(), &req)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := a.Body(dst, 1000, time.Now().Add(time.Minute)); err != nil {
			b.Fatal(err)
		}
		a.Close()
	}
}
