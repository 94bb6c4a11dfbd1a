package app

import (
	"context"

	"dragoman/adapters/stdio/downstream"
	"dragoman/internal/app/tuning"
	"dragoman/internal/config"
)

// StdioInFlight bounds the concurrent requests of the one client of a stdio listener.
const StdioInFlight = 256

// RunStdio serves the client on std.In and std.Out until the client closes them or ctx ends.
func RunStdio(ctx context.Context, cfg *config.Config, std Streams) error {
	log, err := NewLogger(cfg.Log.Level, cfg.Log.Format, std.Err)
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
	go func() {
		done <- (&downstream.Downstream{Handle: g.Handle, Store: g.Store, In: std.In, Out: std.Out, MaxLine: cfg.Limits.Line,
			Cap: cfg.Limits.RequestTime, InFlight: StdioInFlight, Note: upstreamLog(log)}).Serve(ctx)
	}()
	select {
	case err = <-done:
		return err
	case err = <-fatal:
		cancel(err)
		<-done
		return userError(err)
	}
}
