//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"net"

	"dragoman/bench/reference"
)

// These words as the first argument make this program the child of the contenders, or the HTTP server behind them.
const (
	echoWord  = "echo"
	serveWord = "serve"
)

// play runs this program as the child or the HTTP server until in ends. The HTTP server writes its address first.
func play(word string, in io.Reader, out io.Writer) error {
	if word == echoWord {
		return reference.ServeEcho(in, out, reference.Legacy)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("peers: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- reference.NewUpstream(reference.Legacy).Serve(l) }()
	if _, err = fmt.Fprintln(out, l.Addr()); err == nil {
		_, err = io.Copy(io.Discard, in)
	}
	_ = l.Close() // ends Serve
	return errors.Join(err, <-done)
}
