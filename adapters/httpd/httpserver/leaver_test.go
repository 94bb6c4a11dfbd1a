package httpserver

import (
	"crypto/tls"
	"net"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/internal/testkit"
)

type leaver chan time.Time

func (l leaver) Leave() { l <- time.Now() }

// blocked serves a handler that waits for its client to leave, writing nothing.
func blocked(t *testing.T, ln net.Listener) (addr string, entered chan struct{}, left leaver) {
	entered, left = make(chan struct{}, 1), make(leaver, 1)
	gone := make(leaver, 1)
	_, addr = serve(t, Options{}, ln, func(s *Server) {
		s.Handle("GET", "/x", func(ctx *fasthttp.RequestCtx) {
			watch := WatchClient(ctx, gone)
			defer watch.Stop()
			entered <- struct{}{}
			left <- <-gone
		})
	})
	return addr, entered, left
}

// fasthttp's RequestCtx.Done detects none of these; MSG_PEEK is blinded by a pipelined byte.
func TestLeaveIsNoticedAtOnce(t *testing.T) {
	for name, leave := range map[string]func(*client){
		"FIN":        func(c *client) { _ = c.Close() },
		"RST":        func(c *client) { c.reset() },
		"half-close": func(c *client) { _ = c.Conn.(*net.TCPConn).CloseWrite() },
		"pipelined byte, FIN": func(c *client) {
			c.send("G")
			_ = c.Close()
		},
		"pipelined request, half-close": func(c *client) {
			c.send(get)
			_ = c.Conn.(*net.TCPConn).CloseWrite()
		},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Promptly(t, "the leave", func() time.Duration {
				addr, entered, left := blocked(t, nil)
				c := dialTo(t, addr)
				c.send(get)
				testkit.Receive(t, "the handler", entered)
				start := time.Now()
				leave(c)
				took := testkit.Receive(t, "the leave", left).Sub(start)
				_ = c.Close()
				select { // the pipelined request is handled too, and finds its client gone
				case <-entered:
					testkit.Receive(t, "the second leave", left)
				default:
				}
				return took
			})
		})
	}
}

func TestLeaveIsNoticedThroughTLSAndUnixSockets(t *testing.T) {
	cert, _ := testkit.Certificate(t)
	addr, entered, left := blocked(t, tls.NewListener(testkit.Listen(t), &tls.Config{Certificates: []tls.Certificate{cert}}))
	secure, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	c := clientOn(t, secure)
	c.send(get)
	testkit.Receive(t, "the handler", entered)
	_ = c.Close()
	testkit.Receive(t, "the leave", left)

	socket, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	addr, entered, left = blocked(t, socket)
	c = dialTo(t, addr)
	c.send(get)
	testkit.Receive(t, "the handler", entered)
	_ = c.Close()
	testkit.Receive(t, "the leave", left)
}

func TestWatchOfAClientThatHasLeft(t *testing.T) {
	proceed, left := make(chan struct{}), make(leaver, 1)
	s, addr := serve(t, Options{}, nil, func(s *Server) {
		s.Handle("GET", "/x", func(ctx *fasthttp.RequestCtx) {
			<-proceed
			WatchClient(ctx, left).Stop()
		})
	})
	c := dialTo(t, addr)
	c.send(get)
	testkit.Eventually(t, "a connection", func() bool { return s.Conns() == 1 })
	_ = c.Close()
	conn := s.openConns()[0]
	testkit.Eventually(t, "the leave", func() bool {
		conn.departure.mu.Lock()
		defer conn.departure.mu.Unlock()
		return conn.gone
	})
	close(proceed)
	testkit.Receive(t, "the leave, inside Watch", left)
}

// recycled is a Leaver as a pool would hold it: Leave must not be called while it is not watch.
type recycled struct {
	watch  atomic.Bool
	leaves *atomic.Int64
	bad    *atomic.Int64
}

func (r *recycled) Leave() {
	if !r.watch.Load() {
		r.bad.Add(1)
	}
	r.leaves.Add(1)
}

func TestNoLeaveAfterStop(t *testing.T) {
	var leaves, bad atomic.Int64
	s, addr := serve(t, Options{}, nil, func(s *Server) {
		s.Handle("GET", "/x", func(ctx *fasthttp.RequestCtx) {
			r := &recycled{leaves: &leaves, bad: &bad}
			for range 300 {
				r.watch.Store(true)
				watch := WatchClient(ctx, r)
				watch.Stop()
				r.watch.Store(false)
			}
		})
	})
	end := time.Now().Add(testkit.Patient)
	for i := 0; i < 200 || leaves.Load() == 0 && time.Now().Before(end); i++ { // the time of leaving varies with the machine
		c := dialTo(t, addr)
		c.send(get)
		_ = c.Close()
	}
	testkit.Eventually(t, "the end of all", func() bool { return s.Conns() == 0 })
	if bad.Load() != 0 || leaves.Load() == 0 {
		t.Fatalf("%d leaves, %d of them after Stop", leaves.Load(), bad.Load())
	}
}

func TestStopOfAnEarlierWatch(t *testing.T) {
	first, second := make(leaver, 1), make(leaver, 1)
	c := &conn{}
	one := c.watch(first)
	c.watch(second)
	one.Stop()
	c.Left()
	c.Left()
	if len(first) != 0 || len(second) != 1 {
		t.Fatalf("first notified %d times, second %d", len(first), len(second))
	}
	Watch{}.Stop()
}

type nullLeaver struct{}

func (*nullLeaver) Leave() {}

func TestWatchAllocatesNothing(t *testing.T) {
	c, l := &conn{}, &nullLeaver{}
	if n := testing.AllocsPerRun(100, func() { c.watch(l).Stop() }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

// A request that asks which clients have left learns of each that left before it.
func TestDepartures(t *testing.T) {
	entered, left := make(chan struct{}, 1), make(leaver, 1)
	_, addr := serve(t, Options{}, nil, func(s *Server) {
		s.Handle("GET", "/x", func(ctx *fasthttp.RequestCtx) {
			watch := WatchClient(ctx, left)
			defer watch.Stop()
			entered <- struct{}{}
			<-s.stop.Done()
		})
		s.Handle("GET", "/look", func(ctx *fasthttp.RequestCtx) {
			DeparturesOf(ctx)()
			ctx.SetBodyString(map[bool]string{true: "left", false: "there"}[len(left) == 1])
		})
	})
	const look = "GET /look HTTP/1.1\r\nHost: localhost\r\n\r\n"
	second := dialTo(t, addr)
	for range 100 {
		first := dialTo(t, addr)
		first.send(get)
		testkit.Receive(t, "the handler", entered)
		second.send(look)
		if _, body := second.answer(); body != "there" {
			t.Fatalf("before: %s", body)
		}
		_ = first.Close()
		second.send(look)
		if _, body := second.answer(); body != "left" && runtime.GOOS == "linux" {
			t.Fatalf("after: %s", body)
		}
		testkit.Receive(t, "the leave", left)
	}
}
