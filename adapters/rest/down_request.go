package rest

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/goccy/go-json"
	"github.com/valyala/fasthttp"

	"dragoman/adapters/era"
	"dragoman/adapters/httpd"
	"dragoman/adapters/mcphttp"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// request is one call of the face, from its head to its answer. It may make several exchanges; a caller that leaves cancels
// whichever runs.
type request struct {
	d      *Downstream
	ctx    *fasthttp.RequestCtx // until the handler returns
	id     string               // request_id
	server string
	caller proxy.Caller
	began  time.Time
	end    time.Time // it is given up

	life  context.Context
	leave context.CancelCauseFunc
	armed httpd.Armed
	kept  bool // a stream goes on after the handler

	streams bool   // the caller wants events
	bare    bool   // a good answer is the result itself
	level   string // of log messages on the stream; empty: none
	token   []byte // for progress on the stream, raw JSON
	caps    []byte // what the caller can be asked
	key     string // proxy.Exchange.Key of the call: Idempotency-Key, else the request_id that the caller gave
	again   bool   // the answer is that of an earlier call
}

// Leave implements httpd.Leaver.
func (r *request) Leave() { r.leave(proxy.ErrCancelled) }

// serve makes a handler of an endpoint.
func (d *Downstream) serve(h func(*request)) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		now := d.opt.Now()
		r := &request{d: d, ctx: ctx, id: requestID(ctx), server: mcphttp.ServerOf(ctx), caller: mcphttp.CallerOf(ctx), began: now, end: time.Now().Add(d.opt.Cap),
			caps: d.opt.Caps, key: mcphttp.KeyOf(ctx)}
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

// requestID is the id that a caller's X-Request-ID gives, if that is one, else a new one.
func requestID(ctx *fasthttp.RequestCtx) string {
	if id := string(ctx.Request.Header.Peek("X-Request-ID")); ValidRequestID(id) {
		return id
	}
	return NewRequestID()
}

// exchange makes an exchange of the house's waist: a modern one, since that needs nothing but the request. params are members;
// meta are further members of _meta.
func (r *request) exchange(method string, params, meta members) (*proxy.Exchange, error) {
	raw := append(make([]byte, 0, len(params)+len(meta)+512), `{"jsonrpc":"2.0","id":`...)
	raw = strconv.AppendUint(raw, r.d.ids.Add(1), 10) // the caller's request_id may come twice at once
	raw = wire.AppendText(append(raw, `,"method":`...), method)
	raw = append(append(raw, `,"params":{`...), params...)
	if len(params) > 0 {
		raw = append(raw, ',')
	}
	m := members{}
	m.addText(wire.MetaPrefix+"protocolVersion", era.ModernVersion)
	m.add(wire.MetaPrefix+"clientInfo", r.d.opt.Info)
	m.add(wire.MetaPrefix+"clientCapabilities", r.caps)
	if len(meta) > 0 {
		m = append(append(m, ','), meta...)
	}
	raw = append(append(append(raw, `"_meta":{`...), m...), "}}}"...)
	msg, err := wire.Scan(raw)
	if err != nil {
		return nil, proxy.Errf(proxy.InvalidParams, "the request cannot be taken to MCP: %w", err)
	}
	ex := &proxy.Exchange{Msg: msg, Caller: r.caller, Server: r.server, TraceID: r.id,
		Client: proxy.Client{Era: proxy.Modern, Version: era.ModernVersion, Info: msg.Of(msg.Info), Caps: msg.Of(msg.Caps), LogLevel: string(msg.Text(msg.LogLevel))}}
	return ex, nil
}

// serverError is a server's own JSON-RPC error.
type serverError struct {
	code int
	text string
	data []byte
}

func (e *serverError) Error() string { return e.text }

// failure takes a server's error out of its message.
func failure(m *wire.Message) *serverError {
	return &serverError{m.ErrorCode, string(m.Text(m.ErrorText)), m.AppendPart(nil, m.ErrorData)}
}

// ask makes a request of the face's own and waits for the result.
func (r *request) ask(method string, params members) (wire.Message, error) {
	ex, err := r.exchange(method, params, nil)
	if err != nil {
		return wire.Message{}, err
	}
	defer r.follow(ex)()
	replies, err := r.d.handle(ex)
	if err != nil {
		return wire.Message{}, ex.Why(err)
	}
	m, err := proxy.Response(replies, r.end)
	switch {
	case errors.Is(err, proxy.ErrNotYet):
		return m, proxy.Overdue(r.d.opt.Cap)
	case err != nil:
		return m, r.why(ex, err)
	case m.Kind == wire.Failure:
		return m, failure(&m)
	}
	return m, nil
}

// follow ties an exchange to the caller: it ends when the caller leaves, or when its time is over. The returned function
// releases it.
func (r *request) follow(ex *proxy.Exchange) (release func()) {
	ex.GiveUp(time.Until(r.end))
	stop := ex.Follow(r.life)
	return func() {
		stop()
		ex.Release()
	}
}

// why is the reason of a failure in an exchange.
func (r *request) why(ex *proxy.Exchange, err error) error {
	if cause := context.Cause(r.life); cause != nil {
		return cause
	}
	return ex.Why(err)
}

// forward takes a request to the server, and what comes back to the caller, as a whole or as a stream.
func (r *request) forward(method string, params, meta members, judge judge) {
	if r.streams {
		if r.token == nil {
			r.token = wire.AppendText(nil, r.id)
		}
		meta.add("progressToken", r.token)
		if r.level != "" {
			meta.addText(wire.MetaPrefix+"logLevel", r.level)
		}
	}
	ex, err := r.exchange(method, params, meta)
	if err != nil {
		r.fail(err)
		return
	}
	ex.Key = r.key
	release := r.follow(ex)
	replies, err := r.d.handle(ex)
	if err != nil {
		err, r.again = r.why(ex, err), ex.Replayed
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
	defer release()
	defer func() { _ = replies.Close() }()
	for {
		m, err := replies.Next(r.end)
		r.again = ex.Replayed
		switch {
		case errors.Is(err, proxy.ErrNotYet):
			r.fail(proxy.Overdue(r.d.opt.Cap))
			return
		case err != nil:
			r.fail(r.why(ex, err))
			return
		case m.IsResponse():
			r.write(r.render(&m, judge))
			return
		}
	}
}

// cause is what an envelope says of the JSON-RPC error behind it.
func cause(code int, data []byte) json.RawMessage {
	out := strconv.AppendInt([]byte(`{"code":`), int64(code), 10)
	if len(data) > 0 {
		out = append(append(out, `,"data":`...), data...)
	}
	return append(out, '}')
}
