package mcphttp

import (
	"sync/atomic"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/eventstream"
	"dragoman/adapters/httpd"
	"dragoman/proxy"
)

// Open answers ctx with a stream that is the session's outlet until either ends. first, if not nil, is written at once;
// closed, if not nil, is called once when the stream has ended.
func Open(ctx *fasthttp.RequestCtx, sess *proxy.Session, first []byte, closed func()) error {
	o := &outlet{}
	held, err := httpd.Hold(ctx, httpd.StreamOptions{First: first, OnClose: func(error) {
		o.over.Store(true)
		sess.ClearOutlet(o)
		if closed != nil {
			closed()
		}
	}})
	if err != nil {
		return err
	}
	o.held = held
	sess.SetOutlet(o)
	if o.over.Load() { // it ended before it was the outlet
		sess.ClearOutlet(o)
	}
	return nil
}

// outlet is a held stream as a session's outlet.
type outlet struct {
	held *httpd.Held
	over atomic.Bool
}

// Push implements proxy.Outlet.
func (o *outlet) Push(msg []byte) error { return o.held.Write(eventstream.AppendMessage(nil, msg)) }

// End implements proxy.Outlet.
func (o *outlet) End() { o.held.End() }
