package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"

	"dragoman/bench/reference"
	"dragoman/bench/reference/special"
)

// roleWord as the first argument makes this program one of the processes that the benchmark starts, so that a single binary is enough.
const (
	roleWord     = "role"
	roleUpstream = "upstream" // --era, --tools, --listen: the reference server over HTTP
	roleEcho     = "echo"     // --era: the reference server over stdio
	roleProxy    = "proxy"    // --to: the bare proxy
	roleMoody    = "moody"    // --era, --tools, --listen: a server that misbehaves when it is told to
	roleStatic   = "static"   // --to: a server that answers with the list of the one at a URL
)

// playRole serves until in ends. A role that serves HTTP writes its address to out first.
func playRole(args []string, in io.Reader, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("bench: a role is missing")
	}
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	f.SetOutput(io.Discard)
	word := f.String("era", string(reference.Modern), "")
	to := f.String("to", "", "")
	tools := f.Int("tools", 1, "")
	listen := f.String("listen", "127.0.0.1:0", "")
	if err := f.Parse(args[1:]); err != nil {
		return fmt.Errorf("bench: role %s: %w", args[0], err)
	}
	era, err := reference.ParseEra(*word)
	if err != nil {
		return err
	}
	switch args[0] {
	case roleEcho:
		return reference.ServeEcho(in, out, era)
	case roleUpstream:
		return serveUntil(*listen, in, out, reference.NewUpstreamOf(era, *tools).Serve)
	case roleProxy:
		return serveUntil(*listen, in, out, func(l net.Listener) error { return reference.ServeProxy(l, *to) })
	case roleMoody:
		return serveUntil(*listen, in, out, special.NewMoody(era, *tools).Serve)
	case roleStatic:
		return serveUntil(*listen, in, out, func(l net.Listener) error { return special.ServeStatic(l, *to) })
	}
	return fmt.Errorf("bench: there is no role %q", args[0])
}

// serveUntil serves on an address until in ends.
func serveUntil(addr string, in io.Reader, out io.Writer, serve func(net.Listener) error) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- serve(l) }()
	if _, err = fmt.Fprintln(out, l.Addr()); err == nil {
		_, err = io.Copy(io.Discard, in)
	}
	_ = l.Close() // ends serve
	return errors.Join(err, <-done)
}
