// Package mcpcall sends MCP requests through the proxy on behalf of callers that do not speak MCP. Each request is a complete
// 2026-07-28 exchange, so that all policies apply to it and no session is needed.
package mcpcall

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Client makes exchanges and sends them.
type Client struct {
	Handle proxy.Handler // receives the requests of Ask and Collect; set before the first
	Info   []byte        // clientInfo towards the servers, raw JSON: one for all callers, so that they can share sessions
	Cap    time.Duration // limits.request_time, for the error that names it

	ids atomic.Uint64
}

// Origin is the caller on whose behalf requests are made, and how long they may take.
type Origin struct {
	Client *Client
	Server string          // proxy.Exchange.Server
	Below  string          // proxy.Exchange.Below
	Caller proxy.Caller    // proxy.Exchange.Caller
	ID     string          // request_id of the envelope
	Caps   []byte          // raw ClientCapabilities of the caller
	Life   context.Context // ends when the caller has left
	End    time.Time       // deadline of all requests together
	Own    bool            // proxy.Exchange.Own

	Arrival *proxy.Arrival // proxy.Exchange.Arrival
	Trace   *proxy.Trace   // proxy.Exchange.Trace
}

// OnBehalf returns the origin of requests that the endpoint needs answered before it can judge ex. The deadline of ex, which
// is the earlier one, ends Life.
func (c *Client) OnBehalf(ex *proxy.Exchange) *Origin {
	return &Origin{Client: c, Server: ex.Server, Below: ex.Below, Caller: ex.Caller, ID: ex.ID(), Caps: ex.Client.Caps, Life: ex, Own: true,
		Arrival: ex.Arrival, Trace: ex.Trace, End: time.Now().Add(c.Cap)}
}

// ToolCall is the name and the arguments of a tools/call, as JSON. The zero value is no call.
type ToolCall struct{ Name, Arguments []byte }

// Exchange makes a modern exchange. params are members that follow those of the call; meta are further members of _meta.
func (o *Origin) Exchange(method string, call ToolCall, params, meta Members) (*proxy.Exchange, error) {
	size := len(call.Name) + len(call.Arguments) + len(params) + len(meta) + len(o.Client.Info) + len(o.Caps) + 512
	raw := append(buffer(size), `{"jsonrpc":"2.0","id":`...)
	raw = strconv.AppendUint(raw, o.Client.ids.Add(1), 10) // two running requests may have the same request_id
	raw = wire.AppendText(append(raw, `,"method":`...), method)
	raw = append(raw, `,"params":{`...)
	if call.Name != nil {
		raw = append(append(raw, `"name":`...), call.Name...)
		raw = append(append(append(raw, `,"arguments":`...), call.Arguments...), ',')
	}
	if len(params) > 0 {
		raw = append(append(raw, params...), ',')
	}
	m := Members{}
	m.AddText(wire.MetaPrefix+"protocolVersion", rules.ModernVersion)
	m.Add(wire.MetaPrefix+"clientInfo", o.Client.Info)
	m.Add(wire.MetaPrefix+"clientCapabilities", o.Caps)
	if len(meta) > 0 {
		m = append(append(m, ','), meta...)
	}
	raw = append(append(append(raw, `"_meta":{`...), m...), "}}}"...)
	msg, err := wire.Scan(raw)
	if err != nil {
		return nil, proxy.Errf(proxy.InvalidParams, "the request cannot be taken to MCP: %w", err)
	}
	ex := &proxy.Exchange{Msg: msg, Caller: o.Caller, Server: o.Server, Below: o.Below, RequestID: o.ID, Arrival: o.Arrival, Trace: o.Trace, Own: o.Own,
		Client: proxy.Client{Era: proxy.Modern, Version: rules.ModernVersion, Info: msg.Of(msg.Info), Caps: msg.Of(msg.Caps), LogLevel: string(msg.Text(msg.LogLevel))}}
	return ex, nil
}

// Follow ties an exchange to its caller: it ends when the caller leaves or the deadline passes. release must be called when
// the exchange and its message are no longer used.
func (o *Origin) Follow(ex *proxy.Exchange) (release func()) {
	ex.GiveUp(time.Until(o.End))
	stop, raw := ex.Follow(o.Life), ex.Msg.Raw
	return func() {
		stop()
		ex.Release()
		recycle(raw)
	}
}

// Wait receives from a channel, or fails when the caller leaves or its deadline passes.
func (o *Origin) Wait(done <-chan struct{}) error {
	late := time.NewTimer(time.Until(o.End))
	defer late.Stop()
	select {
	case <-done:
		return nil
	case <-o.Life.Done():
		return context.Cause(o.Life)
	case <-late.C:
		return proxy.Overdue(o.Client.Cap)
	}
}

// Why returns the cause of a failed exchange: that the caller has left, or else what ex or err says.
func (o *Origin) Why(ex *proxy.Exchange, err error) error {
	if cause := context.Cause(o.Life); cause != nil {
		return cause
	}
	return ex.Why(err)
}

// Ask sends a request and waits for its result. target is the server that answered. A JSON-RPC error of the server is a
// *ServerError.
func (o *Origin) Ask(method string, params Members) (m wire.Message, target string, err error) {
	ex, err := o.Exchange(method, ToolCall{}, params, nil)
	if err != nil {
		return m, "", err
	}
	defer o.Follow(ex)()
	replies, err := o.Client.Handle(ex)
	if err != nil {
		return m, ex.Target, ex.Why(err)
	}
	m, err = proxy.Response(replies, o.End)
	switch {
	case errors.Is(err, proxy.ErrNotYet):
		err = proxy.Overdue(o.Client.Cap)
	case err != nil:
		err = o.Why(ex, err)
	case m.Kind == wire.Failure:
		err = Failure(&m)
	}
	return m, ex.Target, err
}

// ServerError is a JSON-RPC error of the server.
type ServerError struct {
	Code int
	Text string
	Data []byte // raw JSON; nil if there is none
}

// Error implements error.
func (e *ServerError) Error() string { return e.Text }

// Failure returns the error that m, an error response, carries.
func Failure(m *wire.Message) *ServerError {
	return &ServerError{m.ErrorCode, string(m.Text(m.ErrorText)), m.AppendPart(nil, m.ErrorData)}
}

// Members are the members of a JSON object, separated by commas, without the braces.
type Members []byte

// Add appends a member. The key needs no escaping; value is raw JSON.
func (p *Members) Add(key string, value []byte) { p.AddRaw([]byte(`"`+key+`"`), value) }

// AddRaw appends a member whose key is a JSON string.
func (p *Members) AddRaw(key, value []byte) {
	if len(*p) > 0 {
		*p = append(*p, ',')
	}
	*p = append(append(append(*p, key...), ':'), value...)
}

// AddText appends a member whose value is a string.
func (p *Members) AddText(key, value string) { p.Add(key, wire.AppendText(nil, value)) }

// Object returns the object that has the members.
func (p Members) Object() []byte {
	return append(append(append(make([]byte, 0, len(p)+2), '{'), p...), '}')
}

// Messages of minPooled to maxPooled bytes are built in buffers that are used again. Smaller ones are cheap, larger ones are
// left to the collector.
const (
	minPooled = 64 << 10
	maxPooled = 4 << 20
)

var buffers sync.Pool // of *[]byte

// buffer returns an empty slice with room for size bytes.
func buffer(size int) []byte {
	if size >= minPooled {
		if b, ok := buffers.Get().(*[]byte); ok && cap(*b) >= size {
			return (*b)[:0]
		}
	}
	return make([]byte, 0, size)
}

// recycle takes back the buffer of a message that is no longer used.
func recycle(raw []byte) {
	if cap(raw) < minPooled || cap(raw) > maxPooled {
		return
	}
	proxy.Overwrite(raw)
	buffers.Put(&raw)
}
