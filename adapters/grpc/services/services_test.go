package services

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"

	"dragoman/adapters/grpc/channel"
	"dragoman/internal/testkit"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testing service of grpc-go's interoperability tests, with answers of the test.
type interop struct {
	testgrpc.UnimplementedTestServiceServer
	unary  func(context.Context, *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error)
	stream func(*testgrpc.StreamingOutputCallRequest, grpc.ServerStreamingServer[testgrpc.StreamingOutputCallResponse]) error
}

func (s *interop) UnaryCall(ctx context.Context, r *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	return s.unary(ctx, r)
}

func (s *interop) StreamingOutputCall(r *testgrpc.StreamingOutputCallRequest, to grpc.ServerStreamingServer[testgrpc.StreamingOutputCallResponse]) error {
	return s.stream(r, to)
}

// rig is a gRPC server with the Upstream in front of it.
type rig struct {
	t      *testing.T
	u      *Upstream
	health *health.Server

	mu    sync.Mutex
	notes []string
}

// newRig starts a server with the test service and, unless without is set, the services for health and reflection.
func newRig(t *testing.T, of *interop, without bool, opt Options) *rig {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, health: health.NewServer()}
	s := grpc.NewServer()
	testgrpc.RegisterTestServiceServer(s, of)
	if !without {
		healthpb.RegisterHealthServer(s, r.health)
		reflection.Register(s)
	}
	served := make(chan struct{})
	go func() { defer close(served); _ = s.Serve(l) }()
	c, err := channel.New(channel.Options{Target: "passthrough:///" + l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
		s.Stop()
		<-served
	})
	opt.Name, opt.MaxResult = "s", 1<<10
	opt.Note = func(level, msg string, err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.notes = append(r.notes, fmt.Sprint(level, ": ", msg, ": ", err))
	}
	if r.u, err = New(c, opt); err != nil {
		t.Fatal(err)
	}
	return r
}

// all returns the replies to a request, or the row of its error in brackets.
func (r *rig) all(method, params string) (out []string) {
	r.t.Helper()
	m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{` + params + `"_meta":{"progressToken":"p"}}}`))
	if err != nil {
		r.t.Fatal(err)
	}
	replies, err := r.u.Call(&proxy.Exchange{Msg: m, Client: proxy.Client{Era: proxy.Modern}})
	if err != nil {
		return []string{failed(err)}
	}
	defer func() { _ = replies.Close() }()
	for {
		m, err := replies.Next(time.Now().Add(10 * time.Second))
		if err != nil {
			return append(out, failed(err))
		}
		if out = append(out, string(m.Append(nil))); m.IsResponse() {
			if m, err := replies.Next(time.Now().Add(10 * time.Second)); m != nil || err != io.EOF {
				r.t.Errorf("after the response: %v, %v", m, err)
			}
			return out
		}
	}
}

func failed(err error) string {
	if e, ok := errors.AsType[*proxy.Error](err); ok {
		return "[" + e.Name + "] " + e.Message
	}
	return "[" + err.Error() + "]"
}

// ask returns the last reply.
func (r *rig) ask(method, params string) string {
	all := r.all(method, params)
	return strings.TrimSuffix(strings.TrimPrefix(all[len(all)-1], `{"jsonrpc":"2.0","id":1,"result":`), "}")
}

func (r *rig) noted() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.notes, "\n")
}

// named returns the names in a list of tools.
func named(list string) string {
	var names []string
	raw := []byte(list)
	for _, t := range wire.Items(raw, wire.Get(raw, wire.Whole(raw), "tools")) {
		names = append(names, string(wire.Get(raw, t, "name").Text(raw)))
	}
	return strings.Join(names, " ")
}

const info = `"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"0.0.0"}}}`

// A server's methods are found by reflection; patterns choose among them, and those that cannot be tools are left out with a reason.
func TestReflection(t *testing.T) {
	for _, c := range []struct {
		methods []string
		want    string
	}{
		{[]string{"grpc.testing.TestService/*"}, "TestService.CacheableUnaryCall TestService.EmptyCall TestService.StreamingOutputCall TestService.UnaryCall TestService.UnimplementedCall"},
		{[]string{"grpc.testing.TestService"}, "TestService.CacheableUnaryCall TestService.EmptyCall TestService.StreamingOutputCall TestService.UnaryCall TestService.UnimplementedCall"},
		{[]string{"grpc.testing.TestService/Empty*", "grpc.health.*/Check"}, "Health.Check TestService.EmptyCall"},
		{[]string{"*/Unary*"}, "TestService.UnaryCall"},
		// The file of TestService has five services that this server does not offer.
		{[]string{"*.TestService/EmptyCall", "*.HookService/*", "*.UnimplementedService/*"}, "TestService.EmptyCall"},
	} {
		r := newRig(t, &interop{}, false, Options{Methods: c.methods})
		list := r.ask("tools/list", "")
		if got := named(list); got != c.want || !strings.HasSuffix(list, `"ttlMs":0,"cacheScope":"private",`+info) {
			t.Errorf("%v: %s, want %s", c.methods, got, c.want)
		}
		if left := strings.Count(r.noted(), "takes a stream of messages"); (left > 0) != strings.Contains(c.methods[0], "TestService") || left > 0 && strings.Contains(c.methods[0], "Empty") {
			if !strings.Contains(c.methods[0], "Empty") {
				t.Errorf("%v: %s", c.methods, r.noted())
			}
		}
		before := r.noted()
		r.u.tools.at = time.Time{} // read again
		if r.ask("tools/list", ""); r.noted() != before {
			t.Errorf("the log repeats itself: %s", r.noted())
		}
	}
	r := newRig(t, &interop{}, false, Options{Methods: []string{"no.Such/*"}})
	if got := r.ask("tools/list", ""); got != "[upstream_bad_answer] grpc.methods chooses no method of the server; it has the services grpc.health.v1.Health, grpc.reflection.v1.ServerReflection, grpc.reflection.v1alpha.ServerReflection, grpc.testing.TestService" {
		t.Error(got)
	}
	r = newRig(t, &interop{}, true, Options{Methods: []string{"*"}})
	if got := r.ask("tools/list", ""); got != "[method_not_found] the gRPC server has no reflection, by which its methods would be found; fix: set upstreams.NAME.grpc.descriptors" {
		t.Error(got)
	}
}

// setOf returns the descriptors of the test service.
func setOf() *descriptorpb.FileDescriptorSet {
	set := new(descriptorpb.FileDescriptorSet)
	f := testgrpc.File_grpc_testing_test_proto
	for i := range f.Imports().Len() {
		set.File = append(set.File, protodesc.ToFileDescriptorProto(f.Imports().Get(i).FileDescriptor))
	}
	set.File = append(set.File, protodesc.ToFileDescriptorProto(f))
	return set
}

// With descriptors of a file nothing is asked for; what they lack is an error of the configuration.
func TestDescriptorSet(t *testing.T) {
	r := newRig(t, &interop{}, true, Options{Methods: []string{"*/EmptyCall"}, Set: setOf()})
	if got := named(r.ask("tools/list", "")); got != "TestService.EmptyCall" {
		t.Error(got)
	}
	if _, err := New(r.u.c, Options{Methods: []string{"no.Such"}, Set: setOf()}); err == nil || err.Error() != "grpc.methods chooses no method of the server; it has the services grpc.testing.LoadBalancerStatsService, grpc.testing.ReconnectService, grpc.testing.TestService, grpc.testing.UnimplementedService, grpc.testing.HookService, grpc.testing.XdsUpdateClientConfigureService, grpc.testing.XdsUpdateHealthService" && !strings.Contains(err.Error(), "grpc.testing.TestService") {
		t.Error(err)
	}
	broken := setOf()
	broken.File = broken.GetFile()[len(broken.GetFile())-1:]
	if _, err := New(r.u.c, Options{Methods: []string{"*"}, Set: broken}); err == nil {
		t.Error("descriptors without their imports are taken")
	}
}

// server/discover asks for the health of the server, if it says something of it.
func TestDiscover(t *testing.T) {
	const want = `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private",` + info
	r := newRig(t, &interop{}, false, Options{Methods: []string{"*"}})
	if got := r.ask("server/discover", ""); got != want {
		t.Error(got)
	}
	r.health.Shutdown()
	// The client's own watch of the health may know it first.
	if got := r.ask("server/discover", ""); got != "[upstream_overloaded] the gRPC server says that it does not serve (grpc.health.v1)" && !strings.HasPrefix(got, "[upstream_unreachable] the gRPC server cannot be reached: ") {
		t.Error(got)
	}
	r = newRig(t, &interop{}, true, Options{Methods: []string{"*"}})
	if got := r.ask("server/discover", ""); got != want {
		t.Error(got)
	}
	if got := r.ask("prompts/list", ""); got != "[method_not_found] method prompts/list is not offered: the server is a gRPC service, whose methods are tools" {
		t.Error(got)
	}
}

// A unary method is called with its arguments as a message; refusals of the service are results that a model may correct.
func TestUnary(t *testing.T) {
	var answer error
	var size int32
	r := newRig(t, &interop{unary: func(_ context.Context, q *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
		size = q.GetResponseSize()
		return &testgrpc.SimpleResponse{Username: "u\n", Payload: &testgrpc.Payload{Body: []byte{0, 1}}}, answer
	}}, false, Options{Methods: []string{"grpc.testing.TestService"}})
	const call = `"name":"TestService.UnaryCall","arguments":{"responseSize":7},`
	const json = `{"payload":{"type":"COMPRESSABLE","body":"AAE="},"username":"u\n","oauthScope":"","serverId":"","grpclbRouteType":"GRPCLB_ROUTE_TYPE_UNKNOWN","hostname":""}`
	if got := r.ask("tools/call", call); size != 7 || got != `{"content":[{"type":"text","text":`+string(wire.AppendText(nil, json))+`}],"structuredContent":`+json+`,`+info {
		t.Errorf("%d %s", size, got)
	}
	detailed, _ := status.New(codes.FailedPrecondition, "not yet").WithDetails(&errdetails.ErrorInfo{Reason: "R", Domain: "d"})
	for _, c := range []struct {
		err  error
		want string
	}{
		{status.Error(codes.NotFound, "no such user"), `{"content":[{"type":"text","text":"NOT_FOUND: no such user"}],"isError":true,` + info},
		{detailed.Err(), `{"content":[{"type":"text","text":"FAILED_PRECONDITION: not yet\n[{\"@type\":\"google.rpc.ErrorInfo\",\"reason\":\"R\",\"domain\":\"d\"}]"}],"isError":true,` + info},
		{status.Error(codes.Internal, "x"), "[upstream_internal_error] the gRPC server answered INTERNAL: x"},
		{status.Error(codes.Unauthenticated, ""), "[upstream_refused_credentials] the gRPC server answered UNAUTHENTICATED; set the credentials in upstreams.NAME.headers, or pass the client's on with forward_headers"},
	} {
		answer = c.err
		if got := r.ask("tools/call", call); got != c.want {
			t.Errorf("%v: %s, want %s", c.err, got, c.want)
		}
	}
	for arguments, want := range map[string]string{
		`"arguments":{"responseSize":"x"},`: "the arguments do not match the input schema of the tool: /responseSize: ",
		`"arguments":{"nope":1},`:           "the arguments do not match the input schema of the tool: ",
		`"arguments":7,`:                    "the arguments do not match the input schema of the tool: ",
	} {
		if got := r.ask("tools/call", `"name":"TestService.UnaryCall",`+arguments); !strings.Contains(got, want) || !strings.Contains(got, `"isError":true`) {
			t.Errorf("%s: %s", arguments, got)
		}
	}
	if got := r.ask("tools/call", `"name":"TestService.Nope",`); got != `[tool_not_found] the gRPC service has no tool "TestService.Nope"` {
		t.Error(got)
	}
	if got := r.ask("tools/call", `"name":"TestService.EmptyCall","arguments":null,`); got != "[method_not_found] the gRPC server answered UNIMPLEMENTED: method EmptyCall not implemented" {
		t.Error(got)
	}
}

// The messages of a stream are progress, and a list at its end; the list is bounded.
func TestStream(t *testing.T) {
	count := 2
	var end error
	r := newRig(t, &interop{stream: func(q *testgrpc.StreamingOutputCallRequest, to grpc.ServerStreamingServer[testgrpc.StreamingOutputCallResponse]) error {
		for i := range count {
			if err := to.Send(&testgrpc.StreamingOutputCallResponse{Payload: &testgrpc.Payload{Body: make([]byte, i)}}); err != nil {
				return err
			}
		}
		return end
	}}, false, Options{Methods: []string{"*/StreamingOutputCall"}})
	const call = `"name":"TestService.StreamingOutputCall",`
	const one, two = `{"payload":{"type":"COMPRESSABLE","body":""},"peerSocketAddress":""}`, `{"payload":{"type":"COMPRESSABLE","body":"AA=="},"peerSocketAddress":""}`
	quoted := func(s string) string { return string(wire.AppendText(nil, s)) }
	want := []string{
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1,"message":` + quoted(one) + `}}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":2,"message":` + quoted(two) + `}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":` + quoted(`{"messages":[`+one+`,`+two+`]}`) + `}],"structuredContent":{"messages":[` + one + `,` + two + `]},` + info + `}`}
	if got := r.all("tools/call", call); !slices.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if count, end = 0, nil; !strings.Contains(r.ask("tools/call", call), `"structuredContent":{"messages":[]}`) {
		t.Error("a stream without messages")
	}
	if count, end = 1, status.Error(codes.Aborted, "a"); !strings.Contains(r.ask("tools/call", call), `"text":"ABORTED: a"`) {
		t.Error("a stream that fails")
	}
	if count, end = 100, nil; !strings.HasPrefix(r.ask("tools/call", call), "[response_too_large] ") {
		t.Error("a stream without bound")
	}
}

// MaxResult and a message of progress are 1 KiB here: what just fits is there, and of a byte more nothing.
func TestStreamBounds(t *testing.T) {
	size := 0
	r := newRig(t, &interop{stream: func(_ *testgrpc.StreamingOutputCallRequest, to grpc.ServerStreamingServer[testgrpc.StreamingOutputCallResponse]) error {
		return to.Send(&testgrpc.StreamingOutputCallResponse{PeerSocketAddress: strings.Repeat("x", size)})
	}}, false, Options{Methods: []string{"*/StreamingOutputCall"}})
	const call, around = `"name":"TestService.StreamingOutputCall",`, len(`{"peerSocketAddress":""}`)
	size = maxProgress - around
	if got := r.all("tools/call", call); len(got) != 2 || !strings.Contains(got[0], "xxx") || !strings.Contains(got[1], `"structuredContent":{"messages":[{`) {
		t.Errorf("%s", got)
	}
	size++
	if got := r.ask("tools/call", call); !strings.HasPrefix(got, "[response_too_large] ") {
		t.Error(got)
	}
}

// An error names twenty services of a server that has more.
func TestManyServices(t *testing.T) {
	set := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{Name: proto.String("a.proto")}}}
	for i := range 22 {
		if i == 20 || i == 21 {
			_, err := New(nil, Options{Methods: []string{"none"}, Set: set})
			if more := " and 1 more"; err == nil || strings.HasSuffix(err.Error(), more) != (i == 21) || strings.Contains(err.Error(), "S20") {
				t.Errorf("%d services: %v", i, err)
			}
		}
		set.File[0].Service = append(set.File[0].Service, &descriptorpb.ServiceDescriptorProto{Name: proto.String(fmt.Sprintf("S%02d", i))})
	}
}

// At most 2000 methods are tools.
func TestManyMethods(t *testing.T) {
	service := &descriptorpb.ServiceDescriptorProto{Name: proto.String("S")}
	set := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{Name: proto.String("a.proto"), MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("M")}},
		Service: []*descriptorpb.ServiceDescriptorProto{service}}}}
	for i := range maxTools + 1 {
		service.Method = append(service.Method, &descriptorpb.MethodDescriptorProto{Name: proto.String(fmt.Sprintf("M%d", i)), InputType: proto.String(".M"), OutputType: proto.String(".M")})
	}
	if _, err := New(nil, Options{Methods: []string{"*"}, Set: set}); err == nil || err.Error() != "grpc.methods chooses more than 2000 methods; fix: choose fewer" {
		t.Error(err)
	}
	service.Method = service.GetMethod()[1:]
	if _, err := New(nil, Options{Methods: []string{"*"}, Set: set}); err != nil {
		t.Error(err)
	}
}

// A call that its client leaves ends at the server.
func TestCancel(t *testing.T) {
	began, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	r := newRig(t, &interop{unary: func(ctx context.Context, _ *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
		began <- struct{}{}
		<-ctx.Done()
		ended <- struct{}{}
		return nil, ctx.Err()
	}}, true, Options{Methods: []string{"*/UnaryCall"}, Set: setOf()})
	m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"TestService.UnaryCall"}}`))
	if err != nil {
		t.Fatal(err)
	}
	ex := &proxy.Exchange{Msg: m}
	replies, err := r.u.Call(ex)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Receive(t, "the call", began)
	if _, err := replies.Next(time.Now()); err != proxy.ErrNotYet {
		t.Error(err)
	}
	ex.Cancel(proxy.ErrCancelled)
	if _, err := replies.Next(time.Time{}); err != proxy.ErrCancelled {
		t.Error(err)
	}
	testkit.Receive(t, "the end of the call", ended)
	_ = replies.Close()
}
