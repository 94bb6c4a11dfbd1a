package main

import (
	"context"
	"net"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"dragoman/adapters/grpc/providerpb"
	"dragoman/bench/lab/grpc/echopb"
	"dragoman/bench/reference"
	"dragoman/proxy/wire"
)

// echoServer is a gRPC server with the tool echo of the reference servers.
type echoServer struct{ grpc *grpc.Server }

func newServer() (server, error) {
	s := echoServer{grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage))}
	providerpb.RegisterProviderServer(s.grpc, provider{})
	echopb.RegisterEchoServer(s.grpc, echo{})
	reflection.Register(s.grpc)
	return s, nil
}

func (s echoServer) serve(l net.Listener) error { return s.grpc.Serve(l) }

func (s echoServer) stop() { s.grpc.Stop() }

// answer returns the text that the token at the start of a text asks for.
func answer(text string) (string, error) {
	const number, length = 10, 8 // digits of each (package reference)
	if len(text) < reference.TokenLen {
		return "", status.Error(codes.InvalidArgument, "the text has no token")
	}
	n, err := strconv.Atoi(text[number : number+length])
	if err != nil || n < reference.TokenLen || n > maxMessage/2 {
		return "", status.Errorf(codes.InvalidArgument, "%q is no length", text[number:number+length])
	}
	var b strings.Builder
	b.Grow(n)
	b.WriteString(text[:reference.TokenLen])
	for rest := n - reference.TokenLen; rest > 0; rest -= len(filler) {
		b.WriteString(filler[:min(rest, len(filler))])
	}
	return b.String(), nil
}

var filler = strings.Repeat(string(rune(reference.Filler)), 64<<10)

// echo is the service.
type echo struct{ echopb.UnimplementedEchoServer }

func (echo) Say(_ context.Context, in *echopb.SayRequest) (*echopb.SayResponse, error) {
	text, err := answer(in.GetText())
	return &echopb.SayResponse{Text: text}, err
}

// provider is the provider of the tool.
type provider struct {
	providerpb.UnimplementedProviderServer
}

func (provider) ListCapabilities(context.Context, *providerpb.ListCapabilitiesRequest) (*providerpb.ListCapabilitiesResponse, error) {
	return &providerpb.ListCapabilitiesResponse{
		Provider: &providerpb.Implementation{Name: "echo", Version: "1"},
		Tools: []*providerpb.Tool{{Name: "echo.v1", Description: "Echoes.",
			InputSchema: `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`}},
	}, nil
}

func (provider) CallTool(in *providerpb.CallToolRequest, out grpc.ServerStreamingServer[providerpb.CallToolResponse]) error {
	arguments := []byte(in.GetArguments())
	span, err := wire.ScanValue(arguments)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	text, err := answer(string(wire.Get(arguments, span, "text").Text(arguments)))
	if err != nil {
		return err
	}
	content := []*providerpb.Content{{Kind: &providerpb.Content_Text{Text: text}}}
	return out.Send(&providerpb.CallToolResponse{Message: &providerpb.CallToolResponse_Result{Result: &providerpb.CallToolResult{Content: content}}})
}
