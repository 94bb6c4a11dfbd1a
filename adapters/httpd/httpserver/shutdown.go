package httpserver

import (
	"context"
	"fmt"
	"time"
)

// forceTime is how long handlers have to release connections that were closed by force.
const forceTime = time.Second

// DisableKeepAlives makes each response from now on end its connection, so that clients and load balancers open others, where they
// find another server. Everything else goes on.
func (s *Server) DisableKeepAlives() { s.noKeepAlives.Store(true) }

// Shutdown ends the Server. It stops accepting, closes idle connections, and waits for running handlers and for responses being
// written. Then it drains the Streams: each has its OnDrain called, or is ended with ErrShutdown. When ctx ends before all is done,
// what is left is closed by force, Leavers are called, and the error wraps the cause of ctx. Only the first call counts; a Server
// cannot be used again.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if s.draining.Swap(true) {
		s.mu.Unlock()
		return nil
	}
	s.stopped()
	s.noKeepAlives.Store(true)
	for ln := range s.listeners {
		_ = ln.Close()
	}
	s.mu.Unlock()
	for _, c := range s.openConns() {
		c.closeIdle()
	}
	err := s.serving.wait(ctx)
	if err == nil {
		err = s.drain(ctx)
	}
	if err != nil {
		s.force()
		err = fmt.Errorf("httpd: shutdown: %w", err)
	}
	s.streams.close()
	s.watcher.Close()
	return err
}

// drain ends the Streams and waits for their last bytes. The callbacks are others' code, so they run on a goroutine of their own.
func (s *Server) drain(ctx context.Context) error {
	all := s.streams.drain()
	s.tasks.run(func() {
		for _, stream := range all {
			if ctx.Err() != nil {
				return
			}
			stream.drain()
		}
	})
	for s.streams.open.count() > 0 {
		if err := s.streams.open.wait(ctx); err != nil {
			return err
		}
	}
	return s.tasks.wait(ctx)
}

func (s *Server) force() {
	for _, stream := range s.streams.drain() {
		stream.close(ErrShutdown)
	}
	for _, c := range s.openConns() {
		c.Left()
		c.shut(true)
	}
	ctx, cancel := context.WithTimeout(context.Background(), forceTime)
	defer cancel()
	if s.serving.wait(ctx) != nil || s.tasks.wait(ctx) != nil {
		s.logf("httpd: shutdown: handlers are still running")
	}
}
