// Reflected serves what grpc-go has as packages: the test service of the interoperability tests, load reports, health, channelz, and the
// reflection by which a client finds them. None of the services is ours.
//
//	reflected ADDRESS
//
// listens on a loopback address until it is killed.
package main

import (
	"fmt"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/channelz/service"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/orca"
	"google.golang.org/grpc/reflection"
)

func main() {
	if err := serve(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "reflected:", err)
		os.Exit(1)
	}
}

func serve(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	metrics := orca.NewServerMetricsRecorder()
	server := grpc.NewServer(orca.CallMetricsServerOption(nil))
	if err := orca.Register(server, orca.ServiceOptions{ServerMetricsProvider: metrics, MinReportingInterval: time.Minute}); err != nil {
		return err
	}
	testgrpc.RegisterTestServiceServer(server, interop.NewTestServer(interop.NewTestServerOptions{MetricsRecorder: metrics}))
	// The service of which a client must see that none of it is implemented (interoperability tests, unimplemented_service).
	testgrpc.RegisterUnimplementedServiceServer(server, testgrpc.UnimplementedUnimplementedServiceServer{})
	healthpb.RegisterHealthServer(server, health.NewServer())
	service.RegisterChannelzServiceToServer(server)
	reflection.Register(server)
	return server.Serve(l)
}
