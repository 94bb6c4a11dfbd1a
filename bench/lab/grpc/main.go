// Command grpc plays the processes of the benchmark's section grpc: a gRPC server that echoes, as a provider of tools and as a service of its own, and
// two transcoders from HTTP and JSON to gRPC in front of that service. It is part of this module because of its dependencies.
//
//	grpc server
//	grpc vanguard --to HOST:PORT
//	grpc gateway --to HOST:PORT
//
// Each listens on a free port of the loopback, writes its address as the first line, and ends when its input does.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// maxMessage bounds what the processes accept, in bytes.
const maxMessage = 64 << 20

// run plays a role until in ends.
func run(args []string, in io.Reader, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("grpc: a role is missing; fix: server, vanguard or gateway")
	}
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	to := f.String("to", "", "address of the gRPC server")
	if err := f.Parse(args[1:]); err != nil {
		return fmt.Errorf("grpc: %w", err)
	}
	var start func() (server, error)
	switch args[0] {
	case "server":
		start = newServer
	case "vanguard":
		start = func() (server, error) { return newVanguard(*to) }
	case "gateway":
		start = func() (server, error) { return newGateway(context.Background(), *to) }
	default:
		return fmt.Errorf("grpc: there is no role %q", args[0])
	}
	s, err := start()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("grpc: %w", err)
	}
	done := serve(s, l)
	if _, err = fmt.Fprintln(out, l.Addr()); err == nil {
		_, err = io.Copy(io.Discard, in)
	}
	s.stop()
	return errors.Join(err, <-done)
}

// server serves until stop.
type server interface {
	serve(l net.Listener) error
	stop()
}

func serve(s server, l net.Listener) <-chan error {
	done := make(chan error, 1)
	go func() { done <- s.serve(l) }()
	return done
}
