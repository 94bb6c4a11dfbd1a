package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"dragoman/internal/testkit"
)

// sdkServer is a server of the official SDK with one of everything; report is called for cancellations.
func sdkServer(report func(string)) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, &mcp.ServerOptions{PageSize: 2,
		CompletionHandler: func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{"one", "two"}}}, nil
		}})
	type in struct {
		Text string `json:"text"`
	}
	mcp.AddTool(s, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, a in) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: a.Text}}}, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "talk"}, func(ctx context.Context, req *mcp.CallToolRequest, _ in) (*mcp.CallToolResult, any, error) {
		for i := range 3 {
			_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: float64(i + 1), Total: 3})
			_ = req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "warning", Data: fmt.Sprintf("step %d", i)})
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "wait"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ in) (*mcp.CallToolResult, any, error) {
		report("started")
		select {
		case <-ctx.Done():
			report("cancelled")
		case <-time.After(testkit.Patient):
			report("never cancelled")
		}
		return nil, nil, ctx.Err()
	})
	s.AddResource(&mcp.Resource{URI: "test://one", Name: "one"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "test://one", Text: "content"}}}, nil
	})
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "test://t/{x}", Name: "t"}, func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: "templated"}}}, nil
	})
	s.AddPrompt(&mcp.Prompt{Name: "p"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "hi"}}}}, nil
	})
	return s
}

// sdkMain is this process as an SDK server on stdio.
func sdkMain() {
	c, err := net.Dial("tcp", os.Getenv("DRAGOMAN_TEST_PIPE"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	s := sdkServer(func(what string) { _, _ = io.WriteString(c, what+"\n") })
	_ = s.Run(context.Background(), &mcp.StdioTransport{})
	os.Exit(0)
}

// sdkUpstream starts an SDK server of a kind and returns its configuration and its reports.
func sdkUpstream(t *testing.T, kind string) (toml string, reports chan string) {
	t.Helper()
	reports = make(chan string, 100)
	if strings.HasSuffix(kind, "stdio") {
		pipe := collectLines(t, func(line string) {
			if line == "started" || line == "cancelled" {
				reports <- line
			}
		})
		return fmt.Sprintf("[upstreams.default]\ncommand = [%q]\nera = %q\n[upstreams.default.env]\n%s = \"sdk\"\nDRAGOMAN_TEST_PIPE = %q\nGORACE = \"atexit_sleep_ms=0\"\n",
			testkit.Executable(t), strings.TrimSuffix(kind, "-stdio"), testkit.AsDragoman, pipe), reports
	}
	url := serveSDK(t, kind, sdkServer(func(s string) { reports <- s }))
	return fmt.Sprintf("[upstreams.default]\nurl = %q\n", url), reports
}

// serveSDK serves a server of the official SDK over the HTTP transport of a kind until the test ends, and returns its URL. The server of kind
// "modern" accepts legacy clients too, without sessions: it cannot ask them, notify them or learn of their cancellations.
func serveSDK(t *testing.T, kind string, server *mcp.Server) (url string) {
	t.Helper()
	get := func(*http.Request) *mcp.Server { return server }
	var h http.Handler
	switch kind {
	case "modern":
		h = mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true})
	case "legacy":
		h = mcp.NewStreamableHTTPHandler(get, nil)
	case "legacy-json":
		h = mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{JSONResponse: true})
	case "legacy-resumes":
		h = mcp.NewStreamableHTTPHandler(get, &mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil)})
	case "sse":
		h = mcp.NewSSEHandler(get, nil)
	}
	t.Cleanup(func() { // after the server's own
		for session := range server.Sessions() {
			_ = session.Close()
		}
	})
	return newTestServer(t, h)
}

// collectLines returns an address to which processes write lines. each is called for every line, concurrently.
func collectLines(t *testing.T, each func(line string)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			group.Go(func() {
				defer func() { _ = c.Close() }()
				for lines := bufio.NewScanner(c); lines.Scan(); {
					each(lines.Text())
				}
			})
		}
	})
	t.Cleanup(func() { _ = ln.Close(); group.Wait() })
	return ln.Addr().String()
}

// sdkHeard is the notifications that an SDK client got.
type sdkHeard struct {
	mu       sync.Mutex
	progress []float64
	logs     []string
}

func sdkClient(t *testing.T, face, toml string) (*mcp.ClientSession, *sdkHeard) {
	t.Helper()
	heard := &sdkHeard{}
	c := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			heard.mu.Lock()
			defer heard.mu.Unlock()
			heard.progress = append(heard.progress, r.Params.Progress)
		},
		LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) {
			heard.mu.Lock()
			defer heard.mu.Unlock()
			heard.logs = append(heard.logs, fmt.Sprint(r.Params.Data))
		}})
	var opt *mcp.ClientSessionOptions
	if !strings.HasPrefix(face, "modern") {
		opt = &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"}
	}
	var transport mcp.Transport
	if strings.HasSuffix(face, "stdio") {
		transport = &mcp.CommandTransport{Command: testkit.Self(t, "main", "stdio", "--config", testkit.WriteFile(t, "s.toml", toml))}
	} else {
		r := startRig(t, toml, false)
		transport = &mcp.StreamableClientTransport{Endpoint: r.base + "/mcp", HTTPClient: r.http}
		if face == "sse" {
			transport = sseTransport(r.base+"/sse", r.http.Transport)
		}
	}
	session, err := c.Connect(t.Context(), transport, opt) // the context of HTTP+SSE lasts as long as its stream
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session, heard
}

// TestSDK connects the official SDK's client to the official SDK's server, for every pair of kinds.
func TestSDK(t *testing.T) {
	for _, face := range []string{"modern", "legacy", "sse", "modern-stdio", "legacy-stdio"} {
		for _, kind := range kinds {
			t.Run(face+" to "+kind, func(t *testing.T) {
				toml, reports := sdkUpstream(t, kind)
				session, heard := sdkClient(t, face, toml)
				ctx, cancel := context.WithTimeout(t.Context(), testkit.Patient)
				defer cancel()
				if v := session.InitializeResult().ProtocolVersion; (v >= "2026") != strings.HasPrefix(face, "modern") {
					t.Errorf("the client speaks %s", v)
				}
				sdkCalls(t, ctx, session)
				sdkTalk(t, ctx, face, session, heard)
				sdkCancel(t, ctx, session, reports)
			})
		}
	}
}

func sdkCalls(t *testing.T, ctx context.Context, s *mcp.ClientSession) {
	t.Helper()
	var names []string
	for tool, err := range s.Tools(ctx, nil) { // pages of two
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	if !slices.Equal(names, []string{"echo", "talk", "wait"}) {
		t.Errorf("tools %v", names)
	}
	text := "<&> \u2028 \u65e5\u672c \x00 9007199254740993"
	res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": text}})
	if err != nil || res.Content[0].(*mcp.TextContent).Text != text {
		t.Errorf("echo: %+v, %v", res, err)
	}
	if res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "nosuch"}); err == nil && !res.IsError {
		t.Error("an unknown tool answers")
	}
	if r, err := s.ReadResource(ctx, &mcp.ReadResourceParams{URI: "test://one"}); err != nil || r.Contents[0].Text != "content" {
		t.Errorf("read: %+v, %v", r, err)
	}
	if r, err := s.ReadResource(ctx, &mcp.ReadResourceParams{URI: "test://t/x"}); err != nil || r.Contents[0].Text != "templated" {
		t.Errorf("read by template: %+v, %v", r, err)
	}
	if _, err := s.ReadResource(ctx, &mcp.ReadResourceParams{URI: "test://nosuch"}); err == nil {
		t.Error("an unknown resource is read")
	}
	if r, err := s.GetPrompt(ctx, &mcp.GetPromptParams{Name: "p"}); err != nil || r.Messages[0].Content.(*mcp.TextContent).Text != "hi" {
		t.Errorf("prompt: %+v, %v", r, err)
	}
	if r, err := s.ListResources(ctx, nil); err != nil || len(r.Resources) != 1 {
		t.Errorf("resources: %+v, %v", r, err)
	}
	if r, err := s.ListResourceTemplates(ctx, nil); err != nil || len(r.ResourceTemplates) != 1 {
		t.Errorf("templates: %+v, %v", r, err)
	}
	if r, err := s.ListPrompts(ctx, nil); err != nil || len(r.Prompts) != 1 {
		t.Errorf("prompts: %+v, %v", r, err)
	}
	r, err := s.Complete(ctx, &mcp.CompleteParams{Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: "p"}, Argument: mcp.CompleteParamsArgument{Name: "a", Value: "o"}})
	if err != nil || len(r.Completion.Values) != 2 {
		t.Errorf("completion: %+v, %v", r, err)
	}
}

// sdkTalk checks progress and log messages of one call, in order.
func sdkTalk(t *testing.T, ctx context.Context, face string, s *mcp.ClientSession, heard *sdkHeard) {
	t.Helper()
	params := &mcp.CallToolParams{Name: "talk", Arguments: map[string]any{"text": ""}, Meta: mcp.Meta{}}
	params.SetProgressToken("tok")
	if strings.HasPrefix(face, "modern") {
		params.Meta[mcp.MetaKeyLogLevel] = "info"
	} else if err := s.SetLoggingLevel(ctx, &mcp.SetLoggingLevelParams{Level: "info"}); err != nil {
		t.Errorf("setLevel: %v", err)
	}
	if _, err := s.CallTool(ctx, params); err != nil {
		t.Errorf("talk: %v", err)
	}
	testkit.Eventually(t, "progress and logs", func() bool {
		heard.mu.Lock()
		defer heard.mu.Unlock()
		return len(heard.progress) >= 3 && len(heard.logs) >= 3
	})
	heard.mu.Lock()
	defer heard.mu.Unlock()
	if !slices.Equal(heard.progress, []float64{1, 2, 3}) || !slices.Equal(heard.logs, []string{"step 0", "step 1", "step 2"}) {
		t.Errorf("progress %v, logs %v", heard.progress, heard.logs)
	}
}

func sdkCancel(t *testing.T, ctx context.Context, s *mcp.ClientSession, reports chan string) {
	t.Helper()
	call, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		_, err := s.CallTool(call, &mcp.CallToolParams{Name: "wait", Arguments: map[string]any{"text": ""}})
		done <- err
	}()
	if got := testkit.Receive(t, "the call", reports); got != "started" {
		t.Errorf("%s", got)
	}
	stop()
	if err := testkit.Receive(t, "the end of the call", done); err == nil {
		t.Error("a cancelled call has a result")
	}
	if got := testkit.Receive(t, "the cancellation", reports); got != "cancelled" {
		t.Errorf("%s", got)
	}
	if _, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "x"}}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
