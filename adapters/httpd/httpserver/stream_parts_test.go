package httpserver

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"dragoman/internal/testkit"
)

// parts makes an event of at least size bytes in three parts, and its text.
func parts(mark byte, size int) (event [][]byte, text string) {
	event = [][]byte{[]byte("data: "), bytes.Repeat([]byte{mark}, size), []byte("\n\n")}
	return event, string(bytes.Join(event, nil))
}

func overwriteAll(event [][]byte) {
	for _, p := range event {
		clear(p)
	}
}

// Events of all sizes arrive complete and in order, and their memory is free once WriteParts has returned, on every kind of connection.
func TestWriteParts(t *testing.T) {
	cert, _ := testkit.Certificate(t)
	for _, secure := range []bool{false, true} {
		for _, version := range []string{"1.0", "1.1"} {
			t.Run(fmt.Sprintf("HTTP/%s TLS %v", version, secure), func(t *testing.T) {
				held := make(chan *Stream, 1)
				ln := testkit.Listen(t)
				if secure {
					ln = tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{cert}})
				}
				_, addr := serve(t, Options{KeepAlive: time.Hour}, ln, func(s *Server) {
					s.Handle("GET", "/x", holder(StreamOptions{Queue: 64 << 20}, held))
				})
				c := dialTo(t, addr)
				if secure {
					c = clientOn(t, tls.Client(c.Conn, &tls.Config{InsecureSkipVerify: true}))
				}
				c.send("GET /x HTTP/" + version + "\r\nHost: a\r\n\r\n")
				resp := c.head()
				h := testkit.Receive(t, "the stream", held)
				sizes := []int{1, minInPlace - 8, minInPlace, maxCopied, 100 << 10, 1, writePiece + 1, 9 << 20, 1}
				var want strings.Builder
				want.WriteString(": open\n\n")
				done := make(chan error, 1)
				for i, size := range sizes {
					_, text := parts('a'+byte(i), size)
					want.WriteString(text)
				}
				go func() {
					for i, size := range sizes {
						event, _ := parts('a'+byte(i), size)
						if err := h.WriteParts(event...); err != nil {
							done <- err
							return
						}
						overwriteAll(event)
					}
					h.End()
					done <- nil
				}()
				got, err := io.ReadAll(resp.Body)
				if err != nil || string(got) != want.String() {
					t.Errorf("%d bytes of %d, %v", len(got), want.Len(), err)
				}
				if err := testkit.Receive(t, "WriteParts", done); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// Writes during a large event do not block. They are sent after it, and are counted.
func TestWriteWaitsForALargeEvent(t *testing.T) {
	_, addr, held, closed := holding(t, Options{KeepAlive: time.Hour}, StreamOptions{Queue: 64 << 20})
	c := dialTo(t, addr)
	if err := c.Conn.(*net.TCPConn).SetReadBuffer(1 << 20); err != nil { // else the kernel may make it large enough for all that is left
		t.Fatal(err)
	}
	c.send(get)
	resp := c.head()
	h := testkit.Receive(t, "the stream", held)
	event, text := parts('x', 32<<20)
	done := make(chan error, 1)
	go func() {
		err := h.WriteParts(event...)
		overwriteAll(event)
		done <- err
	}()
	testkit.Eventually(t, "it waits", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.writing && h.inFlight > 0
	})
	if err := h.Write([]byte("data: behind\n\n")); err != nil {
		t.Fatal(err)
	}
	small, _ := parts('y', 10)
	if err := h.WriteParts(small...); err != nil {
		t.Fatal(err)
	}
	if len(done) > 0 {
		t.Fatal("WriteParts did not wait for the reader")
	}
	inFlight := func() int {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.inFlight
	}
	before, begin := inFlight(), make([]byte, 12<<20)
	if _, err := io.ReadFull(resp.Body, begin); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "less is left", func() bool { n := inFlight(); return n > 0 && n < before })
	h.End()
	if got, err := io.ReadAll(resp.Body); err != nil || string(begin)+string(got) != ": open\n\n"+text+"data: behind\n\ndata: yyyyyyyyyy\n\n" {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := testkit.Receive(t, "WriteParts", done); err != nil {
		t.Error(err)
	}
	if err := testkit.Receive(t, "OnClose", closed); err != nil {
		t.Error(err)
	}
}

// A peer that does not read holds up a writer for no longer than a write's timeout, and the queue bounds the waiting events.
func TestWritePartsUnread(t *testing.T) {
	_, addr, held, closed := holding(t, Options{WriteTimeout: 30 * time.Millisecond}, StreamOptions{})
	c := dialTo(t, addr)
	c.send(get)
	h := testkit.Receive(t, "the stream", held)
	event, _ := parts('x', 32<<20)
	if err := h.WriteParts(event...); err != nil && !errors.Is(err, ErrSlowReader) { // the timeout may pass before it returns
		t.Error(err)
	}
	if err := testkit.Receive(t, "OnClose", closed); !errors.Is(err, ErrSlowReader) {
		t.Error(err)
	}

	_, addr, held, closed = holding(t, Options{}, StreamOptions{})
	c = dialTo(t, addr)
	c.send(get)
	h = testkit.Receive(t, "the stream", held)
	testkit.Eventually(t, "the head is written", func() bool { // until then events are queued
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.started
	})
	done := make(chan error, 1)
	go func() { done <- h.WriteParts(event...) }()
	testkit.Eventually(t, "it waits", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.writing && h.inFlight > 0
	})
	if err := h.Write([]byte("data: too much\n\n")); !errors.Is(err, ErrSlowReader) {
		t.Error(err)
	}
	if err := testkit.Receive(t, "WriteParts", done); err == nil {
		t.Error("the stream was closed without a notification")
	}
	if err := testkit.Receive(t, "OnClose", closed); !errors.Is(err, ErrSlowReader) {
		t.Error(err)
	}
}

// As many pieces as the system accepts in one call, and more.
func TestWritePartsInManyPieces(t *testing.T) {
	_, addr, held, _ := holding(t, Options{KeepAlive: time.Hour}, StreamOptions{Queue: 64 << 20})
	c := dialTo(t, addr)
	c.send(get)
	resp := c.head()
	h := testkit.Receive(t, "the stream", held)
	var event [][]byte
	for i := range 3000 {
		event = append(event, fmt.Appendf(nil, "data: %d\n", i))
	}
	event = append(event, []byte("\n"))
	text := string(bytes.Join(event, nil))
	if err := h.WriteParts(event...); err != nil {
		t.Fatal(err)
	}
	h.End()
	if got, err := io.ReadAll(resp.Body); err != nil || string(got) != ": open\n\n"+text {
		t.Errorf("%d bytes of %d, %v", len(got), len(text), err)
	}
}
