package main

import (
	"context"
	"fmt"
	"time"

	"dragoman/adapters/era"
	"dragoman/adapters/httpd"
	"dragoman/adapters/stdio"
	"dragoman/conformance/everything"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// runDemo serves the built-in server over HTTP or on stdin and stdout. It is served by what serves the clients of the
// proxy: the built-in server is an upstream like any other, only nearer.
func runDemo(ctx context.Context, opt DemoOptions, std Streams) error {
	cfg, err := LoadConfig(LoadOptions{})
	if err != nil {
		return err
	}
	log, err := newLogger(opt.LogLevel, opt.LogFormat, std.Err)
	if err != nil {
		return err
	}
	server := everything.New(everything.Options{Name: "dragoman-demo", Version: demoVersion})
	defer func() { _ = server.Close() }()
	h, err := assemble(cfg, nil, log)
	if err != nil {
		return err
	}
	defer h.close()
	near := era.NewUpstream(era.Options{Name: "dragoman-demo", Wires: era.Wires{Modern: local{server}.dial}, Self: self(cfg),
		ProbeTimeout: time.Second, VerdictTTL: time.Hour, MaxSessions: 1})
	h.upstreams = append(h.upstreams, near)
	h.handle = only(opt.Era, near.Do)
	if opt.HTTP == "" {
		return (&stdio.Downstream{Handle: h.handle, Store: h.store, In: std.In, Out: std.Out, MaxLine: cfg.Limits.Line,
			Cap: cfg.Limits.RequestTime, InFlight: stdioInFlight}).Serve(ctx)
	}
	return h.demoHTTP(ctx, opt.HTTP, std)
}

// demoVersion is the version that the built-in server gives of itself.
const demoVersion = "1.0.0"

func (h *house) demoHTTP(ctx context.Context, addr string, std Streams) error {
	face, err := h.faces()
	if err != nil {
		return err
	}
	ln, err := face.Listen(addr)
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
	return h.finish(err, []*httpd.Server{face})
}

// only lets clients of one era through: what a server of the other era answers then is what such servers answer.
func only(which string, next proxy.Handler) proxy.Handler {
	return func(ex *proxy.Exchange) (proxy.Replies, error) {
		switch {
		case which == "legacy" && ex.Client.Era == proxy.Modern:
			return nil, proxy.Errf(proxy.MethodNotFound, "method not found")
		case which == "modern" && ex.Client.Era == proxy.Legacy && ex.Msg.Kind == wire.Request:
			return nil, era.Unsupported(ex.Client.Version)
		}
		return next(ex)
	}
}

// local is a link to an upstream in this process.
type local struct{ up proxy.Upstream }

func (l local) dial(context.Context, era.Sink) (era.Link, error) { return l, nil }

// Call implements era.Link. A legacy client's request has been put into modern words by now.
func (l local) Call(ex *proxy.Exchange) (proxy.Replies, error) {
	inner := &proxy.Exchange{Msg: ex.Msg, Client: ex.Client, Caller: ex.Caller}
	inner.Client.Era, inner.Client.Version = proxy.Modern, era.ModernVersion
	ex.Attach(aborter{inner})
	return l.up.Do(inner)
}

// Send implements era.Link: the era has no message to a server but requests.
func (l local) Send(context.Context, []byte) error { return nil }

// Close implements era.Link; the upstream belongs to who made it.
func (l local) Close() error { return nil }

// aborter cancels an exchange along with another.
type aborter struct{ ex *proxy.Exchange }

// Abort implements proxy.Aborter.
func (a aborter) Abort() { a.ex.Cancel(proxy.ErrCancelled) }
