package rest

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/goccy/go-json"
	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd"
	"dragoman/adapters/mcphttp"
	"dragoman/adapters/rest/envelope"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// request is one call of the face, from its head to its answer. It may make several exchanges; a caller that leaves cancels
// whichever runs.
type request struct {
	inquiry
	ctx   *fasthttp.RequestCtx // until the handler returns
	began time.Time

	leave context.CancelCauseFunc
	armed httpd.Armed
	kept  bool // a stream goes on after the handler

	streams bool   // the caller wants events
	bare    bool   // a good answer is the result itself
	apart   bool   // a large result leaves from where it stands
	level   string // of log messages on the stream; empty: none
	token   []byte // for progress on the stream, raw JSON
	key     string // proxy.Exchange.Key of the call: Idempotency-Key, else the request_id that the caller gave
	again   bool   // the answer is that of an earlier call
	left    int    // proxy.Exchange.Allowance
}

// Leave implements httpd.Leaver.
func (r *request) Leave() { r.leave(proxy.ErrCancelled) }

// serve makes a handler of an endpoint, which stands below /servers/NAME/ as is said.
func (d *Downstream) serve(below string, h func(*request)) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		r := &request{ctx: ctx, began: d.opt.Now(), key: mcphttp.KeyOf(ctx),
			inquiry: inquiry{d: d, server: mcphttp.ServerOf(ctx), below: below, caller: mcphttp.CallerOf(ctx), id: requestID(ctx), arrival: mcphttp.ArrivalOf(ctx), caps: d.opt.Caps,
				end: time.Now().Add(d.opt.Cap)}}
		r.life, r.leave = context.WithCancelCause(context.Background())
		r.armed = httpd.Watch(ctx, r)
		defer func() {
			if !r.kept {
				r.close()
			}
		}()
		h(r)
	}
}

func (r *request) close() {
	r.armed.Disarm()
	r.leave(nil)
}

// requestID is the id that the request came with, or was given by the gates, if it is one that the envelope may have, else a new one.
func requestID(ctx *fasthttp.RequestCtx) string {
	if a := mcphttp.ArrivalOf(ctx); a != nil {
		if id := a.ID(); envelope.ValidRequestID(id) {
			return id
		}
	}
	if id := string(httpd.FieldsOf(ctx).Peek(mcphttp.HeaderRequestID)); envelope.ValidRequestID(id) {
		return id
	}
	return envelope.NewRequestID()
}

// forward takes a request to the server, and what comes back to the caller, as a whole or as a stream.
func (r *request) forward(method string, params, meta members, judge judge) {
	r.forwardCall(method, toolCall{}, params, meta, judge)
}

// forwardCall is forward for what may be a tool's call.
func (r *request) forwardCall(method string, call toolCall, params, meta members, judge judge) {
	if r.streams {
		if r.token == nil {
			r.token = wire.AppendText(nil, r.id)
		}
		meta.add("progressToken", r.token)
		if r.level != "" {
			meta.addText(wire.MetaPrefix+"logLevel", r.level)
		}
	}
	ex, err := r.exchange(method, call, params, meta)
	if err != nil {
		r.refused(method, err)
		return
	}
	ex.Key = r.key
	release := r.follow(ex)
	replies, err := r.d.handle(ex)
	if err != nil {
		err = r.why(ex, err)
		r.learn(ex)
		release()
		r.fail(err)
		return
	}
	if r.streams {
		r.kept = true
		s := &stream{r: r, ex: ex, replies: replies, judge: judge, release: release}
		s.drains(r.d.opt.Draining)
		r.ctx.Response.Header.Set("X-Request-ID", r.id)
		httpd.StreamAfter(r.ctx, nil, s)
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
	later = r.entire(ex, replies, judge, end)
}

// entire answers with the response as a whole. It tells whether that leaves after the handler has returned, and calls end then.
func (r *request) entire(ex *proxy.Exchange, replies proxy.Replies, judge judge, end func()) (later bool) {
	for {
		m, err := replies.Next(r.end)
		r.learn(ex)
		switch {
		case errors.Is(err, proxy.ErrNotYet):
			r.fail(proxy.Overdue(r.d.opt.Cap))
			return false
		case err != nil:
			r.fail(r.why(ex, err))
			return false
		case m.IsResponse():
			r.apart = true
			a := r.render(m, judge)
			r.write(a)
			if a.data.m == nil {
				return false
			}
			r.kept = true
			a.after(r, end)
			return true
		}
	}
}

// refused answers a request for a method that is no good as the caller made it. No server sees it, but whoever stands around the
// handler does, as a refused exchange.
func (r *request) refused(method string, err error) {
	if ex, xerr := r.exchange(method, toolCall{}, nil, nil); xerr == nil {
		_, err = proxy.Chain(func(*proxy.Exchange) (proxy.Replies, error) { return nil, err }, r.d.opt.Around...)(ex)
	}
	r.fail(err)
}

// cause is what an envelope says of the JSON-RPC error behind it.
func cause(code int, data []byte) json.RawMessage {
	out := strconv.AppendInt([]byte(`{"code":`), int64(code), 10)
	if len(data) > 0 {
		out = append(append(out, `,"data":`...), data...)
	}
	return append(out, '}')
}
