package httpserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
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

	departures func() // the watcher's Look

	budget  budget
	answers answers
	states  sync.Pool // of *serveState

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

// NewServer makes a Server. Shutdown must be called, even if the Server never served. The error is the system's refusal of a watcher.
func NewServer(opts Options) (*Server, error) {
	opts.setDefaults()
	watcher, err := netpoll.NewWatcher()
	if err != nil {
		return nil, err
	}
	s := &Server{
		opts:      opts,
		watcher:   watcher,
		streams:   &keepAlives{max: opts.MaxStreams, period: opts.KeepAlive},
		listeners: make(map[net.Listener]struct{}),
		conns:     make(map[*conn]struct{}),
	}
	s.departures = watcher.Look
	s.stop, s.stopped = context.WithCancel(context.Background())
	s.budget.max = opts.MaxReading
	s.answers.max, s.answers.each = opts.MaxAnswers, opts.MaxAnswersEach
	s.answers.epoch = time.Now()
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

// SetHandler replaces the Handler for requests that arrive from now on; those under way end with theirs. Nothing may be registered with
// a Handler once it is set.
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
			wait, cancel := context.WithTimeout(s.stop, pause)
			<-wait.Done()
			cancel()
		}
	}
}

// start serves one connection on a goroutine of its own.
func (s *Server) start(nc net.Conn) {
	c, shown := s.open(nc)
	s.mu.Lock()
	full := len(s.conns) >= s.opts.MaxConns
	s.mu.Unlock()
	if full && !s.draining.Load() {
		s.evictIdle()
	}
	s.mu.Lock()
	refuse, full := s.draining.Load(), len(s.conns) >= s.opts.MaxConns
	if !refuse && !full {
		s.conns[c] = struct{}{}
		s.accepted++
		c.number = s.accepted
	}
	s.mu.Unlock()
	switch {
	case refuse:
		c.shut(true)
	case full:
		s.turnAway(c, shown)
	default:
		s.serving.run(func() { s.serve(c, shown) })
	}
}

func (s *Server) forget(c *conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
}

func (s *Server) openConns() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.conns))
}

// Conns returns how many connections are open, Streams included.
func (s *Server) Conns() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Streams returns how many Streams are open.
func (s *Server) Streams() int { return s.streams.open.count() }

// AnswerStats returns what became of answers that clients did not read.
func (s *Server) AnswerStats() AnswerStats { return s.answers.now() }

// MaxConns returns how many connections there may be.
func (s *Server) MaxConns() int { return s.opts.MaxConns }

// transient reports whether accepting may work again later.
func transient(err error) bool {
	var ne net.Error
	//nolint:staticcheck // Temporary is deprecated for other uses; accept(2) is the one it was made for
	return errors.As(err, &ne) && ne.Temporary() && !errors.Is(err, io.EOF)
}

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

// drain ends the Streams and waits for their last bytes. The callbacks are code of others, so they run on a goroutine of their own.
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

const (
	turnAwayTime  = 2 * time.Second        // for the TLS handshake and the 503 of a connection beyond MaxConns
	maxTurnedAway = 64                     // of these at once; more are closed without an answer
	logInterval   = 10 * time.Second       // between the lines of the log about it
	evictShare    = 8                      // one of so many connections is closed at a time
	evictPause    = 100 * time.Millisecond // before the next attempt where there was none to close
)

// overload is the state of a Server that is full. Server.mu guards it.
type overload struct {
	nothingIdle time.Time // until then no idle connection is looked for
	turnedAway  int       // connections that are being turned away
	quiet       time.Time // until then nothing more is logged
}

// evictIdle closes some of the connections that are serving nothing, those without any byte of a request first: clients that only hold
// connections must not keep out others. They find the connection closed as after the idle timeout.
func (s *Server) evictIdle() {
	now := time.Now()
	s.mu.Lock()
	wait, newest := now.Before(s.overload.nothingIdle), s.accepted
	s.mu.Unlock()
	if wait {
		return
	}
	conns := s.openConns()
	most, n := max(1, len(conns)/evictShare), 0
	oldest := newest - min(newest, uint64(len(conns)/2)) // a new connection may not have sent its request yet
	for _, phase := range [...]int32{phaseIdle, phaseReading} {
		for _, c := range conns {
			if n < most && c.number <= oldest && c.phase.CompareAndSwap(phase, phaseClosed) {
				c.shut(true)
				n++
			}
		}
	}
	if n == 0 {
		s.mu.Lock()
		s.overload.nothingIdle = now.Add(evictPause)
		s.mu.Unlock()
	} else {
		s.logf("httpd: %d of %d connections closed to make room: nothing was asked on them", n, len(conns))
	}
}

// turnAway answers a connection beyond MaxConns with 503 and closes it, without reading what the client sends.
func (s *Server) turnAway(c *conn, shown net.Conn) {
	s.mu.Lock()
	now := time.Now()
	log := now.After(s.overload.quiet)
	if log {
		s.overload.quiet = now.Add(logInterval)
	}
	full := s.overload.turnedAway >= maxTurnedAway
	if !full {
		s.overload.turnedAway++
	}
	s.mu.Unlock()
	if log {
		s.logf("httpd: all %d connections are at work; new ones are answered with 503", s.opts.MaxConns)
	}
	if full {
		c.shut(true)
		return
	}
	s.serving.run(func() { // ends within turnAwayTime and lingerTime
		defer func() {
			s.mu.Lock()
			s.overload.turnedAway--
			s.mu.Unlock()
		}()
		_ = c.socket.Conn.SetDeadline(now.Add(turnAwayTime)) // a silent client does not hold up the handshake
		var ctx fasthttp.RequestCtx
		ctx.Init(&fasthttp.Request{}, c.RemoteAddr(), nil)
		ctx.SetStatusCode(fasthttp.StatusServiceUnavailable)
		if s.opts.Overloaded != nil {
			s.opts.Overloaded(&ctx)
		} else {
			ctx.SetBodyString(fasthttp.StatusMessage(fasthttp.StatusServiceUnavailable))
		}
		ctx.SetConnectionClose()
		w := bufio.NewWriter(c.wire())
		c.linger = ctx.Response.Write(w) == nil && w.Flush() == nil
		_ = shown.Close()
	})
}
