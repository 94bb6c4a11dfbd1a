package rest

import (
	"context"
	"errors"
	"strconv"
	"time"

	"dragoman/adapters/era"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// inquiry is on whose behalf something is asked of a server: a caller's request, or what the face has to know for it.
type inquiry struct {
	d      *Downstream
	server string
	below  string // proxy.Exchange.Below
	caller proxy.Caller
	id     string          // request_id
	caps   []byte          // what the caller can be asked
	life   context.Context // ends when nobody wants to know any more
	end    time.Time       // it is given up
	own    bool            // proxy.Exchange.Own

	arrival *proxy.Arrival // proxy.Exchange.Arrival
	trace   *proxy.Trace   // proxy.Exchange.Trace
}

// inquire makes the inquiry into what has to be known for an exchange.
func (d *Downstream) inquire(ex *proxy.Exchange) *inquiry {
	return &inquiry{d: d, server: ex.Server, below: ex.Below, caller: ex.Caller, id: ex.ID(), arrival: ex.Arrival, trace: ex.Trace, caps: ex.Client.Caps, life: ex, own: true,
		end: time.Now().Add(d.opt.Cap)} // the exchange's own end, which comes before that, ends life
}

// toolCall is what is called, as JSON: the first members of params. Its zero value is nothing.
type toolCall struct{ name, arguments []byte }

// exchange makes an exchange of the house's waist: a modern one, since that needs nothing but the request. params are members, behind
// those of the call; meta are further members of _meta.
func (q *inquiry) exchange(method string, call toolCall, params, meta members) (*proxy.Exchange, error) {
	room := len(call.name) + len(call.arguments) + len(params) + len(meta) + len(q.d.opt.Info) + len(q.caps) + 512
	raw := append(roomFor(room), `{"jsonrpc":"2.0","id":`...)
	raw = strconv.AppendUint(raw, q.d.ids.Add(1), 10) // the caller's request_id may come twice at once
	raw = wire.AppendText(append(raw, `,"method":`...), method)
	raw = append(raw, `,"params":{`...)
	if call.name != nil {
		raw = append(append(raw, `"name":`...), call.name...)
		raw = append(append(append(raw, `,"arguments":`...), call.arguments...), ',')
	}
	if len(params) > 0 {
		raw = append(append(raw, params...), ',')
	}
	m := members{}
	m.addText(wire.MetaPrefix+"protocolVersion", era.ModernVersion)
	m.add(wire.MetaPrefix+"clientInfo", q.d.opt.Info)
	m.add(wire.MetaPrefix+"clientCapabilities", q.caps)
	if len(meta) > 0 {
		m = append(append(m, ','), meta...)
	}
	raw = append(append(append(raw, `"_meta":{`...), m...), "}}}"...)
	msg, err := wire.Scan(raw)
	if err != nil {
		return nil, proxy.Errf(proxy.InvalidParams, "the request cannot be taken to MCP: %w", err)
	}
	ex := &proxy.Exchange{Msg: msg, Caller: q.caller, Server: q.server, Below: q.below, RequestID: q.id, Arrival: q.arrival, Trace: q.trace, Own: q.own,
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

// ask makes a request of the face's own and waits for the result; target is the server that answered it.
func (q *inquiry) ask(method string, params members) (m wire.Message, target string, err error) {
	ex, err := q.exchange(method, toolCall{}, params, nil)
	if err != nil {
		return m, "", err
	}
	defer q.follow(ex)()
	replies, err := q.d.handle(ex)
	if err != nil {
		return m, ex.Target, ex.Why(err)
	}
	m, err = proxy.Response(replies, q.end)
	switch {
	case errors.Is(err, proxy.ErrNotYet):
		err = proxy.Overdue(q.d.opt.Cap)
	case err != nil:
		err = q.why(ex, err)
	case m.Kind == wire.Failure:
		err = failure(&m)
	}
	return m, ex.Target, err
}

// follow ties an exchange to the caller: it ends when the caller leaves, or when its time is over. The returned function
// releases it.
func (q *inquiry) follow(ex *proxy.Exchange) (release func()) {
	ex.GiveUp(time.Until(q.end))
	stop, raw := ex.Follow(q.life), ex.Msg.Raw
	return func() {
		stop()
		ex.Release()
		giveBack(raw)
	}
}

// why is the reason of a failure in an exchange.
func (q *inquiry) why(ex *proxy.Exchange, err error) error {
	if cause := context.Cause(q.life); cause != nil {
		return cause
	}
	return ex.Why(err)
}
