package httpserver

import (
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/netpoll"
)

// Options configure a Server. A zero value stands for the default named with each.
type Options struct {
	MaxBody      int           // bytes of a request body, else 413; 4 MiB
	MaxHeader    int           // bytes of a request's head, else 431; 16 KiB, and the size of each connection's buffer
	MaxReading   int           // bytes of large bodies (over 8 KiB) that are being read at once, else 503; 100 MiB
	MaxConns     int           // connections at once; those without a request give way to new ones, then 503. 262144, or 3/4 of the open files allowed
	MaxStreams   int           // Streams at once, else ErrTooManyStreams; 10000
	ReadTimeout  time.Duration // for a whole request, from its first byte; 30 s
	IdleTimeout  time.Duration // between requests; 75 s
	WriteTimeout time.Duration // for each write of up to 256 KiB; at most twice as long; 30 s
	KeepAlive    time.Duration // between keep-alive comments on Streams; 15 s

	HandlerOptions // of the first Handler; see SetHandler
	// Overloaded writes the body of the 503 for a connection beyond MaxConns, before anything of it is read. Nil: the status text.
	Overloaded func(ctx *fasthttp.RequestCtx)
	// OnRequest is called at the beginning of each request; it must not wait. Nil: nothing.
	OnRequest func()
	// Logf logs what concerns no single request. Nil: nothing.
	Logf func(format string, args ...any)
}

func (o *Options) setDefaults() {
	setDefault(&o.MaxBody, 4<<20)
	setDefault(&o.MaxHeader, 16<<10)
	setDefault(&o.MaxReading, 100<<20)
	setDefault(&o.MaxConns, maxConns())
	setDefault(&o.MaxStreams, 10000)
	setDefault(&o.ReadTimeout, 30*time.Second)
	setDefault(&o.IdleTimeout, 75*time.Second)
	setDefault(&o.WriteTimeout, 30*time.Second)
	setDefault(&o.KeepAlive, 15*time.Second)
}

// maxConns leaves a quarter of the open files for connections to upstreams.
func maxConns() int {
	if n := netpoll.MaxOpenFiles(); n > 0 {
		return max(1, min(fasthttp.DefaultConcurrency, n/4*3))
	}
	return fasthttp.DefaultConcurrency
}

func setDefault[T int | time.Duration](v *T, to T) {
	if *v <= 0 {
		*v = to
	}
}
