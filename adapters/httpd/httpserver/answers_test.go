package httpserver

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/internal/testkit"
)

// serving serves a handler at /x.
func serving(t *testing.T, opts Options, h fasthttp.RequestHandler) (*Server, string) {
	t.Helper()
	return serve(t, opts, nil, func(s *Server) { s.Handle(fasthttp.MethodGet, "/x", h) })
}

// endingBody is a large response that writes itself, and closes ended when nothing but its last byte is left to write.
type endingBody struct {
	WriteOnly
	size  int
	ended chan struct{}
}

func (b *endingBody) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write([]byte(strings.Repeat("x", b.size-1)))
	if err != nil {
		return int64(n), err
	}
	close(b.ended)
	m, err := w.Write([]byte("y"))
	return int64(n + m), err
}

func (b *endingBody) Close() error { return nil }

// stingy returns a connection that reads nothing unless told to, with a small window.
func stingy(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })

	return c
}

// What writes a response itself ends although its client reads nothing for long, and the client gets all in the end.
func TestSlowReaderHoldsNothing(t *testing.T) {
	t.Parallel()
	const size = 16 << 20
	ended := make(chan struct{})
	_, addr := serving(t, Options{WriteTimeout: time.Second}, func(ctx *fasthttp.RequestCtx) {
		if ReserveAnswer(ctx, size) != AnswersFit {
			t.Error("no room")
		}
		ctx.Response.SetBodyStream(&endingBody{size: size, ended: ended}, size)
	})
	c := stingy(t, addr)
	_, _ = io.WriteString(c, strings.Replace(get, "Host", "Connection: close\r\nHost", 1))
	testkit.Receive(t, "the end of the exchange", ended)

	all, err := io.ReadAll(io.LimitReader(c, size+(1<<20)))
	if err != nil {
		t.Fatal(err)
	}
	if body := string(all[strings.Index(string(all), "\r\n\r\n")+4:]); len(body) != size || body != strings.Repeat("x", size-1)+"y" {
		t.Errorf("%d bytes", len(body))
	}
}

// Over TLS, whose writes cannot be given up, what writes a response ends before any of it is read.
func TestAnswerOverTLSHoldsNothing(t *testing.T) {
	const size = 8 << 20
	ended := make(chan struct{})
	cert, _ := testkit.Certificate(t)
	_, addr := serve(t, Options{}, SecureListener(testkit.Listen(t), &tls.Config{Certificates: []tls.Certificate{cert}}), func(s *Server) {
		s.Handle(fasthttp.MethodGet, "/x", func(ctx *fasthttp.RequestCtx) {
			ctx.Response.SetBodyStream(&endingBody{size: size, ended: ended}, size)
		})
	})
	c := clientOn(t, tls.Client(stingy(t, addr), &tls.Config{InsecureSkipVerify: true}))
	c.send(get)
	testkit.Receive(t, "the end of the exchange", ended)
	if _, body := c.answer(); body != strings.Repeat("x", size-1)+"y" {
		t.Errorf("%d bytes", len(body))
	}
}

// A client that reads nothing is cut off after the window of its rate, also over TLS.
func TestReaderTooSlow(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %v", secure), func(t *testing.T) {
			t.Parallel()
			s, dial := tight(t, secure, Options{WriteTimeout: 300 * time.Millisecond}, 16<<20)
			c := dial()
			_, _ = io.WriteString(c, get)
			testkit.Eventually(t, "it is cut off", func() bool { return s.AnswerStats().Slow == 1 && s.Conns() == 0 })
			if got := s.AnswerStats(); got.Bytes != 0 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// A client that reads slowly, but at the rate that it must, gets all, also over TLS: it may take longer for a piece than the window lasts.
func TestReaderSlowEnough(t *testing.T) {
	const size, window = 320 << 10, 300 * time.Millisecond
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %v", secure), func(t *testing.T) {
			t.Parallel()
			for try := 1; ; try++ {
				s, dial := tight(t, secure, Options{WriteTimeout: window}, size)
				stood := standstill()
				got := readSlowly(dial())
				stats, pause := s.AnswerStats(), stood()
				if got == size && stats.Slow == 0 {
					return
				} else if pause < 100*time.Millisecond || try == 10 {
					t.Fatalf("try %d: %d bytes, %+v; the machine stood still for up to %v", try, got, stats, pause)
				}
				t.Logf("the machine stood still for %v, so the client could not read at its rate: once more", pause)
			}
		})
	}
}

// readSlowly sends a request, reads 8 KiB of its answer every 40 ms, and returns the length of the answer's body.
func readSlowly(c net.Conn) int {
	_, _ = io.WriteString(c, strings.Replace(get, "Host", "Connection: close\r\nHost", 1))
	clock := time.NewTicker(40 * time.Millisecond)
	defer clock.Stop()
	text, piece := []byte(nil), make([]byte, 8<<10)
	for range clock.C {
		n, err := c.Read(piece)
		if text = append(text, piece[:n]...); err != nil {
			break
		}
	}
	_, body, _ := bytes.Cut(text, []byte("\r\n\r\n"))
	return len(body)
}

// standstill begins to watch for how long nothing runs on the machine, and returns a function that ends that and returns the longest time.
func standstill() (end func() time.Duration) {
	stop, longest := make(chan struct{}), make(chan time.Duration)
	go func() {
		clock := time.NewTicker(10 * time.Millisecond)
		defer clock.Stop()
		last, most := time.Now(), time.Duration(0)
		for {
			select {
			case <-clock.C:
				now := time.Now()
				most, last = max(most, now.Sub(last)), now
			case <-stop:
				longest <- most
				return
			}
		}
	}()
	return func() time.Duration {
		close(stop)
		return <-longest
	}
}

// tight serves answers of a size over connections with small buffers, and returns a function that opens one.
func tight(t *testing.T, secure bool, opts Options, size int) (*Server, func() net.Conn) {
	t.Helper()
	ln := net.Listener(tightListener{testkit.Listen(t)})
	if secure {
		cert, _ := testkit.Certificate(t)
		ln = SecureListener(ln, &tls.Config{Certificates: []tls.Certificate{cert}})
	}
	s, addr := serve(t, opts, ln, func(s *Server) {
		s.Handle(fasthttp.MethodGet, "/x", func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString(strings.Repeat("x", size)) })
	})
	return s, func() net.Conn {
		c := stingy(t, addr)
		_ = c.(*net.TCPConn).SetReadBuffer(8 << 10)
		if secure {
			return tls.Client(c, &tls.Config{InsecureSkipVerify: true})
		}
		return c
	}
}

type tightListener struct{ net.Listener }

func (l tightListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(16 << 10)
	}
	return c, err
}

// Answers beyond the bounds wait; those that take nothing give way; one answer is written whatever its size.
func TestAnswersHaveRoomTogether(t *testing.T) {
	s, err := NewServer(Options{MaxAnswers: 100, MaxAnswersEach: 60})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Shutdown(t.Context()) }()
	a := &s.answers
	connOf := func(principal string) *conn {
		one, other := net.Pipe()
		t.Cleanup(func() { _ = other.Close() })
		c, _ := s.open(one)
		c.part.owner = owner{principal: principal}
		s.mu.Lock()
		s.conns[c] = struct{}{}
		s.mu.Unlock()
		return c
	}
	now := a.epoch.Add(time.Hour)
	try := func(c *conn, n int) AnswerLimit {
		limit, _, _ := a.try(&c.part, n, now)
		if limit == AnswersFit {
			a.moved(&c.part, now)
		}
		return limit
	}
	huge := connOf("a")
	if try(huge, 1000) != AnswersFit {
		t.Fatal("the only answer has no room")
	}
	if got := try(connOf("b"), 1); got != AnswersOfAll {
		t.Errorf("%d", got)
	}
	a.sub(&huge.part, 1000)
	first, second := connOf("a"), connOf("b")
	if try(first, 50) != AnswersFit || try(second, 40) != AnswersFit {
		t.Fatal("no room")
	}
	if got := try(connOf("a"), 20); got != AnswersOfClient {
		t.Errorf("%d", got)
	}
	if got := try(connOf("c"), 20); got != AnswersOfAll {
		t.Errorf("%d", got)
	}
	now = now.Add(stallTime - 1)
	if got := try(connOf("c"), 20); got != AnswersOfAll {
		t.Errorf("before the time: %d", got)
	}
	a.moved(&second.part, now)
	now = now.Add(1)
	if got := try(connOf("c"), 20); got != AnswersFit || a.used != 60 || a.of[owner{principal: "a"}] != 0 {
		t.Errorf("%d, %d used: the stalled one does not give way", got, a.used)
	}
	testkit.Eventually(t, "it is closed", first.closed.Load)
	if second.closed.Load() {
		t.Error("one that moves is closed")
	}
	if got := s.AnswerStats(); got.GaveWay != 1 || got.Bytes != 60 {
		t.Errorf("%+v", got)
	}
	second.shut(true)
	if a.used != 20 || len(a.open) != 1 {
		t.Errorf("%d used of %d after a close", a.used, len(a.open))
	}
	if !a.add(&second.part, 70) || a.used != 20 || len(a.open) != 1 {
		t.Errorf("%d used of %d by a connection that is closed", a.used, len(a.open))
	}
}

// An answer without room is refused at last, and a client whose answers hang has few waiting.
func TestAnswersWait(t *testing.T) {
	s, err := NewServer(Options{MaxAnswers: 100, MaxAnswersEach: 50})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Shutdown(t.Context()) }()
	a := &s.answers
	of := func(name string) *part { return &part{owner: owner{principal: name}} }
	busy := of("a")
	if a.reserve(busy, 50) != AnswersFit {
		t.Fatal("no room")
	}
	a.moved(busy, time.Now())
	done := make(chan AnswerLimit, 1)
	go func() { done <- a.reserve(of("a"), 40) }()
	testkit.Eventually(t, "it waits", func() bool { a.mu.Lock(); defer a.mu.Unlock(); return a.wait[busy.owner] == 40 })
	if a.enqueue(of("a"), 11, stallTime-hangTime-1) {
		t.Error("too much waits for a client that takes nothing")
	}
	if !a.enqueue(of("a"), 11, stallTime) {
		t.Error("an answer does not wait for a client that reads")
	}
	a.dequeue(of("a"), 11)
	a.sub(busy, 50)
	if got := testkit.Receive(t, "room", done); got != AnswersFit {
		t.Errorf("%d", got)
	}
	if len(a.wait) != 0 || a.stats.Refused != 1 {
		t.Errorf("%v %+v", a.wait, a.stats)
	}
}

func TestOwner(t *testing.T) {
	addr := netip.MustParseAddr("192.0.2.1")
	seen := make(chan owner, 2)
	_, at := serving(t, Options{}, func(ctx *fasthttp.RequestCtx) {
		seen <- connOf(ctx).part.owner
		SetOwner(ctx, string(ctx.QueryArgs().Peek("p")), addr)
		seen <- connOf(ctx).part.owner
	})
	c := dialTo(t, at)
	c.send(strings.Replace(get, "GET /x ", "GET /x?p=alice ", 1))
	if got := testkit.Receive(t, "owner", seen); got.addr != netip.MustParseAddr("127.0.0.1") {
		t.Error(got)
	}
	if got := testkit.Receive(t, "owner", seen); got != (owner{principal: "alice"}) {
		t.Error(got)
	}
	c = dialTo(t, at)
	c.send(get)
	<-seen
	if got := testkit.Receive(t, "owner", seen); got != (owner{addr: addr}) {
		t.Error(got)
	}
}
