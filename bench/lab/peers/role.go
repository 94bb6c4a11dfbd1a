//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"

	"dragoman/bench/reference"
)

// These words as the first argument make this program the child of the contenders, or the HTTP server behind them.
const (
	echoWord  = "echo"
	serveWord = "serve" // with the number of its tools
)

// play runs this program as the child or the HTTP server until in ends. The HTTP server writes its address first.
func play(args []string, in io.Reader, out io.Writer) error {
	if args[0] == echoWord {
		return reference.ServeEcho(in, out, reference.Legacy)
	}
	tools, err := strconv.Atoi(args[len(args)-1])
	if err != nil {
		return fmt.Errorf("peers: %s wants the number of tools: %w", serveWord, err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("peers: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- reference.NewUpstreamOf(reference.Legacy, tools).Serve(l) }()
	if _, err = fmt.Fprintln(out, l.Addr()); err == nil {
		_, err = io.Copy(io.Discard, in)
	}
	_ = l.Close() // ends Serve
	return errors.Join(err, <-done)
}
