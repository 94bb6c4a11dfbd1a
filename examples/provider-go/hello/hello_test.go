package hello

import (
	"context"
	"net"
	"slices"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"dragoman/adapters/grpc/providerpb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts the provider and returns a client of it.
func serve(t *testing.T) (providerpb.ProviderClient, *Provider) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := New("hello-test")
	s := grpc.NewServer()
	providerpb.RegisterProviderServer(s, p)
	served := make(chan struct{})
	go func() { defer close(served); _ = s.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		p.Close()
		s.GracefulStop()
		<-served
	})
	return providerpb.NewProviderClient(conn), p
}

// run runs a tool and returns its messages.
func run(t *testing.T, c providerpb.ProviderClient, request *providerpb.CallToolRequest) (all []*providerpb.CallToolResponse) {
	t.Helper()
	stream, err := c.CallTool(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			t.Fatalf("no result: %v", err)
		}
		if all = append(all, m); m.GetResult() != nil {
			return all
		}
	}
}

func said(r *providerpb.CallToolResult) string { return r.GetContent()[0].GetText() }

func TestTools(t *testing.T) {
	c, _ := serve(t)
	if got := run(t, c, &providerpb.CallToolRequest{Name: "echo.v1", Arguments: `{"message":"m"}`}); len(got) != 1 || got[0].GetResult().GetStructuredContent() != `{"message":"m"}` {
		t.Errorf("%v", got)
	}
	wants := &providerpb.Wants{Progress: true, Log: providerpb.LogLevel_LOG_LEVEL_INFO}
	got := run(t, c, &providerpb.CallToolRequest{Name: "count.v1", Arguments: `{"to":2}`, Wants: wants})
	if len(got) != 5 || got[2].GetProgress().GetProgress() != 2 || got[3].GetLog().GetData() != `"counted 2"` || said(got[4].GetResult()) != "counted to 2" {
		t.Errorf("%v", got)
	}
	if got := run(t, c, &providerpb.CallToolRequest{Name: "count.v1", Arguments: `{"to":2}`}); len(got) != 1 {
		t.Errorf("nothing was wanted: %v", got)
	}
	for request, want := range map[*providerpb.CallToolRequest]codes.Code{{Name: "no.v1"}: codes.NotFound, {Name: "count.v1", Arguments: "{"}: codes.InvalidArgument} {
		stream, err := c.CallTool(t.Context(), request)
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != want {
			t.Errorf("%v: %v", request, err)
		}
	}
}

// A count that nobody waits for any more ends.
func TestCancel(t *testing.T) {
	c, _ := serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := c.CallTool(ctx, &providerpb.CallToolRequest{Name: "count.v1", Arguments: `{"to":100,"pause_ms":10}`, Wants: &providerpb.Wants{Progress: true}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	cancel()
	for err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Canceled {
		t.Error(err)
	}
}

// The greeting is that of the user's answer, and whoever watches it is told.
func TestGreeting(t *testing.T) {
	c, _ := serve(t)
	watch, err := c.Watch(t.Context(), &providerpb.WatchRequest{Tools: true, Uris: []string{greetingURI, "other:"}})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := watch.Recv(); err != nil || m.GetWatching().GetTools() || !slices.Equal(m.GetWatching().GetUris(), []string{greetingURI}) {
		t.Fatalf("%v %v", m, err)
	}
	for answer, want := range map[*providerpb.Answer]string{
		{Outcome: &providerpb.Answer_Failure{Failure: &providerpb.Failure{Message: "no"}}}:           "the client cannot be asked: no",
		{Outcome: &providerpb.Answer_Result{Result: `{"action":"decline"}`}}:                         "nobody to greet",
		{Outcome: &providerpb.Answer_Result{Result: `{"action":"accept","content":{"name":"Ada"}}`}}: "Hello, Ada",
	} {
		stream, err := c.Interact(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		call := &providerpb.InteractRequest_CallTool{CallTool: &providerpb.CallToolRequest{Name: "greet.v1"}}
		if err := stream.Send(&providerpb.InteractRequest{Message: call}); err != nil {
			t.Fatal(err)
		}
		if m, err := stream.Recv(); err != nil || m.GetQuestion().GetMethod() != "elicitation/create" {
			t.Fatalf("%v %v", m, err)
		}
		if err := stream.Send(&providerpb.InteractRequest{Message: &providerpb.InteractRequest_Answer{Answer: answer}}); err != nil {
			t.Fatal(err)
		}
		if m, err := stream.Recv(); err != nil || said(m.GetTool()) != want {
			t.Errorf("%v %v, want %s", m, err, want)
		}
	}
	if m, err := watch.Recv(); err != nil || m.GetUpdated() != greetingURI {
		t.Errorf("%v %v", m, err)
	}
	if m, err := c.ReadResource(t.Context(), &providerpb.ReadResourceRequest{Uri: greetingURI}); err != nil || m.GetContents()[0].GetText() != "Hello, Ada" {
		t.Errorf("%v %v", m, err)
	}
	if _, err := c.ReadResource(t.Context(), &providerpb.ReadResourceRequest{Uri: "other:"}); status.Code(err) != codes.NotFound {
		t.Error(err)
	}
}

func TestPrompt(t *testing.T) {
	c, _ := serve(t)
	if m, err := c.GetPrompt(t.Context(), &providerpb.GetPromptRequest{Name: "hello-plan", Arguments: map[string]string{"name": "Ada"}}); err != nil || m.GetMessages()[0].GetContent().GetText() != "Greet Ada, and propose a plan for the day." {
		t.Errorf("%v %v", m, err)
	}
	if m, err := c.Complete(t.Context(), &providerpb.CompleteRequest{Argument: "name", Value: "A"}); err != nil || !slices.Equal(m.GetValues(), []string{"Ada", "Alan"}) {
		t.Errorf("%v %v", m, err)
	}
	if _, err := c.GetPrompt(t.Context(), &providerpb.GetPromptRequest{Name: "other"}); status.Code(err) != codes.NotFound {
		t.Error(err)
	}
	if _, err := c.ListCapabilities(t.Context(), &providerpb.ListCapabilitiesRequest{PageToken: "x"}); status.Code(err) != codes.InvalidArgument {
		t.Error(err)
	}
}

// Events reach whoever has the stream, in their order; of those that nobody has taken, the last thousand are kept.
func TestEvents(t *testing.T) {
	c, p := serve(t)
	for range keptEvents + 5 {
		p.emit(`{"before":true}`)
	}
	stream, err := c.Events(t.Context(), &providerpb.EventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() { // until the stream has begun, events are nobody's
		defer close(done)
		for {
			run(t, c, &providerpb.CallToolRequest{Name: "notify.v1", Arguments: `{"metric":"m","value":1}`})
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	m, err := stream.Recv()
	close(stop)
	<-done
	if err != nil || m.GetTextData() != `{"metric":"m","value":1}` || m.GetSource() != "urn:provider:hello-test" || m.GetSpecVersion() != "1.0" {
		t.Errorf("%v %v", m, err)
	}
	if len(p.events) != keptEvents {
		t.Errorf("%d events are kept", len(p.events))
	}
}
