package channel

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	"dragoman/internal/testkit"
	"dragoman/proxy"
)

// begin begins a call whose messages the test reads.
func begin(t *testing.T, c *Channel, of *Method) (*Stream, *proxy.Exchange) {
	t.Helper()
	ex := new(proxy.Exchange)
	s, err := c.Open(ex, of, new(testgrpc.StreamingOutputCallRequest), of.ClientStreams)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, ex
}

func next(s *Stream) (*testgrpc.StreamingOutputCallResponse, error) {
	m, err := s.Next(time.Now().Add(20 * time.Second))
	if err != nil {
		return nil, err
	}
	return m.(*testgrpc.StreamingOutputCallResponse), nil
}

// brokeOff stands in errors about the connection, and in none by the server.
const brokeOff = "the connection to the gRPC server broke"

// A call at a server that dies has begun, and is lost: it must not be repeated. One at a server that is away has not, and may be. The next call at
// a server that is back succeeds.
func TestServerDies(t *testing.T) {
	at, s := serve(t, "", &server{stream: func(_ *testgrpc.StreamingOutputCallRequest, to grpc.ServerStreamingServer[testgrpc.StreamingOutputCallResponse]) error {
		if err := to.Send(new(testgrpc.StreamingOutputCallResponse)); err != nil {
			return err
		}
		<-to.Context().Done()
		return to.Context().Err()
	}})
	c := open(t, Options{Target: "dns:///" + at})
	call, _ := begin(t, c, stream)
	if _, err := next(call); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	if _, err := next(call); row(err) != proxy.Lost.Name || !strings.Contains(err.Error(), brokeOff) {
		t.Errorf("in mid stream: %v", err)
	}
	if _, err := next(call); row(err) != proxy.Lost.Name {
		t.Errorf("asked again: %v", err)
	}
	if _, err := ask(c); row(err) != proxy.Unreachable.Name || !proxy.AsError(err).Retryable {
		t.Errorf("away: %v", err)
	}
	serve(t, at, says("back"))
	eventually(t, c, func(name string, _ error) bool { return name == "back" })
}

// A server that says goodbye lets its calls end, and gets no new ones.
func TestGoAway(t *testing.T) {
	release := make(chan struct{})
	of := says("one")
	of.stream = func(_ *testgrpc.StreamingOutputCallRequest, to grpc.ServerStreamingServer[testgrpc.StreamingOutputCallResponse]) error {
		if err := to.Send(new(testgrpc.StreamingOutputCallResponse)); err != nil {
			return err
		}
		<-release
		return to.Send(new(testgrpc.StreamingOutputCallResponse))
	}
	at, s := serve(t, "", of)
	c := open(t, Options{Target: "dns:///" + at})
	call, _ := begin(t, c, stream)
	if _, err := next(call); err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	go func() { defer close(stopped); s.GracefulStop() }()
	eventually(t, c, func(_ string, err error) bool { return err != nil })
	serve(t, at, says("two"))
	eventually(t, c, func(name string, _ error) bool { return name == "two" })
	close(release)
	for range 1 {
		if _, err := next(call); err != nil {
			t.Error(err)
		}
	}
	if _, err := next(call); err != io.EOF {
		t.Error(err)
	}
	<-stopped
}

// A message that is larger than allowed is an error that names the limit.
func TestTooLarge(t *testing.T) {
	of := says(strings.Repeat("x", 5000))
	at, _ := serve(t, "", of)
	if _, err := ask(open(t, Options{Target: "dns:///" + at, MaxMessage: 5000})); row(err) != proxy.ResponseTooLarge.Name || !strings.Contains(err.Error(), "limits.response_body") {
		t.Error(err)
	}
	if got, err := ask(open(t, Options{Target: "dns:///" + at, MaxMessage: 5010})); err != nil || len(got) != 5000 {
		t.Error(err)
	}
}

// A client that is slow slows down the server: no more than the windows of HTTP/2 waits between them, and nothing is lost.
func TestSlowConsumer(t *testing.T) {
	const messages, size = 400, 64 << 10
	var sent atomic.Int32
	at, _ := serve(t, "", &server{stream: func(_ *testgrpc.StreamingOutputCallRequest, to grpc.ServerStreamingServer[testgrpc.StreamingOutputCallResponse]) error {
		for range messages {
			if err := to.Send(&testgrpc.StreamingOutputCallResponse{Payload: &testgrpc.Payload{Body: make([]byte, size)}}); err != nil {
				return err
			}
			sent.Add(1)
		}
		return nil
	}})
	call, _ := begin(t, open(t, Options{Target: "dns:///" + at}), stream)
	if _, err := next(call); err != nil {
		t.Fatal(err)
	}
	last := int32(0)
	testkit.Until(t, "the server waits", 20*time.Second, func() bool { // it has stopped when it sends nothing between two looks
		was := last
		last = sent.Load()
		return was == last
	})
	if last > messages/4 {
		t.Errorf("%d of %d messages were sent while one was read", last, messages)
	}
	count := 1
	for {
		m, err := next(call)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(m.GetPayload().GetBody()) != size {
			t.Fatal("a message is not whole")
		}
		count++
	}
	if count != messages {
		t.Errorf("%d of %d messages", count, messages)
	}
}

// A server that reads nothing stalls what is sent to it, until the client leaves.
func TestStalledServer(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	at, _ := serve(t, "", &server{duplex: func(to grpc.BidiStreamingServer[testgrpc.StreamingOutputCallRequest, testgrpc.StreamingOutputCallResponse]) error {
		<-to.Context().Done()
		return to.Context().Err()
	}})
	call, ex := begin(t, open(t, Options{Target: "dns:///" + at}), duplex)
	stalled := make(chan struct{})
	var sent atomic.Int32
	go func() {
		defer close(stalled)
		for ex.Err() == nil {
			if call.Send(&testgrpc.StreamingOutputCallRequest{Payload: &testgrpc.Payload{Body: make([]byte, 64<<10)}}) != nil {
				return
			}
			sent.Add(1)
		}
	}()
	last := int32(-1)
	testkit.Until(t, "the call stalls", 20*time.Second, func() bool {
		was := last
		last = sent.Load()
		return last > 0 && was == last
	})
	ex.Cancel(proxy.ErrCancelled)
	testkit.Receive(t, "the end of what was sent", stalled)
	if _, err := next(call); err != proxy.ErrCancelled {
		t.Error(err)
	}
}

// gate passes connections on until it is shut, and then takes what comes without passing it on: the connections are half open.
type gate struct {
	shut atomic.Bool
	l    net.Listener
	wg   sync.WaitGroup
	mu   sync.Mutex
	open []net.Conn
}

func newGate(t *testing.T, to string) *gate {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{l: l}
	g.wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			g.mu.Lock()
			g.open = append(g.open, in, out)
			g.mu.Unlock()
			g.wg.Go(func() { g.pass(in, out) })
			g.wg.Go(func() { g.pass(out, in) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		g.mu.Lock()
		for _, c := range g.open {
			_ = c.Close()
		}
		g.mu.Unlock()
		g.wg.Wait()
	})
	return g
}

func (g *gate) pass(from, to net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if !g.shut.Load() {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
	}
}

// A connection that is half open is noticed by the keepalive, within its time and its timeout, and the call on it is lost.
func TestHalfOpen(t *testing.T) {
	t.Parallel()
	at, _ := serve(t, "", &server{stream: func(_ *testgrpc.StreamingOutputCallRequest, to grpc.ServerStreamingServer[testgrpc.StreamingOutputCallResponse]) error {
		if err := to.Send(new(testgrpc.StreamingOutputCallResponse)); err != nil {
			return err
		}
		<-to.Context().Done()
		return to.Context().Err()
	}})
	g := newGate(t, at)
	call, _ := begin(t, open(t, Options{Target: "dns:///" + g.l.Addr().String(), KeepaliveTime: 10 * time.Second, KeepaliveTimeout: time.Second}), stream)
	if _, err := next(call); err != nil {
		t.Fatal(err)
	}
	g.shut.Store(true)
	if _, err := call.Next(time.Now().Add(time.Minute)); row(err) != proxy.Lost.Name || !strings.Contains(err.Error(), brokeOff) || !strings.Contains(err.Error(), "keepalive") {
		t.Error(err)
	}
}

// A call does not wait for longer than connecting may take where connections are made and break at once.
func TestConnectionsThatBreak(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.ReadFull(conn, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")))
			_, _ = conn.Write([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0}) // SETTINGS
			_ = conn.Close()
		}
	})
	t.Cleanup(func() { _ = l.Close(); group.Wait() })
	const most = 300 * time.Millisecond
	c := open(t, Options{Target: "dns:///" + l.Addr().String(), ConnectTimeout: most})
	for range 5 {
		began := time.Now()
		if _, err := ask(c); row(err) != proxy.Unreachable.Name && row(err) != proxy.Lost.Name {
			t.Errorf("%v", err)
		}
		if took := time.Since(began); took > 10*most {
			t.Errorf("a call took %s", took)
		}
	}
}

// Every address of a name is used; one whose server does not serve is left out; and the addresses may change.
func TestAddresses(t *testing.T) {
	one, two := health.NewServer(), health.NewServer()
	at, first := serveHealth(t, "127.0.0.1:0", "one", one)
	port := at[strings.LastIndexByte(at, ':'):]
	_, second := serveHealth(t, "127.0.0.2"+port, "two", two)
	var addresses atomic.Value
	addresses.Store([]string{"127.0.0.1", "127.0.0.2"})
	c := open(t, Options{Target: "dns://" + nameServer(t, &addresses) + "/provider.test" + port})
	met := map[string]bool{}
	eventually(t, c, func(name string, err error) bool {
		if err != nil {
			t.Fatal(err)
		}
		met[name] = true
		return met["one"] && met["two"]
	})
	two.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
	row := 0
	eventually(t, c, func(name string, err error) bool { // ten in a row: the other is left out
		if err != nil {
			t.Fatal(err)
		}
		if row++; name != "one" {
			row = 0
		}
		return row == 10
	})
	serveHealth(t, "127.0.0.3"+port, "three", health.NewServer())
	addresses.Store([]string{"127.0.0.3"})
	first.Stop()
	second.Stop()
	eventually(t, c, func(name string, _ error) bool { return name == "three" })
}

// serveHealth starts a server with a health service.
func serveHealth(t *testing.T, address, name string, of *health.Server) (string, *grpc.Server) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	testgrpc.RegisterTestServiceServer(s, says(name))
	healthpb.RegisterHealthServer(s, of)
	served := make(chan struct{})
	go func() { defer close(served); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-served })
	return l.Addr().String(), s
}
