package rest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/adapters/mcphttp"
	"dragoman/adapters/rest/envelope"
	"dragoman/adapters/rest/mcpcall"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// request is one HTTP request, from its head to its answer. It may make several exchanges; a caller that leaves cancels the
// one that runs.
type request struct {
	mcpcall.Origin
	d     *Downstream
	ctx   *fasthttp.RequestCtx // until the handler returns
	began time.Time

	leave    context.CancelCauseFunc
	watch    httpserver.Watch
	detached bool // the answer is written after the handler has returned

	streams  bool   // the caller wants events
	bare     bool   // a successful answer is the result itself, without an envelope
	zeroCopy bool   // a large result may be written without a copy
	level    string // of log messages on the stream; empty: none
	token    []byte // for progress on the stream, raw JSON
	server   string // the server that the caller names beside the path; empty: none
	key      string // proxy.Exchange.Key of the call: Idempotency-Key, else the request_id that the caller gave
	replayed bool   // the answer is that of an earlier call
	left     int    // proxy.Exchange.Allowance
}

// Leave implements httpserver.Leaver.
func (r *request) Leave() { r.leave(proxy.ErrCancelled) }

// serve makes the HTTP handler of an endpoint, whose path is below /servers/NAME/.
func (d *Downstream) serve(below string, h func(*request)) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		r := &request{d: d, ctx: ctx, began: d.opt.Now(), key: mcphttp.KeyOf(ctx),
			Origin: mcpcall.Origin{Client: d.client, Server: mcphttp.ServerOf(ctx), Below: below, Caller: mcphttp.CallerOf(ctx), ID: requestID(ctx),
				Arrival: mcphttp.ArrivalOf(ctx), Caps: d.opt.Caps, End: time.Now().Add(d.opt.Cap)}}
		r.Life, r.leave = context.WithCancelCause(context.Background())
		r.watch = httpserver.WatchClient(ctx, r)
		defer func() {
			if !r.detached {
				r.close()
			}
		}()
		h(r)
	}
}

func (r *request) close() {
	r.watch.Stop()
	r.leave(nil)
}

// requestID returns the id that the request came with, or that the gates gave it, if it is valid in an envelope, else a new one.
func requestID(ctx *fasthttp.RequestCtx) string {
	if a := mcphttp.ArrivalOf(ctx); a != nil {
		if id := a.ID(); envelope.ValidRequestID(id) {
			return id
		}
	}
	if id := string(httpserver.FieldsOf(ctx).Peek(mcphttp.HeaderRequestID)); envelope.ValidRequestID(id) {
		return id
	}
	return envelope.NewRequestID()
}

// forward sends a request to the server and answers with its response, as a whole or as a stream. A tools/call has its name and
// arguments in call.
func (r *request) forward(method string, call mcpcall.ToolCall, params, meta mcpcall.Members, shape shaper) {
	if r.streams {
		if r.token == nil {
			r.token = wire.AppendText(nil, r.ID)
		}
		meta.Add("progressToken", r.token)
		if r.level != "" {
			meta.AddText(wire.MetaPrefix+"logLevel", r.level)
		}
	}
	if err := r.name(&meta); err != nil {
		r.refused(method, err)
		return
	}
	ex, err := r.Exchange(method, call, params, meta)
	if err != nil {
		r.refused(method, err)
		return
	}
	ex.Key = r.key
	release := r.Follow(ex)
	replies, err := r.Client.Handle(ex)
	if err != nil {
		err = r.Why(ex, err)
		r.learn(ex)
		release()
		r.fail(err)
		return
	}
	if r.streams {
		r.detached = true
		s := &stream{r: r, ex: ex, replies: replies, shape: shape, release: release}
		s.endOnDrain(r.d.opt.Draining)
		r.ctx.Response.Header.Set("X-Request-ID", r.ID)
		httpserver.StreamFrom(r.ctx, nil, s)
		return
	}
	later := false
	end := func() {
		_ = replies.Close()
		release()
	}
	defer func() {
		if !later {
			end()
		}
	}()
	later = r.whole(ex, replies, shape, end)
}

// name puts the server that the caller names into the _meta of the request, where several are one.
func (r *request) name(meta *mcpcall.Members) *proxy.Error {
	if r.server == "" {
		return nil
	}
	behind, several := r.d.opt.Behind(r.Server)
	if several {
		meta.AddText(wire.MetaServer, r.server)
		return nil
	}
	if !slices.Contains(behind, r.server) {
		return proxy.Errf(proxy.ServerUnknown, "no server %q is behind this endpoint; there is %s", r.server, strings.Join(behind, ", "))
	}
	return nil
}

// whole answers with the response as a whole. later reports that it is written after the handler has returned, and that end is
// called then.
func (r *request) whole(ex *proxy.Exchange, replies proxy.Replies, shape shaper, end func()) (later bool) {
	for {
		m, err := replies.Next(r.End)
		r.learn(ex)
		switch {
		case errors.Is(err, proxy.ErrNotYet):
			r.fail(proxy.Overdue(r.d.opt.Cap))
			return false
		case err != nil:
			r.fail(r.Why(ex, err))
			return false
		case m.IsResponse():
			r.zeroCopy = true
			a := r.answerTo(m, shape)
			if !r.write(a) || a.data.m == nil {
				return false
			}
			r.detached = true
			a.writeLater(r, end)
			return true
		}
	}
}

// refused answers a request that is invalid. No server receives it; the policies in Options.Around see a refused exchange.
func (r *request) refused(method string, err error) {
	if ex, xerr := r.Exchange(method, mcpcall.ToolCall{}, nil, nil); xerr == nil {
		ex.Refusal = err
		_, err = proxy.Chain(proxy.RefusedBefore, r.d.opt.Around...)(ex)
	}
	r.fail(err)
}
