package special

import (
	"net"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/bench/reference"
)

// Manner is how a Moody server behaves.
type Manner string

// The manners. A request whose path is /manner/MANNER sets that of the server.
const (
	Well  Manner = "well"  // as a reference.Upstream
	Slow  Manner = "slow"  // it takes slowness for each answer
	Lying Manner = "lying" // it answers with another id, with no JSON, with nothing, in turn
)

const slowness = 700 * time.Millisecond

// Moody is a reference.Upstream that behaves badly when it is told to.
type Moody struct {
	*reference.Upstream
	manner atomic.Value // Manner
	lies   atomic.Uint64
}

// NewMoody makes a server of an era that behaves well.
func NewMoody(era reference.Era, tools int) *Moody {
	m := &Moody{Upstream: reference.NewUpstreamOf(era, tools)}
	m.manner.Store(Well)
	return m
}

// Serve answers on l until l is closed.
func (m *Moody) Serve(l net.Listener) error {
	server := fasthttp.Server{Handler: m.handle, MaxRequestBodySize: reference.MaxText, ReadBufferSize: 16 << 10, NoDefaultServerHeader: true, NoDefaultDate: true}
	return server.Serve(l)
}

func (m *Moody) handle(ctx *fasthttp.RequestCtx) {
	switch path := string(ctx.Path()); path {
	case "/manner/" + string(Well), "/manner/" + string(Slow), "/manner/" + string(Lying):
		m.manner.Store(Manner(path[len("/manner/"):]))
		return
	}
	switch m.manner.Load() {
	case Slow:
		time.Sleep(slowness)
	case Lying:
		ctx.SetContentType("application/json")
		switch m.lies.Add(1) % 3 {
		case 0:
			ctx.SetBodyString(`{"jsonrpc":"2.0","id":"another","result":{}}`)
		case 1:
			ctx.SetBodyString(`{"jsonrpc":"2.0","id":1,"resu`)
		}
		return
	}
	m.Handle(ctx)
}
