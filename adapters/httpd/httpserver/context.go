package httpserver

import (
	"bytes"
	"net/netip"
	"sync"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/http1"
	"dragoman/proxy"
)

// FieldsOf returns the fields of a request as its gates have seen them: the trailer of a body in chunks is not among them (RFC 9110
// §6.5.1). They are valid until the handler returns.
func FieldsOf(ctx *fasthttp.RequestCtx) *http1.Fields {
	return &connOf(ctx).state.current.fields
}

// ScratchOf returns the place of the Scratch of a request, which is nil at first.
func ScratchOf(ctx *fasthttp.RequestCtx) *Scratch { return &connOf(ctx).state.scratch }

// QueryOf returns the value of the only parameter of a query if it has this name and needs no decoding. After nil use ctx.QueryArgs.
func QueryOf(ctx *fasthttp.RequestCtx, name string) []byte {
	target := ctx.Request.Header.RequestURI()
	n := http1.PlainPath(target)
	if n < 0 || n == len(target) {
		return nil
	}
	is, value, ok := bytes.Cut(target[n+1:], []byte{'='})
	if !ok || string(is) != name || bytes.ContainsAny(value, "=&") {
		return nil
	}
	return value
}

// PathOf returns the path of a request as it came, before any decoding.
func PathOf(ctx *fasthttp.RequestCtx) []byte {
	if path := connOf(ctx).state.current.path; path != nil {
		return path
	}
	return ctx.URI().PathOriginal()
}

// HostOf returns the host that a request is for, in lower case: its Host field, or what its target names instead (RFC 9112 §3.2.2).
func HostOf(ctx *fasthttp.RequestCtx) []byte {
	if host := connOf(ctx).state.current.host; host != nil {
		return host
	}
	return ctx.Host()
}

// LengthOf returns the length of the body in bytes, -1 if it comes in chunks.
func LengthOf(ctx *fasthttp.RequestCtx) int { return connOf(ctx).state.current.length }

// AddrOf returns the address of the client; the zero Addr if the connection is not TCP.
func AddrOf(ctx *fasthttp.RequestCtx) netip.Addr { return connOf(ctx).from }

// SetOwner says whom the request of ctx belongs to: a principal, or an address if that is empty. Without it, it is the address of
// the connection.
func SetOwner(ctx *fasthttp.RequestCtx, principal string, addr netip.Addr) {
	if principal != "" {
		addr = netip.Addr{}
	}
	connOf(ctx).part.owner = owner{principal, addr}
}

// ReserveAnswer waits until there is room for the answer of ctx, of size bytes, and returns the limit that stands in the way if there
// is none in time. The room is given back when the answer has been written. Small answers need none.
func ReserveAnswer(ctx *fasthttp.RequestCtx, size int) AnswerLimit {
	c := connOf(ctx)
	if size < largeAnswer || c.srv == nil {
		return AnswersFit
	}
	limit := c.srv.answers.reserve(&c.part, size)
	c.reserved = limit == AnswersFit
	return limit
}

// WatchClient calls l.Leave as soon as the client of ctx closes its connection, resets it, or closes its sending half, even with
// requests still in the pipe. If the client has left already, Leave is called before WatchClient returns. A connection has one Leaver:
// another WatchClient stops the first. A connection without a socket, as one in memory, is not watched.
//
// The caller must call Stop before the response is complete, for a response of StreamFrom in Source.Close at the latest: the next request
// on the connection is another one.
func WatchClient(ctx *fasthttp.RequestCtx, l Leaver) Watch { return connOf(ctx).watch(l) }

// DeparturesOf returns a function that calls Leave for the clients that have left before the call, if the system can tell: a client that
// closes one connection and uses another expects that order.
func DeparturesOf(ctx *fasthttp.RequestCtx) func() { return connOf(ctx).srv.departures }

// KeepBody leaves the memory of a request's body, and its Scratch, to code that uses them beyond the response; the connection
// goes on with other memory. It is called before the end of the response, by the handler or by what writes the response.
func KeepBody(ctx *fasthttp.RequestCtx) { connOf(ctx).state.kept = true }

// TakeBody gives the caller the memory of a large body; RecycleBody takes it back. For another body it returns nil, and what
// ctx.PostBody returns has to be copied.
func TakeBody(ctx *fasthttp.RequestCtx) []byte {
	if !connOf(ctx).state.apart {
		return nil
	}
	return ctx.Request.SwapBody(nil)
}

// RecycleBody takes back the memory of a body of TakeBody.
func RecycleBody(body []byte) {
	if cap(body) <= maxPooledBody {
		proxy.Overwrite(body)
		bodies.Put(&body)
	}
}

// Leaver is notified when a client has left. Leave is called at most once for each Watch, on the watcher's goroutine or inside
// WatchClient. It must return quickly, must not call WatchClient or Stop, and must not wait for a lock that is held around such a call.
type Leaver interface{ Leave() }

// Watch is a registered Leaver. The zero Watch is none.
type Watch struct {
	d   *departure
	gen uint64
}

// Stop ends the Watch. When it returns, Leave is not running and never will be, so the Leaver may be reused. Only the first call
// counts; it may be made from any goroutine.
func (w Watch) Stop() {
	if w.d == nil {
		return
	}
	w.d.mu.Lock()
	if w.d.gen == w.gen {
		w.d.leaver = nil
	}
	w.d.mu.Unlock()
}

// departure records that a client has left, and holds the Leaver that is called then. It implements netpoll.Peer.
type departure struct {
	mu     sync.Mutex
	leaver Leaver
	gen    uint64
	gone   bool
}

func (d *departure) watch(l Leaver) Watch {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gen++
	if d.gone {
		d.leaver = nil
		l.Leave()
	} else {
		d.leaver = l
	}
	return Watch{d: d, gen: d.gen}
}

// unwatch ends the Watch of a handler that has panicked.
func (d *departure) unwatch() {
	d.mu.Lock()
	d.leaver = nil
	d.gen++
	d.mu.Unlock()
}

// Left implements netpoll.Peer. The lock is held during Leave: Stop waits for it.
func (d *departure) Left() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gone = true
	if l := d.leaver; l != nil {
		d.leaver = nil
		l.Leave()
	}
}

// Waiting implements netpoll.Peer.
func (d *departure) Waiting() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.leaver != nil
}
