package httpserver

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/internal/testkit"
)

// burst is a Source of many events that waits for nobody.
type burst struct {
	left  int
	event string
	ended chan struct{} // closed when all have been pulled
}

func (b *burst) Next(dst []byte) ([]byte, error) {
	if b.left--; b.left == 0 {
		close(b.ended)
		return append(dst, b.event...), io.EOF
	}
	return append(dst, b.event...), nil
}

func (b *burst) Close(bool) {}

// What makes the events of a stream ends although its client reads nothing for long, and the client gets all in the end. The connection
// then serves the next request.
func TestSlowReaderOfEventsHoldsNothing(t *testing.T) {
	for _, secure := range []bool{false, true} {
		for _, size := range []int{100, 200 << 10} {
			t.Run(fmt.Sprintf("TLS %v, %d bytes", secure, size), func(t *testing.T) {
				t.Parallel()
				src := &burst{left: 8 << 20 / size, event: strings.Repeat("x", size), ended: make(chan struct{})}
				want := src.left * size
				ln := net.Listener(tightListener{testkit.Listen(t)})
				if secure {
					cert, _ := testkit.Certificate(t)
					ln = SecureListener(ln, &tls.Config{Certificates: []tls.Certificate{cert}})
				}
				s, addr := serve(t, Options{WriteTimeout: testkit.Patient}, ln, func(s *Server) {
					s.Handle("POST", "/x", func(ctx *fasthttp.RequestCtx) { StreamFrom(ctx, nil, src) })
					s.Handle("GET", "/x", text)
				})
				nc := stingy(t, addr)
				if secure {
					nc = tls.Client(nc, &tls.Config{InsecureSkipVerify: true})
				}
				c := clientOn(t, nc)
				c.send(open)
				testkit.Receive(t, "the end of the source", src.ended)
				if n := s.AnswerStats().Bytes; n < want/4 || n > 2*want {
					t.Errorf("%d bytes are counted", n)
				}
				if _, body := c.answer(); len(body) != want || strings.Trim(body, "x") != "" {
					t.Errorf("%d bytes of %d", len(body), want)
				}
				c.send(get)
				if _, body := c.answer(); body != "fine" {
					t.Error(body)
				}
				if got := s.AnswerStats(); got != (AnswerStats{}) {
					t.Errorf("%+v", got)
				}
			})
		}
	}
}

// A source that is waited for learns that its client, which is behind, was cut off.
func TestSlowReaderOfEventsIsCutOff(t *testing.T) {
	src := newScript()
	s, addr := serve(t, Options{WriteTimeout: 50 * time.Millisecond}, tightListener{testkit.Listen(t)}, func(s *Server) {
		s.Handle("POST", "/x", func(ctx *fasthttp.RequestCtx) {
			src.watch = WatchClient(ctx, src.gone)
			StreamFrom(ctx, nil, src)
		})
	})
	c := dialTo(t, addr)
	c.send(open)
	c.head()
	for range cap(src.lines) {
		src.lines <- strings.Repeat("x", 4<<20)
	}
	if testkit.Receive(t, "Close", src.closed) {
		t.Error("sent?")
	}
	if got := s.AnswerStats(); got.Slow != 1 || got.Bytes != 0 {
		t.Errorf("%+v", got)
	}
}

// The events of one client that reads nothing have the room of its answers, and no more.
func TestSlowReaderOfEventsHasRoom(t *testing.T) {
	src := &burst{left: 1000, event: strings.Repeat("x", 100<<10), ended: make(chan struct{})}
	s, addr := serve(t, Options{MaxAnswersEach: 4 << 20, WriteTimeout: testkit.Patient}, tightListener{testkit.Listen(t)}, func(s *Server) {
		s.Handle("POST", "/x", func(ctx *fasthttp.RequestCtx) { StreamFrom(ctx, nil, src) })
	})
	c := dialTo(t, addr)
	c.send(open)
	c.head()
	testkit.Eventually(t, "it is cut off", func() bool {
		if n := s.AnswerStats().Bytes; n > 4<<20 {
			t.Errorf("%d bytes", n)
		}
		return s.Conns() == 0
	})
	if got := s.AnswerStats(); got.Refused == 0 || got.Bytes != 0 {
		t.Errorf("%+v", got)
	}
}
