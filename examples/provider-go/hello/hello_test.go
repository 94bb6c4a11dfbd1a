package hello

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"dragoman/adapters/grpc/providerpb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig starts a provider, and returns it with a client of it and a function that stops it gracefully.
func rig(t *testing.T) (context.Context, *Provider, providerpb.ProviderClient, func()) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p, s := New("hello-go"), grpc.NewServer()
	providerpb.RegisterProviderServer(s, p)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(func() {
		cancel()
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		s.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return ctx, p, providerpb.NewProviderClient(conn), s.GracefulStop
}

func tool(name, arguments string, wants *providerpb.Wants) *providerpb.CallToolRequest {
	return &providerpb.CallToolRequest{Name: name, Arguments: arguments, Wants: wants}
}

// ran is what a tool sent.
type ran struct {
	progress []float64
	logs     []string
	result   *providerpb.CallToolResult
}

// run calls a tool and reads its messages up to the end.
func run(ctx context.Context, c providerpb.ProviderClient, request *providerpb.CallToolRequest) (r ran, err error) {
	stream, err := c.CallTool(ctx, request)
	if err != nil {
		return r, err
	}
	for {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return r, nil
		case err != nil:
			return r, err
		case m.GetProgress() != nil:
			r.progress = append(r.progress, m.GetProgress().GetProgress())
		case m.GetLog() != nil:
			r.logs = append(r.logs, m.GetLog().GetData())
		default:
			r.result = m.GetResult()
		}
	}
}

func TestTools(t *testing.T) {
	ctx, _, c, _ := rig(t)
	all := &providerpb.Wants{Progress: true, Log: providerpb.LogLevel_LOG_LEVEL_INFO}
	for _, test := range []struct {
		name, tool, arguments string
		wants                 *providerpb.Wants
		said, structured      string
		progress, logs        int
	}{
		{"echo", "echo.v1", `{"message":"grüße \"quoted\" 🦊"}`, nil, `grüße "quoted" 🦊`, `{"message":"grüße \"quoted\" 🦊"}`, 0, 0},
		{"all is wanted", "count.v1", `{"to":3}`, all, "counted to 3", "", 3, 3},
		{"nothing is wanted", "count.v1", `{"to":3,"pause_ms":1}`, nil, "counted to 3", "", 0, 0},
		{"debug includes info", "count.v1", `{"to":2}`, &providerpb.Wants{Log: providerpb.LogLevel_LOG_LEVEL_DEBUG}, "counted to 2", "", 0, 2},
		{"notice does not", "count.v1", `{"to":2}`, &providerpb.Wants{Log: providerpb.LogLevel_LOG_LEVEL_NOTICE}, "counted to 2", "", 0, 0},
		{"event", "notify.v1", `{"metric":"load","value":1}`, nil, "sent", "", 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := run(ctx, c, tool(test.tool, test.arguments, test.wants))
			if err != nil {
				t.Fatal(err)
			}
			said := ""
			for _, c := range r.result.GetContent() {
				said += c.GetText()
			}
			if structured := r.result.GetStructuredContent(); said != test.said || structured != test.structured {
				t.Errorf("said %q with %q, want %q with %q", said, structured, test.said, test.structured)
			}
			if len(r.progress) != test.progress || !slices.IsSorted(r.progress) || len(r.logs) != test.logs {
				t.Errorf("progress %v and logs %q, want %d and %d", r.progress, r.logs, test.progress, test.logs)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	ctx, _, c, _ := rig(t)
	for name, test := range map[string]struct {
		call func() error
		want codes.Code
	}{
		"tool":      {func() error { _, err := run(ctx, c, tool("none.v1", "{}", nil)); return err }, codes.NotFound},
		"arguments": {func() error { _, err := run(ctx, c, tool("count.v1", `{"to":"three"}`, nil)); return err }, codes.InvalidArgument},
		"question":  {func() error { _, _, err := greet(ctx, c, "echo.v1", "{}"); return err }, codes.NotFound},
		"resource": {func() error {
			_, err := c.ReadResource(ctx, &providerpb.ReadResourceRequest{Uri: "hello://none"})
			return err
		}, codes.NotFound},
		"prompt": {func() error {
			_, err := c.GetPrompt(ctx, &providerpb.GetPromptRequest{Name: "none"})
			return err
		}, codes.NotFound},
		"page": {func() error {
			_, err := c.ListCapabilities(ctx, &providerpb.ListCapabilitiesRequest{PageToken: "2"})
			return err
		}, codes.InvalidArgument},
	} {
		if code := status.Code(test.call()); code != test.want {
			t.Errorf("%s: %s, want %s", name, code, test.want)
		}
	}
}

// A call that is cancelled ends, so that the provider can stop. It would otherwise run for a minute and a half.
func TestCancelled(t *testing.T) {
	ctx, p, c, stop := rig(t)
	ctx, cancel := context.WithCancel(ctx)
	stream, err := c.CallTool(ctx, tool("count.v1", `{"to":100,"pause_ms":1000}`, &providerpb.Wants{Progress: true}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	cancel()
	p.Close()
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	select {
	case <-stopped:
	case <-time.After(10 * time.Second):
		t.Fatal("the provider did not stop")
	}
}

// greet calls a tool that asks, with answers to its questions in turn. It returns the params of the questions.
func greet(ctx context.Context, c providerpb.ProviderClient, name, arguments string, answers ...*providerpb.Answer) ([]string, *providerpb.CallToolResult, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.Interact(ctx)
	if err != nil {
		return nil, nil, err
	}
	call := &providerpb.InteractRequest{Message: &providerpb.InteractRequest_CallTool{CallTool: tool(name, arguments, nil)}}
	if err := stream.Send(call); err != nil {
		return nil, nil, err
	}
	var asked []string
	for {
		m, err := stream.Recv()
		if err != nil || m.GetTool() != nil {
			return asked, m.GetTool(), err
		}
		if len(asked) == len(answers) {
			return asked, nil, errors.New("a question too many")
		}
		answer := answers[len(asked)]
		answer.Id = m.GetQuestion().GetId()
		asked = append(asked, m.GetQuestion().GetParams())
		if err := stream.Send(&providerpb.InteractRequest{Message: &providerpb.InteractRequest_Answer{Answer: answer}}); err != nil {
			return asked, nil, err
		}
	}
}

func result(of string) *providerpb.Answer {
	return &providerpb.Answer{Outcome: &providerpb.Answer_Result{Result: of}}
}

func TestGreet(t *testing.T) {
	ctx, _, c, _ := rig(t)
	failed := &providerpb.Answer{Outcome: &providerpb.Answer_Failure{Failure: &providerpb.Failure{Code: int32(codes.Unimplemented), Message: "no forms"}}}
	greeting := "Hello, MCP"
	for _, test := range []struct {
		name, arguments string
		answers         []*providerpb.Answer
		said            string
		greets, isError bool
	}{
		{"accepted", `{}`, []*providerpb.Answer{result(`{"action":"accept","content":{"name":"Ada"}}`)}, "Hello, Ada", true, false},
		{"formal", `{"formal":true}`, []*providerpb.Answer{result(`{"action":"accept","content":{"name":"Ada"}}`), result(`{"action":"accept","content":{"title":"Dr"}}`)}, "Hello, Dr Ada", true, false},
		{"declined", `{"question":"a \"quoted\" question"}`, []*providerpb.Answer{result(`{"action":"decline"}`)}, "nobody to greet", false, false},
		{"declined later", `{"formal":true}`, []*providerpb.Answer{result(`{"action":"accept","content":{"name":"Alan"}}`), result(`{"action":"cancel"}`)}, "nobody to greet", false, false},
		{"without a name", `{}`, []*providerpb.Answer{result(`{"action":"accept","content":{}}`)}, "nobody to greet", false, false},
		{"failed", `{}`, []*providerpb.Answer{failed}, "the client cannot be asked: no forms", false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			asked, r, err := greet(ctx, c, "greet.v1", test.arguments, test.answers...)
			if err != nil {
				t.Fatal(err)
			}
			if said := r.GetContent()[0].GetText(); said != test.said || r.GetIsError() != test.isError || len(asked) != len(test.answers) {
				t.Errorf("said %q (error %v) after %q, want %q (%v)", said, r.GetIsError(), asked, test.said, test.isError)
			}
			if strings.Contains(test.arguments, "question") && !strings.Contains(asked[0], `"message":"a \"quoted\" question"`) {
				t.Errorf("asked %s", asked[0])
			}
			if test.greets {
				greeting = test.said
			}
			read, err := c.ReadResource(ctx, &providerpb.ReadResourceRequest{Uri: greetingURI})
			if err != nil || read.GetContents()[0].GetText() != greeting {
				t.Errorf("the greeting is %v, %v, want %q", read.GetContents(), err, greeting)
			}
		})
	}
}

func TestPrompt(t *testing.T) {
	ctx, _, c, _ := rig(t)
	r, err := c.GetPrompt(ctx, &providerpb.GetPromptRequest{Name: "hello-plan", Arguments: map[string]string{"name": "Zoë"}})
	if err != nil {
		t.Fatal(err)
	}
	if said := r.GetMessages()[0].GetContent().GetText(); said != "Greet Zoë, and propose a plan for the day." {
		t.Errorf("said %q", said)
	}
}

func TestComplete(t *testing.T) {
	ctx, _, c, _ := rig(t)
	for _, test := range []struct {
		argument, value string
		want            []string
	}{{"name", "A", []string{"Ada", "Alan"}}, {"name", "", []string{"Ada", "Alan", "Grace"}}, {"name", "x", nil}, {"other", "A", nil}} {
		r, err := c.Complete(ctx, &providerpb.CompleteRequest{Argument: test.argument, Value: test.value})
		if err != nil || !slices.Equal(r.GetValues(), test.want) {
			t.Errorf("%s %q: %q, %v, want %q", test.argument, test.value, r.GetValues(), err, test.want)
		}
	}
}

func TestWatch(t *testing.T) {
	ctx, p, c, _ := rig(t)
	stream, err := c.Watch(ctx, &providerpb.WatchRequest{Tools: true, Uris: []string{"hello://none", greetingURI}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := stream.Recv()
	if w := m.GetWatching(); err != nil || w.GetTools() || !slices.Equal(w.GetUris(), []string{greetingURI}) {
		t.Fatalf("watching %v, %v", w, err)
	}
	if _, _, err := greet(ctx, c, "greet.v1", "{}", result(`{"action":"accept","content":{"name":"Ada"}}`)); err != nil {
		t.Fatal(err)
	}
	if m, err = stream.Recv(); err != nil || m.GetUpdated() != greetingURI {
		t.Fatalf("%v, %v", m, err)
	}
	p.Close()
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("%v, want Unavailable", err)
	}
}

func TestEvents(t *testing.T) {
	ctx, p, c, _ := rig(t)
	for range keptEvents + 5 { // nobody has to take what came before the stream
		p.emit(`{"before":true}`)
	}
	if len(p.events) != keptEvents {
		t.Errorf("%d events are kept, want %d", len(p.events), keptEvents)
	}
	stream, err := c.Events(ctx, &providerpb.EventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Header(); err != nil { // from now on, it gets all events
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, data := range []string{`{"metric":"load","value":1}`, `{"metric":"load","value":2}`} {
		if _, err := run(ctx, c, tool("notify.v1", data, nil)); err != nil {
			t.Fatal(err)
		}
		e, err := stream.Recv()
		if err != nil || e.GetTextData() != data || e.GetSource() != "urn:provider:hello-go" || e.GetType() != "provider.metric.reported" || ids[e.GetId()] {
			t.Fatalf("%v, %v", e, err)
		}
		ids[e.GetId()] = true
	}
	p.Close()
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("%v, want Unavailable", err)
	}
}
