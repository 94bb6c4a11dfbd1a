package channel

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/proto"

	"dragoman/internal/testkit"
	"dragoman/proxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is the service of grpc-go's interoperability tests, with answers of the test.
type server struct {
	testgrpc.UnimplementedTestServiceServer
	unary  func(context.Context, *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error)
	stream func(*testgrpc.StreamingOutputCallRequest, grpc.ServerStreamingServer[testgrpc.StreamingOutputCallResponse]) error
	duplex func(grpc.BidiStreamingServer[testgrpc.StreamingOutputCallRequest, testgrpc.StreamingOutputCallResponse]) error
}

func (s *server) UnaryCall(ctx context.Context, r *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	return s.unary(ctx, r)
}

func (s *server) StreamingOutputCall(r *testgrpc.StreamingOutputCallRequest, to grpc.ServerStreamingServer[testgrpc.StreamingOutputCallResponse]) error {
	return s.stream(r, to)
}

func (s *server) FullDuplexCall(to grpc.BidiStreamingServer[testgrpc.StreamingOutputCallRequest, testgrpc.StreamingOutputCallResponse]) error {
	return s.duplex(to)
}

// says answers every unary call with a name.
func says(name string) *server {
	return &server{unary: func(context.Context, *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
		return &testgrpc.SimpleResponse{Username: name}, nil
	}}
}

// The methods of the service.
var (
	unary  = &Method{Name: testgrpc.TestService_UnaryCall_FullMethodName, Message: func() proto.Message { return new(testgrpc.SimpleResponse) }}
	stream = &Method{Name: testgrpc.TestService_StreamingOutputCall_FullMethodName, ServerStreams: true,
		Message: func() proto.Message { return new(testgrpc.StreamingOutputCallResponse) }, Last: func(proto.Message) bool { return false }}
	duplex = &Method{Name: testgrpc.TestService_FullDuplexCall_FullMethodName, ServerStreams: true, ClientStreams: true,
		Message: func() proto.Message { return new(testgrpc.StreamingOutputCallResponse) }, Last: func(proto.Message) bool { return false }}
)

// serve starts a gRPC server at an address; "" chooses one. stop ends it at once.
func serve(t *testing.T, address string, of *server, opt ...grpc.ServerOption) (at string, s *grpc.Server) {
	t.Helper()
	if address == "" {
		address = "127.0.0.1:0"
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s = grpc.NewServer(opt...)
	testgrpc.RegisterTestServiceServer(s, of)
	served := make(chan struct{})
	go func() { defer close(served); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-served })
	return l.Addr().String(), s
}

// open returns a Channel.
func open(t *testing.T, opt Options) *Channel {
	t.Helper()
	c, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// ask makes a unary call and returns the name in its answer, or its error.
func ask(c *Channel) (string, error) {
	s, err := c.Open(new(proxy.Exchange), unary, new(testgrpc.SimpleRequest), false)
	if err != nil {
		return "", err
	}
	defer s.Close()
	m, err := s.Next(time.Now().Add(20 * time.Second))
	if err != nil {
		return "", err
	}
	return m.(*testgrpc.SimpleResponse).GetUsername(), nil
}

// eventually asks until the answer is right.
func eventually(t *testing.T, c *Channel, want func(name string, err error) bool) {
	t.Helper()
	testkit.Until(t, "the answer", 20*time.Second, func() bool { return want(ask(c)) })
}

// row returns the name of an error's row.
func row(err error) string {
	if e, ok := errors.AsType[*proxy.Error](err); ok {
		return e.Name
	}
	return "no error of the table"
}
