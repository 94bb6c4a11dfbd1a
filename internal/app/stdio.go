package app

import (
	"context"

	"dragoman/adapters/stdio/downstream"
	"dragoman/internal/app/logging"
	"dragoman/internal/app/tuning"
	"dragoman/internal/config"
)

// stdioInFlight bounds the concurrent requests of the one client of a stdio listener.
const stdioInFlight = 256

// RunStdio serves the client on std.In and std.Out until the client closes them or ctx ends.
func RunStdio(ctx context.Context, cfg *config.Config, std Streams) error {
	log, err := logging.New(cfg.Log.Level, cfg.Log.Format, std.Err)
	if err != nil {
		return err
	}
	up, err := cfg.Only()
	if err != nil {
		return err
	}
	g, err := Assemble(cfg, []*config.Upstream{up}, log)
	if err != nil {
		return err
	}
	defer g.Close()
	defer tuning.TrimMemory()()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	fatal := make(chan error, 1)
	g.Probe(ctx, fatal)
	go g.watchState(ctx)
	done := make(chan error, 1)
	go func() { done <- g.ServeStdio(ctx, std) }()
	select {
	case err = <-done:
		return err
	case err = <-fatal:
		cancel(err)
		<-done
		return userError(err)
	}
}

// ServeStdio serves one client on std.In and std.Out until the client closes them or ctx ends.
func (g *Generation) ServeStdio(ctx context.Context, std Streams) error {
	return (&downstream.Server{Handle: g.Handle, Store: g.shared.sessions, In: std.In, Out: std.Out, MaxLine: g.Cfg.Limits.Line,
		Cap: g.Cfg.Limits.RequestTime, InFlight: stdioInFlight, Note: logging.Notes(g.Log)}).Serve(ctx)
}
