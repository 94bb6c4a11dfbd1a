package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"dragoman/internal/app"
	"dragoman/internal/config"
	"dragoman/internal/testkit"
)

// progressToken is the token of every call whose progress is checked.
const progressToken = "token-\u00e9"

// askedFaces are the SDK's clients, by what they speak to Dragoman.
var askedFaces = []string{"modern", "legacy", "sse", "modern-stdio", "legacy-stdio"}

// askedClient is a client of the official SDK that answers as the message of the question says.
type askedClient struct {
	*mcp.ClientSession
	t     *testing.T
	face  string
	ctx   context.Context // the whole test's time
	open  chan string     // questions whose answer is delayed
	late  chan struct{}   // releases one that answers although it was withdrawn
	gone  chan string     // questions that were withdrawn
	close func()
	over  chan struct{} // the test is over

	mu           sync.Mutex
	rendezvouses map[string]*rendezvous
	urls, ids    []string // of URL questions
	completed    []string // those that were reported as complete
	updated      []string
	acked        []*mcp.NotificationSubscriptions
	lists        map[string]int // notices of changed lists
	progress     []float64      // of calls with progressToken
	otherTokens  []any          // other progress tokens
	logs         []string
}

// rendezvous is a number of questions that must all be open at the same time.
type rendezvous struct {
	here int
	full chan struct{}
}

// respond does what a message says and answers with what to say.
//
//	accept VALUE, decline, cancel    that, at once
//	meet N NAME VALUE                accept once N questions have that NAME
//	hang VALUE                       until withdrawn
//	late VALUE                       accept, when the test says so, withdrawn or not
//	fail                             an error
func (c *askedClient) respond(ctx context.Context, message string) (action, value string, err error) {
	f := append(strings.Fields(message), "", "", "", "")
	switch f[0] {
	case "meet":
		return "accept", f[3], c.meet(ctx, f[2], f[1])
	case "hang":
		c.open <- f[1]
		select {
		case <-ctx.Done():
			c.gone <- f[1]
		case <-c.over:
		}
		return "", "", errors.New("withdrawn")
	case "late":
		c.open <- f[1]
		select {
		case <-c.late:
		case <-c.over:
		}
		return "accept", f[1], nil
	case "fail":
		return "", "", errors.New("the handler fails")
	}
	action, value, _ = strings.Cut(message, " ")
	return action, value, nil
}

func (c *askedClient) meet(ctx context.Context, name, number string) error {
	n, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	c.mu.Lock()
	m := c.rendezvouses[name]
	if m == nil {
		m = &rendezvous{full: make(chan struct{})}
		c.rendezvouses[name] = m
	}
	if m.here++; m.here == n {
		close(m.full)
		delete(c.rendezvouses, name)
	}
	c.mu.Unlock()
	select {
	case <-m.full:
		return nil
	case <-ctx.Done():
	case <-c.over:
	case <-c.ctx.Done():
	}
	return fmt.Errorf("alone at %s", name)
}

func (c *askedClient) elicited(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	action, value, err := c.respond(ctx, r.Params.Message)
	if err != nil {
		return nil, err
	}
	res := &mcp.ElicitResult{Action: action}
	if r.Params.Mode == "url" {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.urls, c.ids = append(c.urls, r.Params.URL), append(c.ids, r.Params.ElicitationID)
	} else if action == "accept" {
		res.Content = map[string]any{"value": value}
	}
	return res, nil
}

func (c *askedClient) sampled(ctx context.Context, r *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	_, value, err := c.respond(ctx, r.Params.Messages[0].Content.(*mcp.TextContent).Text)
	if err != nil {
		return nil, err
	}
	return &mcp.CreateMessageResult{Model: "m", Role: "assistant", Content: &mcp.TextContent{Text: value}}, nil
}

func (c *askedClient) changed(list string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lists[list]++
}

func (c *askedClient) options() *mcp.ClientOptions {
	return &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{RootsV2: &mcp.RootCapabilities{ListChanged: true},
			Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{}}},
		ElicitationHandler: c.elicited, CreateMessageHandler: c.sampled,
		ElicitationCompleteHandler: func(_ context.Context, r *mcp.ElicitationCompleteNotificationRequest) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.completed = append(c.completed, r.Params.ElicitationID)
		},
		ToolListChangedHandler:     func(context.Context, *mcp.ToolListChangedRequest) { c.changed("tools") },
		PromptListChangedHandler:   func(context.Context, *mcp.PromptListChangedRequest) { c.changed("prompts") },
		ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) { c.changed("resources") },
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.updated = append(c.updated, r.Params.URI)
		},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.progress = append(c.progress, r.Params.Progress)
			if r.Params.ProgressToken != progressToken {
				c.otherTokens = append(c.otherTokens, r.Params.ProgressToken)
			}
		},
		LoggingMessageHandler: func(_ context.Context, r *mcp.LoggingMessageRequest) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.logs = append(c.logs, fmt.Sprint(r.Params.Data))
		},
	}
}

// acknowledgements counts those that the SDK does not report otherwise.
func (c *askedClient) acknowledgements(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if p, ok := req.GetParams().(*mcp.SubscriptionsAcknowledgedParams); ok {
			c.mu.Lock()
			c.acked = append(c.acked, &p.Notifications)
			c.mu.Unlock()
		}
		return next(ctx, method, req)
	}
}

// connect connects a client with one root over a transport.
func connectAskedClient(t *testing.T, face string, transport mcp.Transport) *askedClient {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*testkit.Patient)
	t.Cleanup(cancel)
	c := &askedClient{t: t, face: face, ctx: ctx, open: make(chan string, 16), gone: make(chan string, 16), late: make(chan struct{}),
		over: make(chan struct{}), rendezvouses: map[string]*rendezvous{}, lists: map[string]int{}}
	client := mcp.NewClient(&mcp.Implementation{Name: "asked", Version: "1"}, c.options())
	client.AddRoots(&mcp.Root{URI: "file:///root", Name: "root"})
	client.AddReceivingMiddleware(c.acknowledgements)
	var opt *mcp.ClientSessionOptions
	if !isModern(face) {
		opt = &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"}
	}
	session, err := client.Connect(t.Context(), transport, opt) // the context of HTTP+SSE lasts as long as its stream
	if err != nil {
		t.Fatal(err)
	}
	c.ClientSession = session
	c.close = sync.OnceFunc(func() {
		close(c.over)
		_ = session.Close()
	})
	t.Cleanup(c.close)
	if v := session.InitializeResult().ProtocolVersion; (v >= "2026") != isModern(face) {
		t.Errorf("the client speaks %s", v)
	}
	return c
}

// client connects an SDK client to the server through Dragoman, or, without a face, directly.
func (up *askingServer) client(t *testing.T, face, more string) *askedClient {
	t.Helper()
	switch {
	case face == "" && up.url == "":
		return connectAskedClient(t, up.kind, &mcp.CommandTransport{Command: up.command(t)})
	case face == "" && up.kind == "sse":
		return connectAskedClient(t, up.kind, sseTransport(up.url, http.DefaultTransport))
	case face == "":
		return connectAskedClient(t, up.kind, &mcp.StreamableClientTransport{Endpoint: up.url})
	case strings.HasSuffix(face, "-stdio"):
		return connectAskedClient(t, face, stdioTransport(t, up.toml(t, more)))
	}
	r := startRig(t, up.toml(t, more), false)
	if face == "sse" {
		return connectAskedClient(t, face, sseTransport(r.base+"/sse", r.http.Transport))
	}
	return connectAskedClient(t, face, &mcp.StreamableClientTransport{Endpoint: r.base + "/mcp", HTTPClient: r.http})
}

// wholePosts completes POST requests whose context has ended.
type wholePosts struct{ http.RoundTripper }

func (w wholePosts) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodPost {
		req = req.WithContext(context.WithoutCancel(req.Context()))
	}
	return w.RoundTripper.RoundTrip(req)
}

// sseTransport is HTTP+SSE for a client that cancels calls. The pool of net/http gets a connection back before a response without a body is handed
// over. A request that is cancelled in between closes the connection, the next request on it fails with "context canceled", and the SDK ends the
// session.
func sseTransport(endpoint string, via http.RoundTripper) mcp.Transport {
	return &mcp.SSEClientTransport{Endpoint: endpoint, HTTPClient: &http.Client{Transport: wholePosts{via}}}
}

// stdioTransport is Dragoman on standard input and output, in this process.
func stdioTransport(t *testing.T, toml string) mcp.Transport {
	t.Helper()
	cfg, err := config.LoadConfig(config.LoadOptions{File: testkit.WriteFile(t, "asked.toml", toml)})
	if err != nil {
		t.Fatal(err)
	}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := app.RunStdio(context.Background(), cfg, app.Streams{In: inR, Out: outW, Err: &testkit.LockedBuffer{}})
		_ = outW.Close()
		done <- err
	}()
	t.Cleanup(func() { // after the client's own
		_ = inW.Close()
		_, _ = io.Copy(io.Discard, outR)
		if err := testkit.Receive(t, "the end of stdio", done); err != nil {
			t.Error(err)
		}
	})
	return &mcp.IOTransport{Reader: outR, Writer: inW}
}

// call calls a tool and returns its text; an error of the tool is an error.
func (c *askedClient) call(ctx context.Context, name, say, what string) (string, error) {
	res, err := c.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: map[string]any{"say": say, "what": what}})
	if err != nil {
		return "", err
	}
	text := ""
	if len(res.Content) > 0 {
		text = res.Content[0].(*mcp.TextContent).Text
	}
	if res.IsError {
		return "", errors.New(text)
	}
	return text, nil
}

// answers checks the text of a tool's result.
func (c *askedClient) answers(want, name, say string) {
	c.t.Helper()
	if got, err := c.call(c.ctx, name, say, ""); err != nil || got != want {
		c.t.Errorf("%s %q: %q, %v; want %q", name, say, got, err, want)
	}
}

// sees waits until a condition on the client's messages holds.
func (c *askedClient) sees(what string, cond func() bool) {
	c.t.Helper()
	testkit.Eventually(c.t, what, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return cond()
	})
}
