// Package hello is the service of an example provider.
package hello

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"dragoman/adapters/grpc/providerpb"
	"dragoman/adapters/grpc/providerpb/cloudeventspb"
)

// greetingURI is the resource.
const greetingURI = "hello://greeting"

// Provider implements mcp.provider.v1. Its greeting is a resource that the tool greet.v1 changes.
type Provider struct {
	providerpb.UnimplementedProviderServer
	name string
	done chan struct{}

	mu       sync.Mutex
	greeting string
	changed  chan struct{} // closed when greeting or events change
	events   []*cloudeventspb.CloudEvent
	next     int // number of the first event in events
}

// keptEvents bounds the events that a stream may be behind.
const keptEvents = 1000

// New returns a provider of a name.
func New(name string) *Provider {
	return &Provider{name: name, greeting: "Hello, MCP", done: make(chan struct{}), changed: make(chan struct{})}
}

// Close ends the streams that last.
func (p *Provider) Close() { close(p.done) }

// ListCapabilities lists everything on one page.
func (p *Provider) ListCapabilities(_ context.Context, request *providerpb.ListCapabilitiesRequest) (*providerpb.ListCapabilitiesResponse, error) {
	if token := request.GetPageToken(); token != "" {
		return nil, status.Errorf(codes.InvalidArgument, "no page %q", token)
	}
	return &providerpb.ListCapabilitiesResponse{
		Provider: &providerpb.Implementation{Name: p.name, Version: "1.0.0", Title: "Hello from Go"},
		Features: []providerpb.Feature{providerpb.Feature_FEATURE_COMPLETE, providerpb.Feature_FEATURE_WATCH_RESOURCES, providerpb.Feature_FEATURE_EVENTS},
		Tools: []*providerpb.Tool{
			{Name: "echo.v1", Description: "Returns the message unchanged", Annotations: &providerpb.ToolAnnotations{ReadOnly: proto.Bool(true)},
				InputSchema:  `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"message":{"type":"string"}},"required":["message"]}`,
				OutputSchema: `{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}`},
			{Name: "count.v1", Description: "Counts slowly, and reports its progress", Annotations: &providerpb.ToolAnnotations{ReadOnly: proto.Bool(true)},
				InputSchema: `{"type":"object","properties":{"to":{"type":"integer","minimum":1,"maximum":100},"pause_ms":{"type":"integer","minimum":0,"maximum":1000}},"required":["to"]}`},
			{Name: "greet.v1", Description: "Asks the user for a name, and greets", Asks: true,
				InputSchema: `{"type":"object","properties":{"question":{"type":"string","description":"what the user is asked"},"formal":{"type":"boolean","description":"asks for a title as well"}}}`},
			{Name: "notify.v1", Description: "Emits an event", InputSchema: `{"type":"object","properties":{"metric":{"type":"string"},"value":{"type":"number"}},"required":["metric","value"]}`},
		},
		Resources: []*providerpb.Resource{{Uri: greetingURI, Name: "greeting", Description: "Returns the greeting", MimeType: "text/plain"}},
		Prompts: []*providerpb.Prompt{{Name: "hello-plan", Description: "Greet a user and propose a plan",
			ArgsSchema: `{"type":"object","properties":{"name":{"type":"string","description":"who is greeted"}},"required":["name"]}`}},
	}, nil
}

// CallTool runs a tool that asks nothing.
func (p *Provider) CallTool(request *providerpb.CallToolRequest, stream grpc.ServerStreamingServer[providerpb.CallToolResponse]) error {
	switch request.GetName() {
	case "echo.v1":
		return answer(stream, &providerpb.CallToolResult{Content: text(argument(request, "message")), StructuredContent: request.GetArguments()})
	case "count.v1":
		return p.count(request, stream)
	case "notify.v1":
		p.emit(request.GetArguments())
		return answer(stream, &providerpb.CallToolResult{Content: text("sent")})
	}
	return status.Errorf(codes.NotFound, "no tool %q", request.GetName())
}

// count counts to the number that is asked for.
func (p *Provider) count(request *providerpb.CallToolRequest, stream grpc.ServerStreamingServer[providerpb.CallToolResponse]) error {
	var arguments struct {
		To    int `json:"to"`
		Pause int `json:"pause_ms"`
	}
	if err := json.Unmarshal([]byte(request.GetArguments()), &arguments); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	for i := 1; i <= arguments.To; i++ {
		select {
		case <-time.After(time.Duration(arguments.Pause) * time.Millisecond):
		case <-stream.Context().Done():
			slog.Info("count.v1 cancelled", "at", i-1)
			return status.FromContextError(stream.Context().Err()).Err()
		}
		if request.GetWants().GetProgress() {
			m := &providerpb.CallToolResponse_Progress{Progress: &providerpb.Progress{Progress: float64(i), Total: proto.Float64(float64(arguments.To)), Message: fmt.Sprint("at ", i)}}
			if err := stream.Send(&providerpb.CallToolResponse{Message: m}); err != nil {
				return err
			}
		}
		if level := request.GetWants().GetLog(); level > 0 && level <= providerpb.LogLevel_LOG_LEVEL_INFO {
			m := &providerpb.CallToolResponse_Log{Log: &providerpb.Log{Level: providerpb.LogLevel_LOG_LEVEL_INFO, Logger: p.name, Data: fmt.Sprintf("%q", fmt.Sprint("counted ", i))}}
			if err := stream.Send(&providerpb.CallToolResponse{Message: m}); err != nil {
				return err
			}
		}
	}
	return answer(stream, &providerpb.CallToolResult{Content: text(fmt.Sprint("counted to ", arguments.To))})
}

// answer ends a call.
func answer(stream grpc.ServerStreamingServer[providerpb.CallToolResponse], result *providerpb.CallToolResult) error {
	return stream.Send(&providerpb.CallToolResponse{Message: &providerpb.CallToolResponse_Result{Result: result}})
}

func text(of string) []*providerpb.Content {
	return []*providerpb.Content{{Kind: &providerpb.Content_Text{Text: of}}}
}

// argument returns an argument that is a string.
func argument(request *providerpb.CallToolRequest, name string) string {
	var arguments map[string]any
	_ = json.Unmarshal([]byte(request.GetArguments()), &arguments) // Dragoman has checked it against the schema
	value, _ := arguments[name].(string)
	return value
}

// Interact runs greet.v1, which asks the user for a name, and for a title if the greeting is formal.
func (p *Provider) Interact(stream grpc.BidiStreamingServer[providerpb.InteractRequest, providerpb.InteractResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	call := first.GetCallTool()
	if call.GetName() != "greet.v1" {
		return status.Errorf(codes.NotFound, "no tool %q", call.GetName())
	}
	var arguments struct {
		Question string `json:"question"`
		Formal   bool   `json:"formal"`
	}
	if err := json.Unmarshal([]byte(call.GetArguments()), &arguments); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	name, instead, err := ask(stream, "name", cmp.Or(arguments.Question, "Who are you?"))
	if arguments.Formal && err == nil && instead == nil {
		var title string
		title, instead, err = ask(stream, "title", "What is your title?")
		name = title + " " + name
	}
	if err != nil {
		return err
	}
	if instead == nil {
		instead = p.greet(name)
	}
	return stream.Send(&providerpb.InteractResponse{Message: &providerpb.InteractResponse_Tool{Tool: instead}})
}

// ask asks the user for a text, which has the name id. It returns the text, or the result of a call whose user gave none.
func ask(stream grpc.BidiStreamingServer[providerpb.InteractRequest, providerpb.InteractResponse], id, message string) (string, *providerpb.CallToolResult, error) {
	params := fmt.Sprintf(`{"mode":"form","message":%s,"requestedSchema":{"type":"object","properties":{%q:{"type":"string"}},"required":[%[2]q]}}`, quoted(message), id)
	question := &providerpb.Question{Id: id, Method: "elicitation/create", Params: params}
	if err := stream.Send(&providerpb.InteractResponse{Message: &providerpb.InteractResponse_Question{Question: question}}); err != nil {
		return "", nil, err
	}
	m, err := stream.Recv()
	if err != nil {
		return "", nil, err
	}
	if failed := m.GetAnswer().GetFailure(); failed != nil {
		return "", &providerpb.CallToolResult{Content: text("the client cannot be asked: " + failed.GetMessage()), IsError: true}, nil
	}
	var result struct {
		Action  string            `json:"action"`
		Content map[string]string `json:"content"`
	}
	if err := json.Unmarshal([]byte(m.GetAnswer().GetResult()), &result); err != nil {
		return "", nil, status.Error(codes.InvalidArgument, err.Error())
	}
	given, ok := result.Content[id]
	if !ok || result.Action != "accept" {
		return "", &providerpb.CallToolResult{Content: text("nobody to greet")}, nil
	}
	return given, nil, nil
}

// quoted returns a text as JSON.
func quoted(text string) []byte {
	data, _ := json.Marshal(text) // a string can be encoded
	return data
}

// greet changes the greeting.
func (p *Provider) greet(name string) *providerpb.CallToolResult {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.greeting = "Hello, " + name
	close(p.changed)
	p.changed = make(chan struct{})
	return &providerpb.CallToolResult{Content: text(p.greeting)}
}

// state returns the greeting, and a channel that is closed when it changes.
func (p *Provider) state() (string, chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.greeting, p.changed
}

// ReadResource reads the greeting.
func (p *Provider) ReadResource(_ context.Context, request *providerpb.ReadResourceRequest) (*providerpb.ReadResourceResponse, error) {
	if request.GetUri() != greetingURI {
		return nil, status.Errorf(codes.NotFound, "no resource %q", request.GetUri())
	}
	greeting, _ := p.state()
	return &providerpb.ReadResourceResponse{Contents: []*providerpb.ResourceContents{{Uri: greetingURI, MimeType: "text/plain",
		Contents: &providerpb.ResourceContents_Text{Text: greeting}}}}, nil
}

// GetPrompt returns the prompt.
func (p *Provider) GetPrompt(_ context.Context, request *providerpb.GetPromptRequest) (*providerpb.GetPromptResponse, error) {
	if request.GetName() != "hello-plan" {
		return nil, status.Errorf(codes.NotFound, "no prompt %q", request.GetName())
	}
	greeting := fmt.Sprintf("Greet %s, and propose a plan for the day.", request.GetArguments()["name"])
	return &providerpb.GetPromptResponse{Description: "A greeting with a plan", Messages: []*providerpb.PromptMessage{{Role: providerpb.Role_ROLE_USER,
		Content: &providerpb.Content{Kind: &providerpb.Content_Text{Text: greeting}}}}}, nil
}

// Complete proposes names.
func (p *Provider) Complete(_ context.Context, request *providerpb.CompleteRequest) (*providerpb.CompleteResponse, error) {
	var values []string
	for _, name := range []string{"Ada", "Alan", "Grace"} {
		if request.GetArgument() == "name" && len(name) >= len(request.GetValue()) && name[:len(request.GetValue())] == request.GetValue() {
			values = append(values, name)
		}
	}
	return &providerpb.CompleteResponse{Values: values}, nil
}

// Watch reports that the greeting has changed.
func (p *Provider) Watch(request *providerpb.WatchRequest, stream grpc.ServerStreamingServer[providerpb.WatchResponse]) error {
	watching := &providerpb.WatchRequest{}
	for _, uri := range request.GetUris() {
		if uri == greetingURI {
			watching.Uris = append(watching.Uris, uri)
		}
	}
	last, changed := p.state()
	if err := stream.Send(&providerpb.WatchResponse{Message: &providerpb.WatchResponse_Watching{Watching: watching}}); err != nil {
		return err
	}
	for {
		select {
		case <-changed:
		case <-p.done:
			return status.Error(codes.Unavailable, "the provider is stopping")
		case <-stream.Context().Done():
			return status.FromContextError(stream.Context().Err()).Err()
		}
		was := last
		if last, changed = p.state(); last == was {
			continue
		}
		for _, uri := range watching.GetUris() {
			if err := stream.Send(&providerpb.WatchResponse{Message: &providerpb.WatchResponse_Updated{Updated: uri}}); err != nil {
				return err
			}
		}
	}
}
