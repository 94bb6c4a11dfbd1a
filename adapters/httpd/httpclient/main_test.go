package httpclient

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dragoman/adapters/httpd/http1"
	"dragoman/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// upstream accepts connections and hands each to a script, on a goroutine of its own.
func upstream(t *testing.T, script func(n int, c net.Conn)) string {
	t.Helper()
	return upstreamOn(t, testkit.Listen(t), script)
}

func upstreamOn(t *testing.T, ln net.Listener, script func(n int, c net.Conn)) string {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	wg.Go(func() {
		for n := 0; ; n++ {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			wg.Go(func() {
				defer c.Close()
				script(n, c)
			})
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		mu.Lock()
		for _, c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return ln.Addr().String()
}

// each answers every request of a connection with the bytes of reply, which returns false when there are no more.
func each(c net.Conn, reply func(r *http.Request, body string) string) {
	br := bufio.NewReader(c)
	for {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if _, err := io.WriteString(c, reply(r, string(body))); err != nil {
			return
		}
	}
}

func newHost(t *testing.T, opts HostOptions) *Host {
	t.Helper()
	if !strings.Contains(opts.URL, ":/") {
		opts.URL = "http://" + opts.URL
	}
	if opts.Proxy == "" {
		opts.Proxy = "off"
	}
	h, err := NewHost(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

func post(body string) *http1.Request {
	return &http1.Request{Method: "POST", Target: "/mcp", Body: []byte(body)}
}

func send(t *testing.T, h *Host, req *http1.Request) Response {
	t.Helper()
	a, err := h.Send(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// whole makes one exchange and returns its body.
func whole(t *testing.T, h *Host, req *http1.Request) string {
	t.Helper()
	a := send(t, h, req)
	defer a.Close()
	status, _, err := a.Head(soon())
	if err != nil || status != 200 {
		t.Fatalf("head: %d, %v", status, err)
	}
	body, err := a.Body(nil, 64<<20, soon())
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func soon() time.Time { return time.Now().Add(testkit.Patient) }

// Conns returns how many connections there are, and how many of them are unused.
func (h *Host) Conns() (open, idle int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.open, len(h.idle)
}
