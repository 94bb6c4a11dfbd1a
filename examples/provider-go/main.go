// Provider-go is a provider for Dragoman in Go: a gRPC service that implements mcp.provider.v1.
//
//	go run ./examples/provider-go --listen 127.0.0.1:50051
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"dragoman/adapters/grpc/providerpb"
	"dragoman/examples/provider-go/hello"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:50051", "`HOST:PORT` to listen on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *listen); err != nil {
		fmt.Fprintln(os.Stderr, "provider-go:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends, and lets the calls that run then end.
func run(ctx context.Context, listen string) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	provider := hello.New("hello-go")
	alive := health.NewServer()
	s := grpc.NewServer()
	providerpb.RegisterProviderServer(s, provider)
	healthpb.RegisterHealthServer(s, alive)
	reflection.Register(s)
	go func() {
		<-ctx.Done()
		alive.Shutdown() // Dragoman sends no new calls here
		provider.Close() // ends what lasts
		s.GracefulStop()
	}()
	fmt.Fprintln(os.Stderr, "provider-go: listening on grpc://"+l.Addr().String())
	return s.Serve(l)
}
