package httpd

import (
	"context"
	"fmt"
	"time"
)

// forceGrace is how long connections closed by force have to be let go of by their handlers.
const forceGrace = time.Second

// Farewell has each answer from now on end its connection, so that clients and load balancers open others, where they find another
// server. Everything else goes on.
func (s *Server) Farewell() { s.farewell.Store(true) }

// Shutdown ends the Server. It stops accepting, closes idle connections, and waits for running handlers and the answers
// being written. Then it drains the held streams: each has its OnDrain called, or is ended with ErrShutdown. When ctx
// ends before all is done, what is left is closed by force, its Leavers are told, and the error wraps ctx's cause.
// Only the first call counts; a Server is not used again.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if s.draining.Swap(true) {
		s.mu.Unlock()
		return nil
	}
	s.farewell.Store(true)
	for ln := range s.listeners {
		_ = ln.Close()
	}
	s.mu.Unlock()
	for _, c := range s.open() {
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
	s.keeper.close()
	s.watch.close()
	return err
}

func (s *Server) open() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	conns := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	return conns
}

// drain ends the held streams and waits for their last bytes. The callbacks are strangers, so they run beside.
func (s *Server) drain(ctx context.Context) error {
	held := s.keeper.drain()
	s.tasks.run(func() {
		for _, h := range held {
			if ctx.Err() != nil {
				return
			}
			if h.opts.OnDrain != nil {
				h.opts.OnDrain(h)
			}
			h.end(ErrShutdown)
		}
	})
	for s.keeper.count() > 0 {
		if err := s.keeper.wait(ctx); err != nil {
			return err
		}
	}
	return s.tasks.wait(ctx)
}

func (s *Server) force() {
	for _, h := range s.keeper.drain() {
		h.close(ErrShutdown)
	}
	for _, c := range s.open() {
		c.left()
		c.shut(true)
	}
	ctx, cancel := context.WithTimeout(context.Background(), forceGrace)
	defer cancel()
	if s.serving.wait(ctx) != nil || s.tasks.wait(ctx) != nil {
		s.logf("httpd: shutdown: handlers are still running")
	}
}
