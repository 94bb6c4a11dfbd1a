package socket

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"dragoman/adapters/transport"
	"dragoman/internal/testkit"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// testServer is a server behind a socket: each connection it accepts goes to the test.
type testServer struct {
	t     *testing.T
	ln    net.Listener
	conns chan net.Conn
}

// listen opens a socket of either kind; it is closed with the test.
func listen(t *testing.T, network string) *testServer {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "s")
	}
	ln, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	p := &testServer{t: t, ln: ln, conns: make(chan net.Conn, 8)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			p.conns <- conn
		}
	}()
	t.Cleanup(func() { _ = ln.Close(); <-done })
	return p
}

func (p *testServer) options() Options {
	return Options{Name: "a", Network: p.ln.Addr().Network(), Address: p.ln.Addr().String()}
}

// peer is the server's side of one connection.
type peer struct {
	id   string // of the request read last
	t    *testing.T
	conn net.Conn
	r    *bufio.Reader
}

func (p *testServer) accept() *peer {
	p.t.Helper()
	select {
	case conn := <-p.conns:
		p.t.Cleanup(func() { _ = conn.Close() })
		return &peer{t: p.t, conn: conn, r: bufio.NewReader(conn)}
	case <-time.After(testkit.Patient):
		p.t.Fatal("no connection")
	}
	return nil
}

func (p *peer) line() string {
	p.t.Helper()
	_ = p.conn.SetReadDeadline(time.Now().Add(testkit.Patient))
	line, err := p.r.ReadString('\n')
	if err != nil {
		p.t.Fatalf("the server reads: %v", err)
	}
	line = strings.TrimSuffix(line, "\n")
	if m, err := wire.Scan([]byte(line)); err == nil && m.Kind == wire.Request {
		p.id = string(m.Of(m.ID))
	}
	return line
}

func (p *peer) send(lines ...string) {
	p.t.Helper()
	for _, line := range lines {
		if _, err := io.WriteString(p.conn, strings.ReplaceAll(line, "$ID", p.id)+"\n"); err != nil {
			p.t.Fatalf("the server writes: %v", err)
		}
	}
}

// recordingSink is a sink that records.
type recordingSink struct {
	messages chan string
	lost     chan error
}

func newRecordingSink() *recordingSink {
	return &recordingSink{messages: make(chan string, 100), lost: make(chan error, 2)}
}

func (e *recordingSink) Message(m *wire.Message) bool {
	e.messages <- string(m.Append(nil))
	return true
}
func (e *recordingSink) Lost(err error) { e.lost <- err }

// newSocket makes a dialer and checks that no connection is open at the test's end.
func newSocket(t *testing.T, opt Options) *Dialer {
	s := NewDialer(opt)
	t.Cleanup(func() {
		if n := s.open.Load(); n != 0 {
			t.Errorf("%d connections are open", n)
		}
	})
	return s
}

// dialSocket opens a link that is closed with the test.
func dialSocket(t *testing.T, s *Dialer, sink transport.Sink) transport.Link {
	t.Helper()
	link, err := s.Dial(proxy.Legacy)(t.Context(), sink)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = link.Close() })
	return link
}

func request(t *testing.T, raw string) *proxy.Exchange {
	t.Helper()
	m, err := wire.Scan([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return &proxy.Exchange{Msg: m, Client: proxy.Client{Era: proxy.Modern}}
}

const called1 = `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"a"}}`

// A call and its answer pass over both kinds of sockets, and lines that are no messages are skipped.
func TestSocketCall(t *testing.T) {
	for _, network := range []string{"unix", "tcp"} {
		t.Run(network, func(t *testing.T) {
			p := listen(t, network)
			noise := make(chan string, 10)
			opt := p.options()
			opt.Noise = func(line []byte, err error, _ int) { noise <- fmt.Sprintf("%s|%v", line, err != nil) }
			sink := newRecordingSink()
			s := newSocket(t, opt)
			link := dialSocket(t, s, sink)
			srv := p.accept()
			replies, err := link.Call(request(t, called1))
			if err != nil {
				t.Fatal(err)
			}
			if got, want := srv.line(), `{"jsonrpc":"2.0","id":`+srv.id+`,"method":"tools/call","params":{"name":"a"}}`; got != want || srv.id == "" {
				t.Errorf("the server got %s, want %s", got, want)
			}
			srv.send("hello", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`+"\r", `{"jsonrpc":"2.0","id":$ID,"result":{}}`)
			m, err := proxy.Response(replies, time.Now().Add(testkit.Patient))
			if err != nil || string(m.Append(nil)) != `{"jsonrpc":"2.0","id":"x","result":{}}` {
				t.Errorf("%s %v", m.Append(nil), err)
			}
			if got := testkit.Receive(t, "the notice", sink.messages); !strings.Contains(got, "list_changed") {
				t.Errorf("the sink got %s", got)
			}
			if got := testkit.Receive(t, "the noise", noise); got != "hello|true" {
				t.Errorf("noise: %s", got)
			}
			if err := link.Send(t.Context(), []byte(`{"jsonrpc":"2.0","method":"n"}`)); err != nil {
				t.Error(err)
			}
			if got := srv.line(); got != `{"jsonrpc":"2.0","method":"n"}` {
				t.Errorf("the server got %s", got)
			}
			if s.open.Load() != 1 {
				t.Errorf("%d connections", s.open.Load())
			}
		})
	}
}

// Two links are two connections, and none uses an id of the other.
func TestSocketLinksAreApart(t *testing.T) {
	p := listen(t, "unix")
	s := newSocket(t, p.options())
	ids := map[string]bool{}
	for i := range 2 {
		link := dialSocket(t, s, newRecordingSink())
		srv := p.accept()
		replies, err := link.Call(request(t, called1))
		if err != nil {
			t.Fatal(err)
		}
		srv.line()
		if ids[srv.id] {
			t.Errorf("link %d: id %s once more", i, srv.id)
		}
		ids[srv.id] = true
		srv.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":$ID,"result":{"n":%d}}`, i))
		if m, err := proxy.Response(replies, time.Now().Add(testkit.Patient)); err != nil || !strings.Contains(string(m.Append(nil)), fmt.Sprintf(`"n":%d`, i)) {
			t.Errorf("link %d: %s %v", i, m.Append(nil), err)
		}
	}
}

// When a server closes the connection, calls in flight fail at once with an error that names it, and later calls count as not sent.
func TestSocketServerGoes(t *testing.T) {
	for name, end := range map[string]func(net.Conn){
		"closes": func(c net.Conn) { _ = c.Close() },
		"closes its side alone": func(c net.Conn) {
			_ = c.(interface{ CloseWrite() error }).CloseWrite()
		},
		"breaks off": func(c net.Conn) {
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		},
		"ends within a line": func(c net.Conn) {
			_, _ = io.WriteString(c, `{"jsonrpc":"2.0","id":1,"res`)
			_ = c.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := listen(t, "tcp")
			sink := newRecordingSink()
			s := newSocket(t, p.options())
			link := dialSocket(t, s, sink)
			srv := p.accept()
			replies, err := link.Call(request(t, called1))
			if err != nil {
				t.Fatal(err)
			}
			srv.line()
			began := time.Now()
			end(srv.conn)
			_, err = proxy.Response(replies, time.Now().Add(testkit.Patient))
			var fault *proxy.Error
			if !errors.As(err, &fault) || fault.Name != proxy.Lost.Name || !strings.Contains(fault.Message, p.ln.Addr().String()) || !strings.Contains(fault.Message, `"a"`) {
				t.Errorf("the call ends with %v", err)
			}
			if d := time.Since(began); d > testkit.Patient/4 {
				t.Errorf("after %s", d)
			}
			if err := testkit.Receive(t, "Lost", sink.lost); !errors.As(err, &fault) {
				t.Errorf("Lost says %v", err)
			}
			_, err = link.Call(request(t, called1))
			if !errors.As(err, &fault) || fault.Name != proxy.SessionLost.Name {
				t.Errorf("a later call: %v", err)
			}
			if err := link.Send(t.Context(), []byte("{}")); !errors.As(err, &fault) || fault.Name != proxy.SessionLost.Name {
				t.Errorf("a later notification: %v", err)
			}
			if err := link.Close(); err != nil || s.open.Load() != 0 {
				t.Errorf("%v, %d connections", err, s.open.Load())
			}
			if len(sink.lost) > 0 {
				t.Error("Lost is called twice")
			}
		})
	}
}

// Between the end of the output and that of the link a call is refused by the writer alone. It was not sent, so another connection may get
// it, with its own id.
func TestSocketCallAfterTheEnd(t *testing.T) {
	p := listen(t, "tcp")
	c, ok := dialSocket(t, newSocket(t, p.options()), newRecordingSink()).(*connection)
	if !ok {
		t.Fatal("not a connection")
	}
	p.accept()
	c.out.Fail(proxy.Errf(proxy.Lost, "closed by the server"))
	ex := request(t, called1)
	_, err := c.Call(ex)
	if e := proxy.AsError(err); e.Name != proxy.SessionLost.Name || e.Message != "closed by the server" {
		t.Errorf("%s: %v", e.Name, e)
	}
	if got := string(ex.Msg.AppendLine(nil)); strings.TrimSpace(got) != called1 {
		t.Errorf("the call is %s now", got)
	}
}

// Close half-closes the connection, and does not wait for a server that keeps its side open.
func TestSocketClose(t *testing.T) {
	for _, network := range []string{"unix", "tcp"} {
		for _, polite := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s-%v", network, polite), func(t *testing.T) {
				p := listen(t, network)
				sink := newRecordingSink()
				s := newSocket(t, p.options())
				link := dialSocket(t, s, sink)
				srv := p.accept()
				replies, err := link.Call(request(t, called1))
				if err != nil {
					t.Fatal(err)
				}
				srv.line()
				if err := link.Send(t.Context(), []byte(`{"jsonrpc":"2.0","method":"last"}`)); err != nil {
					t.Fatal(err)
				}
				rest := make(chan string, 1)
				go func() {
					all, _ := io.ReadAll(srv.r)
					rest <- string(all)
					if polite {
						_ = srv.conn.Close()
					}
				}()
				began := time.Now()
				var group sync.WaitGroup
				for range 3 {
					group.Go(func() { _ = link.Close() })
				}
				group.Wait()
				if d := time.Since(began); polite == (d >= linger) || d > testkit.Patient/2 {
					t.Errorf("closing takes %s", d)
				}
				if got := testkit.Receive(t, "the end of our side", rest); got != `{"jsonrpc":"2.0","method":"last"}`+"\n" {
					t.Errorf("the server got %q", got)
				}
				var fault *proxy.Error
				if _, err := proxy.Response(replies, time.Now().Add(testkit.Patient)); !errors.As(err, &fault) || fault.Name != proxy.Lost.Name {
					t.Errorf("the call in flight: %v", err)
				}
				if s.open.Load() != 0 || len(sink.lost) > 0 {
					t.Errorf("%d connections, Lost %d times", s.open.Load(), len(sink.lost))
				}
			})
		}
	}
}

// A server that does not read blocks a writer only until its deadline, and does not block Close.
func TestSocketServerDoesNotRead(t *testing.T) {
	p := listen(t, "unix")
	s := newSocket(t, p.options())
	link := dialSocket(t, s, newRecordingSink())
	p.accept()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	line := append(append([]byte(`{"jsonrpc":"2.0","method":"n","params":{"x":"`), bytes.Repeat([]byte("x"), 1<<20)...), `"}}`...)
	var err error
	for range 100 {
		if err = link.Send(ctx, line); err != nil {
			break
		}
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a server that does not read: %v", err)
	}
	began := time.Now()
	_ = link.Close()
	if d := time.Since(began); d > testkit.Patient/2 {
		t.Errorf("closing takes %s", d)
	}
}

// A server that gives no sign of life after three silent calls is given up, and with it the calls under way.
func TestSocketServerIsSilent(t *testing.T) {
	p := listen(t, "unix")
	opt := p.options()
	opt.AliveTimeout = 50 * time.Millisecond
	sink := newRecordingSink()
	link := dialSocket(t, newSocket(t, opt), sink)
	p.accept()
	for range silentCalls {
		replies, err := link.Call(request(t, called1))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond) // the silence
		_ = replies.Close()
	}
	replies, err := link.Call(request(t, called1))
	if err != nil {
		t.Fatal(err)
	}
	defer replies.Close()
	_, err = replies.Next(time.Now().Add(testkit.Patient))
	if e, ok := errors.AsType[*proxy.Error](err); !ok || e.Name != proxy.Lost.Name || !strings.Contains(e.Message, "silent in 3 calls in a row, and gave no sign of life within 50ms") {
		t.Errorf("%v", err)
	}
	if lost := testkit.Receive(t, "the loss", sink.lost); lost.Error() != err.Error() {
		t.Errorf("%v", lost)
	}
}

// silentCalls is the number of silent calls after which a server is asked for a sign of life.
const silentCalls = 3

// Lines beyond the limit fail the call they belong to, and the connection goes on.
func TestSocketLongLines(t *testing.T) {
	p := listen(t, "tcp")
	opt := p.options()
	opt.MaxLine = 1000
	link := dialSocket(t, newSocket(t, opt), newRecordingSink())
	srv := p.accept()
	var fault *proxy.Error
	if _, err := link.Call(request(t, `{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":"`+strings.Repeat("x", 1000)+`"}}`)); !errors.As(err, &fault) || fault.Name != proxy.RequestTooLarge.Name {
		t.Errorf("a long request: %v", err)
	}
	replies, err := link.Call(request(t, called1))
	if err != nil {
		t.Fatal(err)
	}
	srv.line()
	srv.send(`{"jsonrpc":"2.0","id":$ID,"result":{"x":"` + strings.Repeat("x", 5000) + `"}}`)
	if _, err := proxy.Response(replies, time.Now().Add(testkit.Patient)); !errors.As(err, &fault) || fault.Name != proxy.ResponseTooLarge.Name || !strings.Contains(fault.Message, "limits.line, 1000") {
		t.Errorf("a long answer: %v", err)
	}
	replies, err = link.Call(request(t, called1))
	if err != nil {
		t.Fatal(err)
	}
	srv.line()
	srv.send(`{"jsonrpc":"2.0","id":$ID,"result":{}}`)
	if _, err := proxy.Response(replies, time.Now().Add(testkit.Patient)); err != nil {
		t.Errorf("after a long answer: %v", err)
	}
}

// Megabytes pass completely in both directions at once.
func TestSocketLargeLines(t *testing.T) {
	for _, network := range []string{"unix", "tcp"} {
		t.Run(network, func(t *testing.T) {
			p := listen(t, network)
			link := dialSocket(t, newSocket(t, p.options()), newRecordingSink())
			srv := p.accept()
			go func() { // echoes each call's params as its result; ends with the connection
				for {
					line, err := srv.r.ReadBytes('\n')
					if err != nil {
						return
					}
					m, err := wire.Scan(line)
					if err != nil {
						return
					}
					if _, err := fmt.Fprintf(srv.conn, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.Of(m.ID), m.Of(m.Params)); err != nil {
						return
					}
				}
			}()
			var group sync.WaitGroup
			for i := range 8 {
				group.Go(func() {
					for j := range 4 {
						text := strings.Repeat(string(rune('a'+i)), 1<<uint(8+3*j))
						replies, err := link.Call(request(t, `{"jsonrpc":"2.0","id":"`+text[:3]+`","method":"a","params":{"x":"`+text+`"}}`))
						if err != nil {
							t.Error(err)
							return
						}
						m, err := proxy.Response(replies, time.Now().Add(testkit.Patient))
						if err != nil || string(m.Of(m.Result)) != `{"x":"`+text+`"}` {
							t.Errorf("%d: %d bytes, %v", i, len(m.Of(m.Result)), err)
						}
					}
				})
			}
			group.Wait()
		})
	}
}

// The error for an address without a server names it and the fix.
func TestSocketUnreachable(t *testing.T) {
	dir := t.TempDir()
	ln, err := net.Listen("unix", filepath.Join(dir, "left"))
	if err != nil {
		t.Fatal(err)
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = ln.Close()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = tcp.Close()
	f := func(network, address, want string) {
		t.Helper()
		link, err := NewDialer(Options{Name: "a", Network: network, Address: address}).Dial(proxy.Modern)(t.Context(), newRecordingSink())
		var fault *proxy.Error
		if link != nil || !errors.As(err, &fault) || fault.Name != proxy.Unreachable.Name || errors.Is(err, transport.ErrFatal) ||
			fault.Message != `the upstream server "a" cannot be reached at `+want {
			t.Errorf("%s %s: %v", network, address, err)
		}
	}
	f("unix", filepath.Join(dir, "none"), "unix:"+filepath.Join(dir, "none")+": there is no such socket; start the server, or correct the url")
	f("unix", filepath.Join(dir, "left"), "unix:"+filepath.Join(dir, "left")+": nobody listens there; start the server, or correct the url")
	f("tcp", tcp.Addr().String(), "tcp://"+tcp.Addr().String()+": nobody listens there; start the server, or correct the url")
	if os.Geteuid() != 0 {
		if err := os.Chmod(dir, 0); err == nil {
			f("unix", filepath.Join(dir, "left"), "unix:"+filepath.Join(dir, "left")+": the socket may not be opened; give this user the right to write to it")
			_ = os.Chmod(dir, 0o700)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := NewDialer(Options{Network: "unix", Address: filepath.Join(dir, "none")}).Dial(proxy.Modern)(ctx, newRecordingSink()); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled dial: %v", err)
	}
}

// A connection without half-close and raw reads works too.
func TestSocketPlainConn(t *testing.T) {
	ours, theirs := net.Pipe()
	srv := &peer{t: t, conn: theirs, r: bufio.NewReader(theirs)}
	s := NewDialer(Options{Network: "tcp", Address: "nowhere"})
	link := s.attach(ours, proxy.Modern, newRecordingSink())
	replies, err := link.Call(request(t, called1))
	if err != nil {
		t.Fatal(err)
	}
	srv.line()
	srv.send(`{"jsonrpc":"2.0","id":$ID,"result":{}}`)
	if _, err := proxy.Response(replies, time.Now().Add(testkit.Patient)); err != nil {
		t.Error(err)
	}
	_ = link.Close()
	_ = theirs.Close()
	if s.open.Load() != 0 {
		t.Errorf("%d connections", s.open.Load())
	}
}
