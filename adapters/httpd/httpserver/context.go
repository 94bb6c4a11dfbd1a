package httpserver

import (
	"bytes"
	"net"
	"net/netip"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/http1"
	"dragoman/proxy"
)

// FieldsOf returns the fields of a request as its gates have seen them: the trailer of a body in chunks is not among them (RFC 9110
// §6.5.1). They are valid until the handler returns.
func FieldsOf(ctx *fasthttp.RequestCtx) *http1.Fields {
	if c := connOf(ctx); c != nil {
		return &c.state.current.fields
	}
	return http1.NewFields(ctx.Request.Header.All()) // a request that no Server of this package has read
}

// ScratchOf returns where the Scratch of a request is, nil at first; nil for a request that no Server of this package has read.
func ScratchOf(ctx *fasthttp.RequestCtx) *Scratch {
	if c := connOf(ctx); c != nil && c.state != nil {
		return &c.state.scratch
	}
	return nil
}

// QueryOf returns the value of the only parameter of a query if it has this name and needs no decoding; nil: ask ctx.QueryArgs.
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
	if c := connOf(ctx); c != nil && c.state.current.path != nil {
		return c.state.current.path
	}
	return ctx.URI().PathOriginal()
}

// HostOf returns the host that a request is for, in lower case: its Host field, or what its target names instead (RFC 9112 §3.2.2).
func HostOf(ctx *fasthttp.RequestCtx) []byte {
	if c := connOf(ctx); c != nil && c.state.current.host != nil {
		return c.state.current.host
	}
	return ctx.Host()
}

// LengthOf returns the length of the body in bytes, -1 if it comes in chunks.
func LengthOf(ctx *fasthttp.RequestCtx) int {
	if c := connOf(ctx); c != nil {
		return c.state.current.length
	}
	return ctx.Request.Header.ContentLength()
}

// AddrOf returns the address of the client; the zero Addr if the connection is not TCP.
func AddrOf(ctx *fasthttp.RequestCtx) netip.Addr {
	if c := connOf(ctx); c != nil {
		return c.from
	}
	if tcp, ok := ctx.RemoteAddr().(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// WatchClient calls l.Leave as soon as the client of ctx closes its connection, resets it, or closes its sending half, even with
// requests still in the pipe. If the client has left already, Leave is called before WatchClient returns. A connection has one Leaver:
// another WatchClient stops the first. A connection without a socket, as one in memory, is not watched.
//
// The caller must call Stop before the response is complete, for one of StreamFrom in Source.Close at the latest: the next request on
// the connection is another's.
func WatchClient(ctx *fasthttp.RequestCtx, l Leaver) Watch {
	c := connOf(ctx)
	if c == nil {
		return Watch{}
	}
	return c.watch(l)
}

// KeepBody leaves the memory of a request's body, and its Scratch, to code that uses them beyond the response; the connection
// goes on with other memory. It is called before the end of the response, by the handler or by what writes the response, and does
// nothing for a request that no Server of this package has read.
func KeepBody(ctx *fasthttp.RequestCtx) {
	if c := connOf(ctx); c != nil && c.state != nil {
		c.state.kept = true
	}
}

// TakeBody gives the caller the memory of a large body; RecycleBody takes it back. For another body it returns nil, and what
// ctx.PostBody returns has to be copied.
func TakeBody(ctx *fasthttp.RequestCtx) []byte {
	if c := connOf(ctx); c == nil || c.state == nil || !c.state.apart {
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
