package load

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// BenchmarkCall is what a call costs the generator, with the least server behind it that there is.
func BenchmarkCall(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() { // ends with its listener
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go canned(c)
		}
	}()
	c, err := Open(b.Context(), plan(l.Addr().String(), Modern), 0)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Leave()
	c.w.latency = newHistogram()
	b.ReportAllocs()
	for b.Loop() {
		now := time.Now()
		if err := c.w.call(now); err != nil {
			b.Fatal(err)
		}
		_ = c.w.latency.RecordValue(int64(time.Since(now)))
	}
}

// canned answers echo calls of 300 bytes with as little as can be. It ends with its client.
func canned(c net.Conn) {
	in, out := make([]byte, 4096), []byte(nil)
	for {
		n, err := c.Read(in)
		if err != nil {
			_ = c.Close()
			return
		}
		at := strings.Index(string(in[:n]), `"id":`) + 5
		id := string(in[at : at+10])
		text := id + "00000190j" + strings.Repeat("x", 190-19)
		body := `{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[{"type":"text","text":"` + text + `"}]}}`
		out = append(out[:0], fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)...)
		_, _ = c.Write(out)
	}
}
