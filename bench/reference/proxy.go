package reference

import (
	"net"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	proxyConns = 4096
	proxyIdle  = time.Minute // the reference server never closes a connection
)

// ServeProxy forwards every request on l to the server at addr (host:port) until l is closed. It is fasthttp's server and client with one
// line between them: it parses no body and translates nothing.
func ServeProxy(l net.Listener, addr string) error {
	client := fasthttp.HostClient{
		Addr:                          addr,
		MaxConns:                      proxyConns,
		MaxIdleConnDuration:           proxyIdle,
		ReadBufferSize:                readBuffer,
		NoDefaultUserAgentHeader:      true,
		DisablePathNormalizing:        true,
		DisableHeaderNamesNormalizing: true,
	}
	server := fasthttp.Server{
		Handler: func(ctx *fasthttp.RequestCtx) {
			if err := client.Do(&ctx.Request, &ctx.Response); err != nil {
				ctx.Error("reference: "+err.Error(), fasthttp.StatusBadGateway)
			}
		},
		MaxRequestBodySize:            maxBody,
		ReadBufferSize:                readBuffer,
		NoDefaultServerHeader:         true,
		NoDefaultDate:                 true,
		NoDefaultContentType:          true,
		DisableHeaderNamesNormalizing: true,
	}
	return server.Serve(l)
}
