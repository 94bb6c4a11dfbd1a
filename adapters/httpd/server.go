package httpd

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
)

// keptBuffer is the largest body buffer that goes back into a pool. Larger ones are left to the collector: a pool keeps
// the largest size it ever saw.
const keptBuffer = 64 << 10

// Options are what a Server is made with. A zero value stands for the default named with each.
type Options struct {
	MaxBody      int           // bytes of a request body, else 413; 4 MiB
	MaxHeader    int           // bytes of a request's head, else 431; 16 KiB, and each connection has a buffer of this size
	MaxReading   int           // bytes of large bodies (over 8 KiB) that are being read at once, else 503; 100 MiB
	MaxConns     int           // connections served at once; those without a request give way to new ones, then 503. 262144, or 3/4 of the descriptors there are
	MaxStreams   int           // held streams at once, else ErrTooManyStreams; 10000
	ReadTimeout  time.Duration // for a whole request, from its first byte; 30 s
	IdleTimeout  time.Duration // between requests; 75 s
	WriteTimeout time.Duration // for each write of up to 256 KiB, and at most twice as long; 30 s
	KeepAlive    time.Duration // between keep-alive comments on held streams; 15 s

	FaceOptions // what it shows at first; see Show
	// Crowded writes the body of the 503 for a connection beyond MaxConns, before anything of it is read. Nil: the status text.
	Crowded func(ctx *fasthttp.RequestCtx)
	// Stir is called at each request's beginning; it must not wait. Nil: nobody is told.
	Stir func()
	// Logf is told of what has no request to blame. Nil: nobody is.
	Logf func(format string, args ...any)
}

// Server serves HTTP/1.1 on any number of listeners.
type Server struct {
	opts   Options
	face   atomic.Pointer[Face]
	watch  *watcher
	keeper *keeper

	reading reading
	talks   sync.Pool // of *talk

	serving  crew // connections not hijacked
	tasks    crew // writers and callbacks of held streams
	draining atomic.Bool
	farewell atomic.Bool // answers end their connections

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	accepted  uint64    // connections in all
	barren    time.Time // until when there is nothing to shed
	turned    int       // connections that are being turned away
	quiet     time.Time // until when nothing more is logged about that
}

// writeBuffer is for answers that others write.
const writeBuffer = 16 << 10

// NewServer makes a Server; Shutdown must be called to let go of what it holds, even if it never served. The error is
// the system's refusal of a watcher.
func NewServer(opts Options) (*Server, error) {
	opts.setDefaults()
	watch, err := newWatcher()
	if err != nil {
		return nil, err
	}
	s := &Server{
		opts:      opts,
		watch:     watch,
		listeners: make(map[net.Listener]struct{}),
		conns:     make(map[*conn]struct{}),
	}
	s.reading.max = opts.MaxReading
	s.keeper = newKeeper(opts.MaxStreams, opts.KeepAlive)
	s.face.Store(NewFace(opts.FaceOptions))
	s.talks.New = func() any {
		t := &talk{br: bufio.NewReaderSize(nil, opts.MaxHeader)}
		t.scan.ofRequest = true
		return t
	}
	return s, nil
}

func (o *Options) setDefaults() {
	setDefault(&o.MaxBody, 4<<20)
	setDefault(&o.MaxHeader, 16<<10)
	setDefault(&o.MaxReading, 100<<20)
	setDefault(&o.MaxConns, affordable())
	setDefault(&o.MaxStreams, 10000)
	setDefault(&o.ReadTimeout, 30*time.Second)
	setDefault(&o.IdleTimeout, 75*time.Second)
	setDefault(&o.WriteTimeout, 30*time.Second)
	setDefault(&o.KeepAlive, 15*time.Second)
}

func setDefault[T int | time.Duration](v *T, to T) {
	if *v <= 0 {
		*v = to
	}
}

type logger func(format string, args ...any)

func (l logger) Printf(format string, args ...any) { l(format, args...) }

func (s *Server) logf(format string, args ...any) {
	if s.opts.Logf != nil {
		s.opts.Logf(format, args...)
	}
}

// Handle registers a handler with the face that is shown at first, see Face.Handle.
func (s *Server) Handle(method, path string, h fasthttp.RequestHandler) {
	s.face.Load().Handle(method, path, h)
}

// Show exchanges what is shown: requests that come from now on meet the new face, those that are being handled end at the one
// they have met. Nothing may be registered with a face once it is shown.
func (s *Server) Show(f *Face) { s.face.Store(f) }

// Listen opens a TCP listener at host:port, or at any free port for port 0, or a Unix socket for unix:/path. Its Addr
// says where it is bound.
func Listen(addr string) (net.Listener, error) {
	network := "tcp"
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		network, addr = "unix", path
	}
	ln, err := (&net.ListenConfig{Control: calm}).Listen(context.Background(), network, addr)
	if err != nil {
		return nil, fmt.Errorf("httpd: %w", err)
	}
	return ln, nil
}

// Serve accepts connections of ln until Shutdown, which makes it return nil, or until ln fails. A TLS listener
// (crypto/tls) is recognised. ln is closed when Serve returns.
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
		default: // no descriptors left, say: others will be closed
			s.shed()
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			s.logf("httpd: accept: %v; again in %v", err, pause)
			time.Sleep(pause)
		}
	}
}

// start serves one connection on a goroutine of its own.
func (s *Server) start(nc net.Conn) {
	c, shown := s.wrap(nc)
	s.mu.Lock()
	refuse := s.draining.Load()
	crowded := len(s.conns) >= s.opts.MaxConns
	s.mu.Unlock()
	if crowded && !refuse {
		s.shed()
	}
	s.mu.Lock()
	refuse, crowded = s.draining.Load(), len(s.conns) >= s.opts.MaxConns
	if !refuse && !crowded {
		s.conns[c] = struct{}{}
		s.accepted++
		c.number = s.accepted
	}
	s.mu.Unlock()
	switch {
	case refuse:
		c.shut(true)
		return
	case crowded:
		s.turnAway(c, shown)
		return
	}
	s.serving.run(func() { s.converse(c, shown) })
}

func (s *Server) forget(c *conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
}

// Conns returns how many connections are open, held streams among them.
func (s *Server) Conns() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Most returns how many connections there may be.
func (s *Server) Most() int { return s.opts.MaxConns }

// Streams returns how many held streams are open.
func (s *Server) Streams() int { return s.keeper.count() }

// transient says whether accepting may work again later.
func transient(err error) bool {
	var ne net.Error
	//nolint:staticcheck // Temporary is deprecated for other uses; accept(2) is the one it was made for
	return errors.As(err, &ne) && ne.Temporary() && !errors.Is(err, io.EOF)
}
