package upstream

import (
	"bufio"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"dragoman/adapters/httpcall"
	"dragoman/proxy"
)

// canned is a service that answers each POST with the same bytes, at no cost of its own.
func canned(b testing.TB, body string) *Upstream {
	b.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		answer := []byte(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
		r := bufio.NewReader(conn)
		for {
			length := 0
			for {
				line, err := r.ReadSlice('\n')
				if err != nil {
					return
				}
				if text, ok := strings.CutPrefix(string(line), "Content-Length: "); ok {
					_, _ = fmt.Sscan(text, &length)
				}
				if len(line) <= 2 {
					break
				}
			}
			if _, err := r.Discard(length); err != nil {
				return
			}
			if _, err := conn.Write(answer); err != nil {
				return
			}
		}
	}()
	b.Cleanup(func() {
		_ = ln.Close()
		<-ended
	})
	return New(hostOf(b, "http://"+ln.Addr().String()), "", httpcall.Limits{Body: 64 << 20, Event: 1 << 20})
}

// mega are answers of a megabyte, by method and params.
var mega = []struct{ name, method, params, body string }{
	{"result", "tools/call", `{"name":"a","arguments":{}}`, successBody(`{"content":[{"type":"text","text":"` + strings.Repeat("x", 1<<20) + `"}]}`)},
	{"object", "tools/call", `{"name":"a","arguments":{}}`, successBody(`{"rows":"` + strings.Repeat("x", 1<<20) + `"}`)},
	{"failure", "tools/call", `{"name":"a","arguments":{}}`, failureBody("EXECUTION_ERROR", `,"meta":{"result":{"content":[{"type":"text","text":"`+strings.Repeat("x", 60<<10)+`"}]}}`)},
	{"read", "resources/read", `{"uri":"a:b"}`, successBody(`{"contents":[{"uri":"a:b","text":"` + strings.Repeat("x", 1<<20) + `"}]}`)},
	{"tools", "tools/list", `{}`, `{"service":"s","version":"1.0.0","tools":[{"name":"a","description":"` + strings.Repeat("x", 1<<20) + `","input_schema":{"type":"object"}}]}`},
}

func oneCall(b testing.TB, u *Upstream, ex *proxy.Exchange) {
	replies, err := u.Call(ex)
	if err != nil {
		b.Fatal(err)
	}
	m, err := replies.Next(time.Now().Add(patience))
	if err != nil || m.Size() < 60<<10 {
		b.Fatal(m.Size(), err)
	}
	_ = replies.Close()
}

// Reading a large answer takes about twice its size. It is not copied if it is a result already, once if the result is built, and
// once more if the result also has its text.
func TestLargeCopies(t *testing.T) {
	most := map[string]float64{"result": 3, "object": 5.2, "failure": 2.4, "read": 4.2, "tools": 4.2}
	for _, k := range mega {
		u := canned(t, k.body)
		oneCall(t, u, newExchange(t, k.method, k.params))
		const calls = 5
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range calls {
			oneCall(t, u, newExchange(t, k.method, k.params))
		}
		runtime.ReadMemStats(&after)
		if got := float64(after.TotalAlloc-before.TotalAlloc) / calls / float64(len(k.body)); got > most[k.name] || got < 0.5 {
			t.Errorf("%s: %.2f times its size are allocated, want %.1f", k.name, got, most[k.name])
		}
	}
}

// BenchmarkLarge shows in B/op how often a large answer is copied.
func BenchmarkLarge(b *testing.B) {
	for _, k := range mega {
		b.Run(k.name, func(b *testing.B) {
			u := canned(b, k.body)
			b.ReportAllocs()
			for b.Loop() {
				oneCall(b, u, newExchange(b, k.method, k.params))
			}
		})
	}
}
