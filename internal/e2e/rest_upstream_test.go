package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-json"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"dragoman/internal/app"
	"dragoman/internal/config"
	"dragoman/internal/testkit"
	"dragoman/proxy"
)

// envelopeService is conformance/rest/service.py, a service without MCP, as a process.
type envelopeService struct {
	t   *testing.T
	url string
}

func startEnvelopeService(t *testing.T) *envelopeService {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is missing: the service of the REST envelope, conformance/rest/service.py, is written in it")
	}
	cmd := exec.Command(python, "conformance/rest/service.py", "--stdin")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr := &testkit.LockedBuffer{}
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the service: %v", err)
		}
		if out := stderr.String(); out != "" {
			t.Errorf("the service printed %s", out)
		}
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	_, url, ok := strings.Cut(strings.TrimSpace(line), "listening on ")
	if !ok {
		t.Fatalf("%q, %v, %s", line, err, stderr)
	}
	return &envelopeService{t: t, url: url}
}

func (s *envelopeService) toml() string {
	return fmt.Sprintf("[upstreams.default]\nurl = %q\ntransport = \"rest\"\n", s.url+"/")
}

// seen returns the events that the service has recorded.
func (s *envelopeService) seen() []string {
	s.t.Helper()
	res, err := http.Get(s.url + "/seen")
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var out []string
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil {
		s.t.Fatal(err)
	}
	return out
}

// be sets the answer of GET /health.
func (s *envelopeService) be(status string) {
	s.t.Helper()
	res, err := http.Post(s.url+"/state", "application/json", strings.NewReader(`{"status":"`+status+`"}`))
	if err != nil {
		s.t.Fatal(err)
	}
	_ = res.Body.Close()
}

// TestRESTUpstream runs the official SDK's client, at every endpoint, with a service that speaks the envelope.
func TestRESTUpstream(t *testing.T) {
	service := startEnvelopeService(t)
	for _, face := range askedFaces {
		t.Run(face, func(t *testing.T) {
			session, heard := sdkClient(t, face, service.toml())
			ctx, cancel := context.WithTimeout(t.Context(), 3*testkit.Patient)
			defer cancel()
			who := session.InitializeResult()
			if (who.ProtocolVersion >= "2026") != strings.HasPrefix(face, "modern") || who.ServerInfo.Name != "envelope-fixture" || who.ServerInfo.Version != "1.4.0" {
				t.Errorf("%+v", who)
			}
			if c := who.Capabilities; c.Tools == nil || c.Resources == nil || c.Prompts == nil || c.Completions == nil || c.Logging == nil {
				t.Errorf("%+v", c)
			}
			restCalls(t, ctx, session)
			restDocuments(t, ctx, session)
			restNotices(t, ctx, face, session, heard)
			restCancel(t, ctx, service, session)
		})
	}
}

func restCalls(t *testing.T, ctx context.Context, s *mcp.ClientSession) {
	t.Helper()
	list, err := s.ListTools(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(list.Tools, func(t *mcp.Tool) bool { return t.Name == "add" })
	if at < 0 || list.Tools[at].Description != "Adds two numbers" || list.Tools[at].Title != "Add" || list.Tools[at].OutputSchema == nil || !list.Tools[at].Annotations.ReadOnlyHint {
		t.Errorf("%+v", list.Tools)
	}
	call := func(name string, arguments map[string]any) (*mcp.CallToolResult, error) {
		if arguments == nil {
			arguments = map[string]any{}
		}
		return s.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: arguments})
	}
	text := func(r *mcp.CallToolResult, err error) string {
		if err != nil || len(r.Content) == 0 {
			return fmt.Sprint("?", err)
		}
		return r.Content[0].(*mcp.TextContent).Text
	}
	strange := "<&> \u2028 \u65e5\u672c \x00 9007199254740993"
	if got := text(call("echo", map[string]any{"message": strange})); got != "Echo: "+strange {
		t.Errorf("%q", got)
	}
	r, err := call("add", map[string]any{"a": 2, "b": 0.5})
	if got := text(r, err); got != `{"sum":2.5}` || fmt.Sprint(r.StructuredContent) != "map[sum:2.5]" {
		t.Errorf("%q, %+v", got, r)
	}
	if got := text(call("shape", map[string]any{"kind": "array"})); got != `[1,"two"]` {
		t.Errorf("%q", got)
	}
	for tool, want := range map[string]string{"test_error_handling": "This tool intentionally returns an error for testing", "fail_with_result": "the whole story"} {
		if r, err := call(tool, nil); err != nil || !r.IsError || text(r, err) != want {
			t.Errorf("%s: %+v, %v", tool, r, err)
		}
	}
	for code, want := range map[string]struct {
		number int64
		name   string
	}{"TOOL_NOT_FOUND": {-32602, ""}, "INVALID_ARGUMENTS": {-32602, ""}, "TIMEOUT": {-32603, proxy.UpstreamTimeout.Name},
		"SERVICE_UNAVAILABLE": {-32603, proxy.Overloaded.Name}, "RATE_LIMITED": {-32603, `"code":"upstream_rate_limited","retryable":true,"retryAfter":9`},
		"INTERNAL_ERROR": {-32603, `"code":"upstream_internal_error"`}} {
		_, err := call("fail", map[string]any{"code": code})
		var e *jsonrpc.Error
		if !errors.As(err, &e) || e.Code != want.number || !strings.Contains(e.Message, "as you asked: "+code) || !strings.Contains(string(e.Data), want.name) {
			t.Errorf("%s: %v", code, err)
		}
	}
	if _, err := call("no_such_tool", nil); err == nil || !strings.Contains(err.Error(), "Tool not found: no_such_tool") {
		t.Error(err)
	}
}

func restDocuments(t *testing.T, ctx context.Context, s *mcp.ClientSession) {
	t.Helper()
	if r, err := s.ListResources(ctx, nil); err != nil || len(r.Resources) != 3 || r.Resources[0].MIMEType != "text/plain" {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := s.ListResourceTemplates(ctx, nil); err != nil || len(r.ResourceTemplates) != 2 || r.ResourceTemplates[0].URITemplate != "planet://{name}" {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := s.ReadResource(ctx, &mcp.ReadResourceParams{URI: "moon://mars/2"}); err != nil || r.Contents[0].Text != "moon 2 of mars" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := s.ReadResource(ctx, &mcp.ReadResourceParams{URI: "note://none"}); err == nil {
		t.Error("a missing resource was read")
	}
	if r, err := s.ListPrompts(ctx, nil); err != nil || len(r.Prompts) != 2 || len(r.Prompts[0].Arguments) != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	r, err := s.GetPrompt(ctx, &mcp.GetPromptParams{Name: "greet", Arguments: map[string]string{"who": "Zo\u00eb"}})
	if err != nil || r.Messages[0].Content.(*mcp.TextContent).Text != "Greet Zo\u00eb, as you like." {
		t.Errorf("%+v, %v", r, err)
	}
	c, err := s.Complete(ctx, &mcp.CompleteParams{Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: "greet"}, Argument: mcp.CompleteParamsArgument{Name: "style", Value: "br"}})
	if err != nil || !slices.Equal(c.Completion.Values, []string{"brief", "bright"}) {
		t.Errorf("%+v, %v", c, err)
	}
}

// restNotices checks progress and logs of calls, as they come and in order.
func restNotices(t *testing.T, ctx context.Context, face string, s *mcp.ClientSession, heard *sdkHeard) {
	t.Helper()
	call := func(name string, arguments map[string]any) {
		t.Helper()
		params := &mcp.CallToolParams{Name: name, Arguments: arguments, Meta: mcp.Meta{}}
		params.SetProgressToken("tok")
		if strings.HasPrefix(face, "modern") {
			params.Meta[mcp.MetaKeyLogLevel] = "info"
		} else if err := s.SetLoggingLevel(ctx, &mcp.SetLoggingLevelParams{Level: "info"}); err != nil {
			t.Error(err)
		}
		if _, err := s.CallTool(ctx, params); err != nil {
			t.Error(name, err)
		}
	}
	call("countdown", map[string]any{"steps": 3, "pauseMs": 5})
	call("chat", map[string]any{"lines": 2, "tag": "t"})
	testkit.Eventually(t, "progress and logs", func() bool {
		heard.mu.Lock()
		defer heard.mu.Unlock()
		return len(heard.progress) >= 3 && len(heard.logs) >= 2
	})
	heard.mu.Lock()
	defer heard.mu.Unlock()
	if !slices.Equal(heard.progress, []float64{1, 2, 3}) || !slices.Equal(heard.logs, []string{"map[line:1 tag:t]", "map[line:2 tag:t]"}) {
		t.Errorf("progress %v, logs %v", heard.progress, heard.logs)
	}
}

// restCancel checks that a cancelled call is cancelled at the service.
func restCancel(t *testing.T, ctx context.Context, service *envelopeService, s *mcp.ClientSession) {
	t.Helper()
	before := len(service.seen())
	running := func() string {
		r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "stats"})
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(r.StructuredContent.(map[string]any)["running"])
	}
	call, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		_, err := s.CallTool(call, &mcp.CallToolParams{Name: "slow", Arguments: map[string]any{"ms": 60_000}})
		done <- err
	}()
	testkit.Eventually(t, "the call runs", func() bool { return running() == "1" })
	stop()
	if err := testkit.Receive(t, "the end of the call", done); err == nil {
		t.Error("a cancelled call has a result")
	}
	testkit.Eventually(t, "the service is left", func() bool { return len(service.seen()) == before+1 })
	if seen := service.seen(); seen[len(seen)-1] != "slow was left" || running() != "0" {
		t.Error(seen)
	}
}

// TestRESTUpstreamAsks: a question of the service is data of an envelope, and reaches clients of both eras as a question of their era.
func TestRESTUpstreamAsks(t *testing.T) {
	service := startEnvelopeService(t)
	for _, version := range []string{"", "2025-11-25", "2025-06-18"} {
		t.Run("revision "+version, func(t *testing.T) {
			r := startRig(t, service.toml(), false)
			c := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1"}, &mcp.ClientOptions{
				ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "anna, asked " + r.Params.Message}}, nil
				},
				CreateMessageHandler: func(_ context.Context, r *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
					return &mcp.CreateMessageResult{Model: "m", Role: "assistant", Content: &mcp.TextContent{Text: "heard " + r.Params.Messages[0].Content.(*mcp.TextContent).Text}}, nil
				}})
			var opt *mcp.ClientSessionOptions
			if version != "" {
				opt = &mcp.ClientSessionOptions{ProtocolVersion: version}
			}
			s, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: r.base + "/mcp", HTTPClient: r.http}, opt)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			ctx, cancel := context.WithTimeout(t.Context(), testkit.Patient)
			defer cancel()
			for tool, want := range map[string]string{"ask_user": "accept anna, asked who?", "ask_rounds": "anna, asked What is your name?: heard a poem",
				"ask_at_once": "anna, asked What is your name?: heard a riddle"} {
				arguments := map[string]any{}
				if tool == "ask_user" {
					arguments["question"] = "who?"
				}
				res, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
				if err != nil || res.Content[0].(*mcp.TextContent).Text != want {
					t.Errorf("%s: %+v, %v", tool, res, err)
				}
			}
			if res, err := s.ReadResource(ctx, &mcp.ReadResourceParams{URI: "note://asked"}); err != nil || res.Contents[0].Text != "a note for anna, asked Who reads this?" {
				t.Errorf("%+v, %v", res, err)
			}
		})
	}
}

// TestRESTUpstreamUndeclared: the service does not know what a client has declared; no client gets a question for an undeclared capability.
func TestRESTUpstreamUndeclared(t *testing.T) {
	r := startRig(t, startEnvelopeService(t).toml(), false)
	res := r.must("POST", "/mcp", modernCall("1", "ask_roots", ""), modernHeaders("tools/call", "ask_roots")...)
	if !strings.Contains(res.body, `"code":-32021`) || !strings.Contains(res.body, `"requiredCapabilities":{"roots":{}}`) {
		t.Error(res.status, res.body)
	}
	session := r.open("2025-11-25", "{}")
	if res := r.must("POST", "/mcp", legacyCall("1", "ask_roots"), legacyHeaders(session)...); !strings.Contains(res.body, proxy.Question.Name) {
		t.Error(res.status, res.body)
	}
	res = r.must("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{},`+modernMeta+`}}`, modernHeaders("subscriptions/listen", "")...)
	if !strings.Contains(res.body, `"code":-32601`) {
		t.Error(res.status, res.body)
	}
}

// TestRESTUpstreamHealth: GET /health of the service decides the readiness of the upstream.
func TestRESTUpstreamHealth(t *testing.T) {
	service := startEnvelopeService(t)
	service.be("unavailable")
	r := startRig(t, service.toml(), false)
	call := func() string {
		return r.must("POST", "/mcp", modernCall("1", "stats", ""), modernHeaders("tools/call", "stats")...).body
	}
	if got := call(); !strings.Contains(got, "the service says that it is unavailable: store (gone away) (GET /health, HTTP 503)") {
		t.Error(got)
	}
	if c := r.h.Readiness().Checks[0]; c.Ready || !strings.Contains(c.Why, "store (gone away)") {
		t.Errorf("%+v", c)
	}
	service.be("degraded")
	testkit.Eventually(t, "it serves again", func() bool { return strings.Contains(call(), `"running":0`) })
	if c := r.h.Readiness().Checks[0]; !c.Ready || c.Why != "" {
		t.Errorf("%+v", c)
	}
	service.be("unavailable")
	if got := call(); !strings.Contains(got, "gone away") || !strings.Contains(got, proxy.Overloaded.Name) {
		t.Error(got)
	}
	if c := r.h.Readiness().Checks[0]; c.Ready || !strings.Contains(c.Why, "gone away") {
		t.Errorf("%+v", c)
	}
}

// TestRESTUpstreamIsNoService: the error of a url without such a service says what is there instead, and how to fix it.
func TestRESTUpstreamIsNoService(t *testing.T) {
	r := startRig(t, fmt.Sprintf("[upstreams.default]\nurl = %q\ntransport = \"rest\"\n", startEnvelopeService(t).url+"/elsewhere"), false)
	res := r.must("POST", "/mcp", modernCall("1", "echo", ""), modernHeaders("tools/call", "echo")...)
	if !strings.Contains(res.body, "the service answered GET /tools with HTTP 404") || !strings.Contains(res.body, "upstreams.NAME.url") {
		t.Error(res.status, res.body)
	}
}

// TestRESTUpstreamProbe: the probe of a service, and configured pins that a service cannot have.
func TestRESTUpstreamProbe(t *testing.T) {
	service := startEnvelopeService(t)
	cfg, err := config.LoadConfig(config.LoadOptions{File: testkit.WriteFile(t, "p.toml", service.toml())})
	if err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patient)
	defer cancel()
	if err := app.RunProbe(ctx, cfg, app.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}, false, testkit.Patient); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"speaks         the REST envelope", `{"name":"envelope-fixture","version":"1.4.0"}`, `"completions":{}`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s\nwant %s", out.String(), want)
		}
	}
	for more, want := range map[string]string{
		"era = \"legacy\"\n":        `c.toml:4: upstreams.a.era: excludes every modern revision, but upstreams.a.transport (c.toml:3) is rest, whose services are spoken to as modern servers; fix: write auto or modern, or remove it`,
		"eras = [\"2025-11-25\"]\n": `c.toml:4: upstreams.a.eras: excludes every modern revision, but upstreams.a.transport (c.toml:3) is rest`,
		"era = \"modern\"\n":        "",
	} {
		file := testkit.WriteFile(t, "c.toml", "[upstreams.a]\nurl = \"http://a\"\ntransport = \"rest\"\n"+more)
		_, err := config.LoadConfig(config.LoadOptions{File: file})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), file, "c.toml"), want)) {
			t.Errorf("%s: %v", more, err)
		}
	}
	if _, err := config.LoadConfig(config.LoadOptions{File: testkit.WriteFile(t, "c.toml", "[upstreams.a]\ncommand = [\"a\"]\ntransport = \"rest\"\n")}); err == nil || !strings.Contains(err.Error(), "rest needs a url, not a command") {
		t.Error(err)
	}
}

// TestRESTUpstreamCut: a service that exits during a call fails that call only.
func TestRESTUpstreamCut(t *testing.T) {
	service := startEnvelopeService(t)
	r := startRig(t, service.toml(), true)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := r.do(ctx, "POST", "/mcp", strings.Replace(modernCall("1", "slow", ""), `"arguments":{}`, `"arguments":{"ms":60000}`, 1), modernHeaders("tools/call", "slow")...)
	if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	testkit.Eventually(t, "the service is left", func() bool { return slices.Contains(service.seen(), "slow was left") })
}

// TestRESTUpstreamOfDragoman puts one Dragoman in front of the REST endpoint of another.
func TestRESTUpstreamOfDragoman(t *testing.T) {
	for _, kind := range []string{"modern", "legacy"} {
		for _, face := range []string{"modern", "legacy"} {
			t.Run(face+" to "+kind, func(t *testing.T) {
				toml, reports := sdkUpstream(t, kind)
				behind := startRig(t, toml, true)
				session, heard := sdkClient(t, face, fmt.Sprintf("[upstreams.default]\nurl = %q\ntransport = \"rest\"\n", behind.base))
				ctx, cancel := context.WithTimeout(t.Context(), testkit.Patient)
				defer cancel()
				sdkCalls(t, ctx, session)
				sdkTalk(t, ctx, face, session, heard)
				sdkCancel(t, ctx, session, reports)
			})
		}
	}
}
