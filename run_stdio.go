package main

import (
	"context"

	"dragoman/adapters/stdio"
)

// stdioInFlight bounds the requests of the one client of a stdio listener.
const stdioInFlight = 256

// runStdio serves the client on the other end of our stdin and stdout until it closes them or ctx ends.
func runStdio(ctx context.Context, cfg *Config, std Streams) error {
	log, err := newLogger(cfg.Log.Level, cfg.Log.Format, std.Err)
	if err != nil {
		return err
	}
	up, err := cfg.Only()
	if err != nil {
		return err
	}
	h, err := assemble(cfg, []*Upstream{up}, log)
	if err != nil {
		return err
	}
	defer h.close()
	defer keepLean()()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	fatal := make(chan error, 1)
	h.probe(ctx, fatal)
	go h.follow(ctx)
	done := make(chan error, 1)
	go func() {
		done <- (&stdio.Downstream{Handle: h.handle, Store: h.store, In: std.In, Out: std.Out, MaxLine: cfg.Limits.Line,
			Cap: cfg.Limits.RequestTime, InFlight: stdioInFlight, Note: note(log)}).Serve(ctx)
	}()
	select {
	case err = <-done:
		return err
	case err = <-fatal:
		cancel(err)
		<-done
		return exitCause(err)
	}
}
