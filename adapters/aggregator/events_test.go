package aggregator

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Run(m) }

// eventServer serves the events of servers, without credentials.
func eventServer(t *testing.T, e *Events) (address string) {
	t.Helper()
	srv, err := httpserver.NewServer(httpserver.Options{KeepAlive: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	srv.Handle("GET", "/events", func(ctx *fasthttp.RequestCtx) {
		if err := e.open(ctx); err != nil {
			ctx.SetStatusCode(fasthttp.StatusServiceUnavailable)
		}
	})
	t.Cleanup(e.Close)
	return testkit.Serve(t, srv)
}

// A reader who does not read is cut off with an event that says so, and nothing waits for it. Silence has comments.
func TestSlowReaderOfEvents(t *testing.T) {
	var round atomic.Int64
	e := NewEvents(func() []Server {
		return []Server{{Name: "one", Source: Registered, Description: fmt.Sprint(round.Load(), strings.Repeat("x", 100<<10))}}
	}, func() <-chan struct{} { return nil })
	address := eventServer(t, e)
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET /events HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the reader is there", func() bool { return e.reading.Load() == 1 })
	e.mu.Lock()
	stop := e.stop
	e.mu.Unlock()
	told := 0
	testkit.Eventually(t, "the reader is cut off", func() bool {
		round.Add(1)
		now, order := e.view()
		e.tell(stop, now, order)
		told++
		e.mu.Lock()
		defer e.mu.Unlock()
		for s := range e.readers {
			return s.Write([]byte(": \n\n")) != nil
		}
		return true
	})
	all, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	if tail := string(all[max(0, len(all)-200):]); !strings.Contains(tail, "event: reread\n") || !strings.Contains(tail, "too slow") || !strings.HasSuffix(tail, "0\r\n\r\n") {
		t.Errorf("%d bytes after %d changes, the last %q", len(all), told, tail)
	}
	testkit.Eventually(t, "it is forgotten", func() bool { return e.reading.Load() == 0 })
	e.Touch() // has no effect
	res, err := http.Get("http://" + address + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var got []byte
	piece := make([]byte, 64<<10)
	testkit.Eventually(t, "a comment", func() bool {
		n, err := res.Body.Read(piece)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, piece[:n]...)
		return bytes.Contains(got, []byte("\n: keep-alive\n\n"))
	})
}

// Readers are told when what servers offer changes, without another sign.
func TestEventsOfOffers(t *testing.T) {
	var tools atomic.Int64
	asked, changed := make(chan struct{}, 1), make(chan struct{})
	e := NewEvents(func() []Server { return []Server{{Name: "one", Source: Registered, ToolCount: int(tools.Load())}} }, func() <-chan struct{} {
		select {
		case asked <- struct{}{}:
			return changed
		default: // it was asked before
			return nil
		}
	})
	res, err := http.Get("http://" + eventServer(t, e) + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	testkit.Receive(t, "the look at what is offered", asked)
	tools.Store(7)
	close(changed)
	var got []byte
	piece := make([]byte, 4096)
	testkit.Eventually(t, "the event", func() bool {
		n, err := res.Body.Read(piece)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, piece[:n]...)
		return regexp.MustCompile(`event: tools\ndata: \{.*"tool_count":7`).Match(got)
	})
}
