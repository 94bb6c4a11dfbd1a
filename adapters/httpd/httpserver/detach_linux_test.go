package httpserver

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"dragoman/internal/testkit"
)

// detached reports whether a stream has given up its connection and has only its descriptor.
func (h *Stream) detached() bool {
	return h.c.socket.Detached()
}

func openFiles(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(all)
}

// An idle stream gives up its connection. Writes, leaving clients, ends and breaks work as before, and no descriptor is left open.
func TestDetachedStreams(t *testing.T) {
	for _, where := range []string{"tcp", "unix"} {
		t.Run(where, func(t *testing.T) {
			so, held, closed := StreamOptions{}, make(chan *Stream, 10), make(chan error, 10)
			so.OnClose = func(err error) { closed <- err }
			network, at := "tcp", "127.0.0.1:0"
			if where == "unix" {
				network, at = "unix", filepath.Join(t.TempDir(), "s")
			}
			ln, err := net.Listen(network, at)
			if err != nil {
				t.Fatal(err)
			}
			s, _ := serve(t, Options{KeepAlive: 30 * time.Millisecond}, ln, func(s *Server) { s.Handle("GET", "/x", holder(so, held)) })
			files := openFiles(t)
			open := func() (net.Conn, *Stream) {
				c, err := net.Dial(network, ln.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = c.Close() })
				if _, err := io.WriteString(c, get); err != nil {
					t.Fatal(err)
				}
				h := testkit.Receive(t, "the stream", held)
				testkit.Eventually(t, "detached", h.detached)
				return c, h
			}
			reads := func(c net.Conn, want string) {
				t.Helper()
				_ = c.SetReadDeadline(time.Now().Add(testkit.Patient))
				var all []byte
				b := make([]byte, 4096)
				for !strings.Contains(string(all), want) {
					n, err := c.Read(b)
					if all = append(all, b[:n]...); err != nil {
						t.Fatalf("%v after %q", err, all)
					}
				}
			}
			ends := func(c net.Conn, want ...error) {
				t.Helper()
				err := testkit.Receive(t, "OnClose", closed)
				if !slices.ContainsFunc(want, func(w error) bool { return errors.Is(err, w) }) {
					t.Errorf("ended with %v; want %v", err, want)
				}
				_ = c.Close()
				testkit.Eventually(t, "no file is left", func() bool { return openFiles(t) <= files })
			}

			left := []error{ErrLeft, net.ErrClosed, syscall.EPIPE, syscall.ECONNRESET} // a keep-alive may be written at that moment
			c, h := open()
			reads(c, "keep-alive")
			if err := h.Write([]byte("data: 1\n\n")); err != nil {
				t.Error(err)
			}
			reads(c, "data: 1\n\n")
			_ = c.Close()
			ends(c, left...)
			if err := h.Write([]byte("data: 2\n\n")); !errors.Is(err, ErrClosed) {
				t.Errorf("a write after the end: %v", err)
			}

			c, h = open()
			h.End()
			reads(c, "0\r\n\r\n")
			ends(c, nil)

			c, h = open()
			h.c.shut(true)
			h.c.shut(true)
			ends(c, left...)

			c, _ = open()
			none, cancel := context.WithCancel(t.Context())
			cancel()
			_ = s.Shutdown(none)
			if err := testkit.Receive(t, "OnClose", closed); !errors.Is(err, ErrShutdown) && !errors.Is(err, ErrLeft) {
				t.Error(err)
			}
			reads(c, "open")
		})
	}
}

// A stream whose peer reads slowly gets a connection again, so that a writer can wait. Nothing is lost, and a leaving client is still
// noticed.
func TestDetachedStreamsAttach(t *testing.T) {
	const events = 300
	event := "data: " + strings.Repeat("x", 100<<10) + "\n\n"
	_, addr, held, closed := holding(t, Options{}, StreamOptions{Queue: 1 << 30})
	for _, end := range []bool{true, false} {
		c := dialTo(t, addr)
		c.send(get)
		c.head()
		h := testkit.Receive(t, "the stream", held)
		testkit.Eventually(t, "detached", h.detached)
		for range events {
			if err := h.Write([]byte(event)); err != nil {
				t.Fatal(err)
			}
		}
		if h.detached() {
			t.Fatal("the system buffered 30 MB; the test needs more")
		}
		if !end {
			c.reset()
			if err := testkit.Receive(t, "OnClose", closed); err == nil {
				t.Error("ended without an error although the client had left")
			}
			continue
		}
		h.End()
		all, err := io.ReadAll(c.br)
		if n := strings.Count(string(all), event); err != nil || n != events || !strings.HasSuffix(string(all), "0\r\n\r\n") {
			t.Errorf("%d of %d events, %v", n, events, err)
		}
		if err := testkit.Receive(t, "OnClose", closed); err != nil {
			t.Error(err)
		}
	}
	c := dialTo(t, addr)
	c.send(get)
	c.head()
	h := testkit.Receive(t, "the stream", held)
	testkit.Eventually(t, "detached", h.detached)
	h.mu.Lock()
	_, err := h.c.socket.Attach()
	h.mu.Unlock()
	if err != nil || h.detached() {
		t.Fatal(err)
	}
	c.expect("8\r\n: open\n\n\r\n")
	if err := h.Write([]byte("data: 1\n\n")); err != nil {
		t.Error(err)
	}
	c.expect("9\r\ndata: 1\n\n\r\n")
	_ = c.Close()
	if err := testkit.Receive(t, "OnClose", closed); !errors.Is(err, ErrLeft) {
		t.Error(err)
	}
}
