package faults

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"dragoman/adapters/grpc/providerpb"
)

// provider is a gRPC provider with the tools of server. Those of a process have further arguments.
type provider struct {
	providerpb.UnimplementedProviderServer
	// ran is told of each run, cancelled of each that its caller has cancelled.
	ran, cancelled func(tag string)
	// says is the text of a result; nil: it is the tag.
	says func(ctx context.Context) string
}

// work is the arguments of a tool: what it does before its result.
type work struct {
	Tag   string
	Times int // messages before the result: progress if it is wanted, else content
	Pause int // in ms, before each of them and before the result; negative: none, also where a tool has one
	Pad   int // bytes in each
	Size  int // of the result; 0: what the provider says
}

// ListCapabilities implements providerpb.ProviderServer.
func (p *provider) ListCapabilities(context.Context, *providerpb.ListCapabilitiesRequest) (*providerpb.ListCapabilitiesResponse, error) {
	out := &providerpb.ListCapabilitiesResponse{Provider: &providerpb.Implementation{Name: "up", Version: "1"}}
	for _, name := range []string{"echo", "big", "stream", "look"} {
		tool := &providerpb.Tool{Name: name + ".v1", Description: name, InputSchema: `{"type":"object"}`}
		if name == "look" {
			yes := true
			tool.Annotations = &providerpb.ToolAnnotations{ReadOnly: &yes}
		}
		out.Tools = append(out.Tools, tool)
	}
	return out, nil
}

// CallTool implements providerpb.ProviderServer.
func (p *provider) CallTool(q *providerpb.CallToolRequest, to grpc.ServerStreamingServer[providerpb.CallToolResponse]) error {
	var w work
	if err := json.Unmarshal([]byte(q.GetArguments()), &w); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	p.ran(w.Tag)
	switch q.GetName() {
	case "big.v1":
		w.Size = cmp.Or(w.Size, bigSize)
	case "stream.v1":
		w = work{w.Tag, cmp.Or(w.Times, events), cmp.Or(w.Pause, int(eventTime.Milliseconds())), cmp.Or(w.Pad, eventPad), w.Size}
	}
	pad := strings.Repeat("y", w.Pad)
	for i := range w.Times {
		m := &providerpb.CallToolResponse{Message: &providerpb.CallToolResponse_Content{Content: text(pad)}}
		if q.GetWants().GetProgress() {
			m.Message = &providerpb.CallToolResponse_Progress{Progress: &providerpb.Progress{Progress: float64(i + 1), Message: pad}}
		}
		err := p.pause(to.Context(), w.Pause)
		if err == nil {
			err = to.Send(m)
		}
		if err != nil {
			p.cancelled(w.Tag)
			return err
		}
	}
	if err := p.pause(to.Context(), w.Pause); err != nil {
		p.cancelled(w.Tag)
		return err
	}
	said := w.Tag
	if p.says != nil {
		said = p.says(to.Context())
	}
	if w.Size > 0 {
		said = strings.Repeat("x", w.Size)
	}
	return to.Send(&providerpb.CallToolResponse{Message: &providerpb.CallToolResponse_Result{Result: &providerpb.CallToolResult{Content: []*providerpb.Content{text(said)}}}})
}

// pause waits a number of ms, unless the call ends before.
func (p *provider) pause(ctx context.Context, ms int) error {
	if ms <= 0 {
		return nil
	}
	timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

func text(of string) *providerpb.Content {
	return &providerpb.Content{Kind: &providerpb.Content_Text{Text: of}}
}

// serveProvider makes a server a gRPC provider in this process.
func (s *server) serveProvider(t *testing.T) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = ln.Addr().String()
	srv := grpc.NewServer()
	providerpb.RegisterProviderServer(srv, &provider{ran: s.run, cancelled: func(string) {}})
	s.group.Go(func() { _ = srv.Serve(ln) })
	t.Cleanup(func() { srv.Stop(); s.group.Wait() })
}

// run counts a run of the call with the tag.
func (s *server) run(tag string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs[tag]++
}

// tool returns the name that a tool has at the server: those of providers have a version (mcp.provider.v1, Tool.name).
func (s *server) tool(name string) string {
	if s.kind == "grpc" {
		return fmt.Sprint(name, ".v1")
	}
	return name
}
