package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"dragoman/internal/testkit"
)

// askerKinds are the kinds of SDK servers that ask: those of TestSDK, one that answers in JSON and so asks on its GET stream only, and one
// that keeps its events, primes its streams and lets them be resumed.
var askerKinds = append(slices.Clone(kinds), "legacy-json", "legacy-resumes")

func isModern(kind string) bool { return strings.HasPrefix(kind, "modern") }

// kept begins every requestState of the asking server: it must be returned unchanged.
const kept = "<&>\u2028 \u00e9\"\\/+="

// interaction is what a tool, prompt or resource of the asking server does: from its state and the answers it makes the next questions and state,
// or, without questions, the result.
type interaction func(state string, got mcp.InputResponseMap) (ask mcp.InputRequestMap, keep, says string)

// asker is a server of the official SDK that asks: modern clients by a result, legacy ones during the call.
type asker struct {
	server *mcp.Server
	report func(string)
	gate   chan struct{} // the tool "gate" waits for it between its two halves
}

func newAsker(report func(string)) *asker {
	subscribed := func(what string) func(string) error {
		return func(uri string) error { report(what + " " + uri); return nil }
	}
	on, off := subscribed("subscribed"), subscribed("unsubscribed")
	a := &asker{report: report, gate: make(chan struct{})}
	a.server = mcp.NewServer(&mcp.Implementation{Name: "asker", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler:   func(_ context.Context, r *mcp.SubscribeRequest) error { return on(r.Params.URI) },
		UnsubscribeHandler: func(_ context.Context, r *mcp.UnsubscribeRequest) error { return off(r.Params.URI) },
	})
	a.tool("form", func(_ context.Context, _ *mcp.CallToolRequest, in askerArgs) interaction { return one(form(in.Say)) })
	a.tool("sample", func(_ context.Context, _ *mcp.CallToolRequest, in askerArgs) interaction { return one(sample(in.Say)) })
	a.tool("roots", func(context.Context, *mcp.CallToolRequest, askerArgs) interaction { return one(&mcp.ListRootsParams{}) })
	a.tool("url", func(_ context.Context, _ *mcp.CallToolRequest, in askerArgs) interaction {
		return one(&mcp.ElicitParams{Mode: "url", Message: in.Say, URL: "https://x.example/consent?a=b&c=%20", ElicitationID: "own"})
	})
	a.tool("both", func(_ context.Context, _ *mcp.CallToolRequest, in askerArgs) interaction { return both(in.Say) })
	a.tool("rounds", func(_ context.Context, _ *mcp.CallToolRequest, in askerArgs) interaction { return rounds(in.Say) })
	a.tool("step", a.step)
	a.tool("gate", a.halves)
	a.tool("change", a.change)
	a.server.AddPrompt(&mcp.Prompt{Name: "ask"}, a.prompt)
	a.server.AddResource(&mcp.Resource{URI: "test://ask", Name: "ask"}, a.resource)
	return a
}

// askerArgs are the arguments of every tool.
type askerArgs struct {
	Say  string `json:"say"`  // the message of the question
	What string `json:"what"` // what to change
}

func (a *asker) tool(name string, write func(context.Context, *mcp.CallToolRequest, askerArgs) interaction) {
	a.server.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var in askerArgs
		if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
			return nil, err
		}
		a.report("called " + name + " " + in.Say)
		ask, keep, says, err := a.play(ctx, name, req.Session, write(ctx, req, in), req.Params.RequestState, req.Params.InputResponses)
		switch {
		case err != nil:
			return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: err.Error()}}}, nil
		case ask != nil:
			return &mcp.CallToolResult{InputRequests: ask, RequestState: keep}, nil
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: says}}}, nil
	})
}

func (a *asker) prompt(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	ask, keep, says, err := a.play(ctx, "prompt", req.Session, one(form("accept prompted")), req.Params.RequestState, req.Params.InputResponses)
	if err != nil || ask != nil {
		return &mcp.GetPromptResult{InputRequests: ask, RequestState: keep}, err
	}
	return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: says}}}}, nil
}

func (a *asker) resource(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
	ask, keep, says, err := a.play(ctx, "resource", req.Session, one(form("accept read")), req.Params.RequestState, req.Params.InputResponses)
	if err != nil || ask != nil {
		return &mcp.ReadResourceResult{InputRequests: ask, RequestState: keep}, err
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: req.Params.URI, Text: says}}}, nil
}

func modernSession(s *mcp.ServerSession) bool {
	p := s.InitializeParams()
	return p == nil || p.ProtocolVersion >= "2026"
}

// play runs one step of an interaction for a modern client, and all of it for a legacy one.
func (a *asker) play(ctx context.Context, name string, session *mcp.ServerSession, p interaction, state string, got mcp.InputResponseMap) (mcp.InputRequestMap, string, string, error) {
	if state != "" && !strings.HasPrefix(state, kept) {
		return nil, "", "", fmt.Errorf("the returned state is %q", state)
	}
	state = strings.TrimPrefix(state, kept)
	for {
		ask, keep, says := p(state, got)
		if ask == nil || modernSession(session) {
			return ask, kept + keep, says, nil
		}
		var err error
		if got, err = push(ctx, session, ask); err != nil {
			a.report(map[bool]string{true: "cancelled ", false: "refused "}[ctx.Err() != nil] + name)
			return nil, "", "", err
		}
		state = keep
	}
}

// push asks all questions at once and waits for all answers.
func push(ctx context.Context, session *mcp.ServerSession, ask mcp.InputRequestMap) (mcp.InputResponseMap, error) {
	var group sync.WaitGroup
	var mu sync.Mutex
	got, errs := mcp.InputResponseMap{}, []error(nil)
	for key, q := range ask {
		group.Go(func() {
			var answer mcp.InputResponse
			var err error
			switch q := q.(type) {
			case *mcp.ElicitParams:
				answer, err = session.Elicit(ctx, q)
			case *mcp.CreateMessageWithToolsParams:
				answer, err = session.CreateMessageWithTools(ctx, q)
			case *mcp.ListRootsParams:
				answer, err = session.ListRoots(ctx, q)
			}
			mu.Lock()
			defer mu.Unlock()
			got[key], errs = answer, append(errs, err)
		})
	}
	group.Wait()
	return got, errors.Join(errs...)
}

func form(message string) *mcp.ElicitParams {
	return &mcp.ElicitParams{Message: message, Mode: "form", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"value":{"type":"string"}},"required":["value"]}`)}
}

func sample(message string) *mcp.CreateMessageWithToolsParams {
	return &mcp.CreateMessageWithToolsParams{MaxTokens: 10, Messages: []*mcp.SamplingMessageV2{{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: message}}}}}
}

// answerText describes an answer.
func answerText(answer mcp.InputResponse) string {
	switch r := answer.(type) {
	case *mcp.ElicitResult:
		if v, ok := r.Content["value"]; ok {
			return fmt.Sprintf("%s:%v", r.Action, v)
		}
		return r.Action
	case *mcp.CreateMessageWithToolsResult:
		return r.Model + ":" + r.Content[0].(*mcp.TextContent).Text
	case *mcp.ListRootsResult:
		var uris []string
		for _, root := range r.Roots {
			uris = append(uris, root.URI)
		}
		return strings.Join(uris, " ")
	}
	return fmt.Sprintf("no answer: %T", answer)
}

// one asks one question.
func one(q mcp.InputRequest) interaction {
	return func(_ string, got mcp.InputResponseMap) (mcp.InputRequestMap, string, string) {
		if got["q"] == nil {
			return mcp.InputRequestMap{"q": q}, "", ""
		}
		return nil, "", answerText(got["q"])
	}
}

// both asks two questions at once.
func both(message string) interaction {
	return func(_ string, got mcp.InputResponseMap) (mcp.InputRequestMap, string, string) {
		if len(got) == 0 {
			return mcp.InputRequestMap{"a": form(message), "b": sample(message)}, "", ""
		}
		return nil, "", answerText(got["a"]) + " and " + answerText(got["b"])
	}
}

// rounds asks three questions one after the other, and keeps the answers.
func rounds(message string) interaction {
	return func(state string, got mcp.InputResponseMap) (mcp.InputRequestMap, string, string) {
		if got["q"] != nil {
			state += "/" + answerText(got["q"])
		}
		n := strings.Count(state, "/")
		if n == 3 {
			return nil, "", state
		}
		return mcp.InputRequestMap{"q": form(fmt.Sprint(message, n))}, state, ""
	}
}

// step reports progress and logs, asks, and goes on; a modern call begins again at the second step.
func (a *asker) step(ctx context.Context, req *mcp.CallToolRequest, in askerArgs) interaction {
	report := func(values ...float64) {
		for _, v := range values {
			_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: v, Total: 3})
		}
		_ = req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: "quiet"})
		_ = req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "error", Data: fmt.Sprintf("loud %v", values[len(values)-1])})
	}
	ask := one(form(in.Say))
	return func(state string, got mcp.InputResponseMap) (mcp.InputRequestMap, string, string) {
		switch {
		case got["q"] == nil:
			report(1, 2)
		case modernSession(req.Session):
			report(1, 2, 3)
		default:
			report(3)
		}
		return ask(state, got)
	}
}

// halves reports progress, waits for the gate, and reports more. If requested, it closes its stream before.
func (a *asker) halves(ctx context.Context, req *mcp.CallToolRequest, in askerArgs) interaction {
	say := func(v float64) {
		_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: v, Total: 2})
	}
	return func(string, mcp.InputResponseMap) (mcp.InputRequestMap, string, string) {
		say(1)
		if in.What == "close" {
			req.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: 10 * time.Millisecond})
		}
		select {
		case <-a.gate:
		case <-ctx.Done():
			a.report("cancelled gate")
		}
		say(2)
		return nil, "", "done"
	}
}

// change changes a list, or reports that a resource has changed.
func (a *asker) change(ctx context.Context, _ *mcp.CallToolRequest, in askerArgs) interaction {
	return func(string, mcp.InputResponseMap) (mcp.InputRequestMap, string, string) {
		what, name, _ := strings.Cut(in.What, " ")
		switch what {
		case "+tool":
			a.tool(name, func(context.Context, *mcp.CallToolRequest, askerArgs) interaction { return nil })
		case "-tool":
			a.server.RemoveTools(name)
		case "+prompt":
			a.server.AddPrompt(&mcp.Prompt{Name: name}, a.prompt)
		case "+resource":
			a.server.AddResource(&mcp.Resource{URI: name, Name: "n"}, a.resource)
		case "updated":
			_ = a.server.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: name})
		}
		return nil, "", in.What
	}
}

// eventLog is the reports of all processes of an asking server.
type eventLog struct {
	mu    sync.Mutex
	lines []string
}

func (d *eventLog) add(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

func (d *eventLog) count(line string) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.lines {
		if l == line {
			n++
		}
	}
	return n
}

// askingServer is a running server that asks.
type askingServer struct {
	kind   string
	events *eventLog
	gate   chan<- struct{} // of HTTP kinds
	url    string          // of HTTP kinds
	pipe   string          // processes report to it
}

func startAskingServer(t *testing.T, kind string) *askingServer {
	t.Helper()
	up := &askingServer{kind: kind, events: &eventLog{}}
	if strings.HasSuffix(kind, "-stdio") {
		up.pipe = collectLines(t, up.events.add)
		return up
	}
	a := newAsker(up.events.add)
	up.gate, up.url = a.gate, serveSDK(t, kind, a.server)
	return up
}

const asAsker = "DRAGOMAN_TEST_ASKER"

// TestSDKAskerProcess is no test: it is an asking server on standard input and output for other tests.
func TestSDKAskerProcess(t *testing.T) {
	to := os.Getenv(asAsker)
	if to == "" {
		t.Skip("only as a process of other tests")
	}
	c, err := net.Dial("tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = newAsker(func(line string) { _, _ = io.WriteString(c, line+"\n") }).server.Run(t.Context(), &mcp.StdioTransport{})
}

var askerArgv = []string{"-test.run=^TestSDKAskerProcess$"}

// command is the server as a process, for a client without Dragoman.
func (up *askingServer) command(t *testing.T) *exec.Cmd {
	t.Helper()
	self := testkit.Executable(t)
	c := exec.CommandContext(t.Context(), self, askerArgv...)
	c.Env = append(c.Environ(), asAsker+"="+up.pipe, "GORACE=atexit_sleep_ms=0")
	return c
}

// toml is the configuration for it, and more tables.
func (up *askingServer) toml(t *testing.T, more string) string {
	t.Helper()
	if up.url != "" {
		return fmt.Sprintf("[upstreams.default]\nurl = %q\n%s", up.url, more)
	}
	self := testkit.Executable(t)
	era := "legacy"
	if isModern(up.kind) {
		era = "modern" // it would serve legacy clients too
	}
	return fmt.Sprintf("[upstreams.default]\ncommand = [%q, %q]\nera = %q\n[upstreams.default.env]\n%s = %q\nGORACE = \"atexit_sleep_ms=0\"\n%s",
		self, askerArgv[0], era, asAsker, up.pipe, more)
}
