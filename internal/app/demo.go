package app

import (
	"context"
	"fmt"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/adapters/rules"
	"dragoman/adapters/stdio/downstream"
	"dragoman/conformance/everything"
	"dragoman/internal/config"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// RunDemo serves the built-in server over HTTP or on stdin and stdout, by the same listeners that serve the clients of
// the proxy. The built-in server takes the place of an upstream, and speaks both eras by itself.
func RunDemo(ctx context.Context, opt DemoOptions, std Streams) error {
	cfg, err := config.LoadConfig(config.LoadOptions{})
	if err != nil {
		return err
	}
	log, err := NewLogger(opt.LogLevel, opt.LogFormat, std.Err)
	if err != nil {
		return err
	}
	server := everything.New(everything.Options{Name: "dragoman-demo", Version: demoVersion})
	defer func() { _ = server.Close() }()
	g, err := Assemble(cfg, nil, log)
	if err != nil {
		return err
	}
	defer g.Close()
	g.Handle, g.plain = Only(opt.Era, server.Do), server.Do
	if opt.HTTP == "" {
		return (&downstream.Downstream{Handle: g.Handle, Store: g.Store, In: std.In, Out: std.Out, MaxLine: cfg.Limits.Line,
			Cap: cfg.Limits.RequestTime, InFlight: StdioInFlight}).Serve(ctx)
	}
	return g.demoHTTP(ctx, opt.HTTP, std)
}

// demoVersion is the version that the built-in server reports.
const demoVersion = "1.0.0"

func (g *Generation) demoHTTP(ctx context.Context, addr string, std Streams) error {
	face, err := g.ClientServer()
	if err != nil {
		return err
	}
	ln, err := httpserver.Listen(addr)
	if err != nil {
		return fmt.Errorf("%w; choose another address with --http HOST:PORT, port 0 for any free one", err)
	}
	_, _ = fmt.Fprintf(std.Err, "the demo server listens at http://%s/mcp\n", ln.Addr())
	failed := make(chan error, 1)
	go func() { failed <- face.Serve(ln) }() // ends with Shutdown
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	return g.shutDown(err, []*httpserver.Server{face})
}

// Only returns a handler that lets clients of one era through, and answers others as a server of that era does.
func Only(which string, next proxy.Handler) proxy.Handler {
	return func(ex *proxy.Exchange) (proxy.Replies, error) {
		switch {
		case which == "legacy" && ex.Client.Era == proxy.Modern:
			return nil, proxy.Errf(proxy.MethodNotFound, "method not found")
		case which == "modern" && ex.Client.Era == proxy.Legacy && ex.Msg.Kind == wire.Request:
			return nil, rules.Unsupported(ex.Client.Version)
		}
		return next(ex)
	}
}

// DemoOptions are the options of `dragoman demo`, checked.
type DemoOptions struct {
	// Era is modern, legacy or dual.
	Era string
	// HTTP is the address to serve on as HOST:PORT; "" is stdio.
	HTTP string
	// LogLevel and LogFormat are as in [config.LogConfig].
	LogLevel, LogFormat string
}
