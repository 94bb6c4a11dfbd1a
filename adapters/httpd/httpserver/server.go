package httpserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/netpoll"
)

// Server serves HTTP/1.1 on any number of listeners.
type Server struct {
	opts    Options
	handler atomic.Pointer[Handler]
	watcher *netpoll.Watcher
	streams *keepAlives

	budget budget
	states sync.Pool // of *serveState

	serving      group // connections that are not Streams
	tasks        group // writers and callbacks of Streams
	draining     atomic.Bool
	stop         context.Context // ends with the first call of Shutdown
	stopped      context.CancelFunc
	noKeepAlives atomic.Bool // responses end their connections

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	accepted  uint64 // connections in all
	overload  overload
}

// NewServer makes a Server. Shutdown releases what it holds, and must be called even if it never served. The error is the system's
// refusal of a watcher.
func NewServer(opts Options) (*Server, error) {
	opts.setDefaults()
	watcher, err := netpoll.NewWatcher()
	if err != nil {
		return nil, err
	}
	s := &Server{
		opts:      opts,
		watcher:   watcher,
		streams:   newKeepAlives(opts.MaxStreams, opts.KeepAlive),
		listeners: make(map[net.Listener]struct{}),
		conns:     make(map[*conn]struct{}),
	}
	s.stop, s.stopped = context.WithCancel(context.Background())
	s.budget.max = opts.MaxReading
	s.handler.Store(NewHandler(opts.HandlerOptions))
	s.states.New = func() any {
		st := &serveState{br: bufio.NewReaderSize(nil, opts.MaxHeader)}
		st.head.Requests = true
		return st
	}
	return s, nil
}

type logger func(format string, args ...any)

func (l logger) Printf(format string, args ...any) { l(format, args...) }

func (s *Server) logf(format string, args ...any) {
	if s.opts.Logf != nil {
		s.opts.Logf(format, args...)
	}
}

// Handle registers a route with the first Handler, see Handler.Handle.
func (s *Server) Handle(method, path string, h fasthttp.RequestHandler) {
	s.handler.Load().Handle(method, path, h)
}

// SetHandler replaces the Handler: requests that arrive from now on meet the new one, those under way end at theirs. Nothing may be
// registered with a Handler once it is set.
func (s *Server) SetHandler(h *Handler) { s.handler.Store(h) }

// Listen opens a TCP listener at host:port, or at any free port for port 0, or a Unix socket for unix:/path. Its Addr says where it is
// bound.
func Listen(addr string) (net.Listener, error) {
	network := "tcp"
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		network, addr = "unix", path
	}
	ln, err := (&net.ListenConfig{Control: netpoll.LoopbackControl}).Listen(context.Background(), network, addr)
	if err != nil {
		return nil, fmt.Errorf("httpd: %w", err)
	}
	return ln, nil
}

// Serve accepts connections of ln until Shutdown, which makes it return nil, or until ln fails. A TLS listener (crypto/tls) is
// recognised. ln is closed when Serve returns.
func (s *Server) Serve(ln net.Listener) error {
	defer ln.Close()
	s.mu.Lock()
	if s.draining.Load() {
		s.mu.Unlock()
		return nil
	}
	s.listeners[ln] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.listeners, ln)
		s.mu.Unlock()
	}()
	pause := time.Duration(0)
	for {
		nc, err := ln.Accept()
		switch {
		case err == nil:
			pause = 0
			s.start(nc)
		case s.draining.Load():
			return nil
		case errors.Is(err, net.ErrClosed) || !transient(err):
			return fmt.Errorf("httpd: accept: %w", err)
		default: // no descriptors left, for example: some will be closed
			s.evictIdle()
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			s.logf("httpd: accept: %v; again in %v", err, pause)
			s.sleep(pause)
		}
	}
}

// sleep waits for d or Shutdown.
func (s *Server) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.stop.Done():
	}
}

// start serves one connection on a goroutine of its own.
func (s *Server) start(nc net.Conn) {
	c, shown := s.open(nc)
	s.mu.Lock()
	refuse := s.draining.Load()
	full := len(s.conns) >= s.opts.MaxConns
	s.mu.Unlock()
	if full && !refuse {
		s.evictIdle()
	}
	s.mu.Lock()
	refuse, full = s.draining.Load(), len(s.conns) >= s.opts.MaxConns
	if !refuse && !full {
		s.conns[c] = struct{}{}
		s.accepted++
		c.number = s.accepted
	}
	s.mu.Unlock()
	switch {
	case refuse:
		c.shut(true)
		return
	case full:
		s.turnAway(c, shown)
		return
	}
	s.serving.run(func() { s.serve(c, shown) })
}

func (s *Server) forget(c *conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
}

func (s *Server) openConns() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	conns := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	return conns
}

// Conns returns how many connections are open, Streams included.
func (s *Server) Conns() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// MaxConns returns how many connections there may be.
func (s *Server) MaxConns() int { return s.opts.MaxConns }

// Streams returns how many Streams are open.
func (s *Server) Streams() int { return s.streams.open.count() }

// transient reports whether accepting may work again later.
func transient(err error) bool {
	var ne net.Error
	//nolint:staticcheck // Temporary is deprecated for other uses; accept(2) is the one it was made for
	return errors.As(err, &ne) && ne.Temporary() && !errors.Is(err, io.EOF)
}
