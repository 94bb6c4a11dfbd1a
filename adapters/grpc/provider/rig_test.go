package provider

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"dragoman/adapters/events"
	"dragoman/adapters/grpc/channel"
	"dragoman/adapters/grpc/providerpb"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scripted is a provider whose answers are of the test. A method without one is not implemented.
type scripted struct {
	providerpb.UnimplementedProviderServer
	list     *providerpb.ListCapabilitiesResponse
	pages    func(*providerpb.ListCapabilitiesRequest) *providerpb.ListCapabilitiesResponse
	call     func(*providerpb.CallToolRequest, grpc.ServerStreamingServer[providerpb.CallToolResponse]) error
	interact func(grpc.BidiStreamingServer[providerpb.InteractRequest, providerpb.InteractResponse]) error
	read     func(context.Context, *providerpb.ReadResourceRequest) (*providerpb.ReadResourceResponse, error)
	prompt   func(context.Context, *providerpb.GetPromptRequest) (*providerpb.GetPromptResponse, error)
	complete func(context.Context, *providerpb.CompleteRequest) (*providerpb.CompleteResponse, error)
	watch    func(*providerpb.WatchRequest, grpc.ServerStreamingServer[providerpb.WatchResponse]) error
}

func (s *scripted) ListCapabilities(ctx context.Context, r *providerpb.ListCapabilitiesRequest) (*providerpb.ListCapabilitiesResponse, error) {
	switch {
	case s.pages != nil:
		return s.pages(r), nil
	case s.list != nil:
		return s.list, nil
	}
	return s.UnimplementedProviderServer.ListCapabilities(ctx, r)
}

func (s *scripted) CallTool(r *providerpb.CallToolRequest, to grpc.ServerStreamingServer[providerpb.CallToolResponse]) error {
	if s.call == nil {
		return s.UnimplementedProviderServer.CallTool(r, to)
	}
	return s.call(r, to)
}

func (s *scripted) Interact(to grpc.BidiStreamingServer[providerpb.InteractRequest, providerpb.InteractResponse]) error {
	if s.interact == nil {
		return s.UnimplementedProviderServer.Interact(to)
	}
	return s.interact(to)
}

func (s *scripted) ReadResource(ctx context.Context, r *providerpb.ReadResourceRequest) (*providerpb.ReadResourceResponse, error) {
	if s.read == nil {
		return s.UnimplementedProviderServer.ReadResource(ctx, r)
	}
	return s.read(ctx, r)
}

func (s *scripted) GetPrompt(ctx context.Context, r *providerpb.GetPromptRequest) (*providerpb.GetPromptResponse, error) {
	if s.prompt == nil {
		return s.UnimplementedProviderServer.GetPrompt(ctx, r)
	}
	return s.prompt(ctx, r)
}

func (s *scripted) Complete(ctx context.Context, r *providerpb.CompleteRequest) (*providerpb.CompleteResponse, error) {
	if s.complete == nil {
		return s.UnimplementedProviderServer.Complete(ctx, r)
	}
	return s.complete(ctx, r)
}

func (s *scripted) Watch(r *providerpb.WatchRequest, to grpc.ServerStreamingServer[providerpb.WatchResponse]) error {
	if s.watch == nil {
		return s.UnimplementedProviderServer.Watch(r, to)
	}
	return s.watch(r, to)
}

// rig is a provider with the Upstream in front of it.
type rig struct {
	t *testing.T
	u *Upstream

	mu    sync.Mutex
	notes []string
	told  []string // of Changed
	sent  []string // of Event
}

// asking are bounds that tests do not reach.
var asking = Asking{TTL: time.Minute, Settle: 5 * time.Millisecond, Most: 100, MostOfPrincipal: 100, Rounds: 10}

func newRig(t *testing.T, p providerpb.ProviderServer, bounds Asking) *rig {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	providerpb.RegisterProviderServer(s, p)
	served := make(chan struct{})
	go func() { defer close(served); _ = s.Serve(l) }()
	c, err := channel.New(channel.Options{Target: "dns:///" + l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t}
	r.u = New(c, Options{Name: "p", MaxResult: 1 << 20, Asking: NewPending(bounds), Note: func(level, msg string, err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		text := level + ": " + msg
		if err != nil {
			text += ": " + err.Error()
		}
		r.notes = append(r.notes, text)
	}, Changed: func(m *wire.Message) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.told = append(r.told, string(m.Append(nil)))
	}, Event: func(e *events.Event) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.sent = append(r.sent, e.Type)
		return e.Validate()
	}})
	t.Cleanup(func() {
		r.u.End()
		_ = c.Close()
		s.Stop()
		<-served
	})
	return r
}

// noted returns the lines of the log above debug.
func (r *rig) noted() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for _, n := range r.notes {
		if !strings.HasPrefix(n, "debug") {
			out = append(out, n)
		}
	}
	return strings.Join(out, "\n")
}

// meta is the _meta of a modern request.
const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"sampling":{},"roots":{}}}`

// exchange returns a modern request; params has its members, each followed by a comma.
func (r *rig) exchange(method, params, meta string) *proxy.Exchange {
	r.t.Helper()
	m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":"a\/1","method":"` + method + `","params":{` + params + meta + `}}`))
	if err != nil {
		r.t.Fatal(err)
	}
	return &proxy.Exchange{Msg: m, Client: proxy.Client{Era: proxy.Modern}}
}

// all returns the replies to a request, or the row of its error in brackets.
func (r *rig) all(ex *proxy.Exchange) (out []string) {
	r.t.Helper()
	replies, err := r.u.Call(ex)
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
	e, ok := errors.AsType[*proxy.Error](err)
	if !ok {
		return "[" + err.Error() + "]"
	}
	return "[" + e.Name + "] " + e.Message
}

// ask is all for a request of one reply.
func (r *rig) ask(method, params string) string {
	r.t.Helper()
	all := r.all(r.exchange(method, params, meta))
	return all[len(all)-1]
}

// result cuts the result out of a response.
func result(response string) string {
	_, rest, _ := strings.Cut(response, `"result":`)
	return strings.TrimSuffix(rest, "}")
}

// page is a provider that offers tools.
func page(tools ...*providerpb.Tool) *providerpb.ListCapabilitiesResponse {
	return &providerpb.ListCapabilitiesResponse{Provider: &providerpb.Implementation{Name: "n", Version: "v"}, Tools: tools}
}

// echo is the tool of most tests.
func echo() *providerpb.Tool {
	return &providerpb.Tool{Name: "echo.v1", Description: "d", InputSchema: `{"type":"object","properties":{"n":{"type":"integer"}}}`}
}

// info is the end of most results.
const info = `"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"n","version":"v"}}}`
