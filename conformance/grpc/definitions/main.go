// Definitions serves Qdrant's published services, of which no server can be had from a registry of packages: the definitions are Qdrant's, the
// answers are made. An answer is filled with values that depend on all that the request has, so that a request that was changed on its way has
// another answer.
//
//	definitions ADDRESS
//
// listens on a loopback address until it is killed.
package main

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"

	"github.com/qdrant/go-client/qdrant"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/reflection"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"dragoman/conformance/grpc/fill"
)

func main() {
	if err := serve(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "definitions:", err)
		os.Exit(1)
	}
}

// listed are the services, as reflection asks for them.
type listed map[string]grpc.ServiceInfo

func (l listed) GetServiceInfo() map[string]grpc.ServiceInfo { return l }

func serve(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.UnknownServiceHandler(answer))
	all := listed{}
	for _, file := range []protoreflect.FileDescriptor{qdrant.File_qdrant_proto, qdrant.File_collections_service_proto, qdrant.File_points_service_proto, qdrant.File_snapshots_service_proto} {
		for i := range file.Services().Len() {
			all[string(file.Services().Get(i).FullName())] = grpc.ServiceInfo{}
		}
	}
	reflectionpb.RegisterServerReflectionServer(server, reflection.NewServerV1(reflection.ServerOptions{Services: all}))
	return server.Serve(l)
}

// answer answers a call of any unary method.
func answer(_ any, stream grpc.ServerStream) error {
	called, _ := grpc.MethodFromServerStream(stream)
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(called, "/"), "/", ".")))
	method, ok := found.(protoreflect.MethodDescriptor)
	if err != nil || !ok || method.IsStreamingClient() || method.IsStreamingServer() {
		return status.Error(codes.Unimplemented, "no unary method")
	}
	request, response := dynamicpb.NewMessage(method.Input()), dynamicpb.NewMessage(method.Output())
	if err := stream.RecvMsg(request); err != nil {
		return err
	}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(request)
	if err != nil {
		return err
	}
	fill.Message(response, rand.New(rand.NewChaCha8(sha256.Sum256(raw)))) //nolint:gosec // guards nothing
	return stream.SendMsg(response)
}
