package era

import (
	"bytes"
	"context"
	"errors"
	"time"

	"dragoman/adapters/era/seal"
	"dragoman/adapters/era/subscriptions"
	"dragoman/adapters/era/translate"
	"dragoman/adapters/rules"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// passModern sends a modern client's exchange to a modern server, unchanged but for headers. Questions pass both ways
// unchanged: input_required, its requestState and the retry concern client and server only.
func (u *Upstream) passModern(ex *proxy.Exchange) (proxy.Replies, error) {
	if err := u.unsealState(ex); err != nil {
		return nil, err
	}
	if err := u.mirror(ex, u.opt.Wires.Mirrors); err != nil {
		return nil, err
	}
	if changes := translate.AddTrace(ex, nil); changes != nil {
		ex.Msg.EditParams(changes)
	}
	if u.opt.Wires.Stdio && ex.Msg.Is("subscriptions/listen") {
		return subscriptions.Reconnecting(ex, listenServer{u}, u.work)
	}
	link, err := u.links.Get(ex, ex.Caller.Identity())
	if err != nil {
		return nil, err
	}
	c := proxy.Lend[modernCall](ex, proxy.SlotEra)
	c.u, c.ex, c.method = u, ex, proxy.Method(ex.Msg.Text(ex.Msg.Method))
	if u.opt.Wires.Mirrors && ex.Mirrors {
		return c.begin(link) // the server reports header mismatches to the client
	}
	c.again = c.method == "tools/call" && u.opt.Wires.Mirrors
	return c.begin(link)
}

// unsealState restores the server's own requestState from the one that sealState made.
func (u *Upstream) unsealState(ex *proxy.Exchange) *proxy.Error {
	m := &ex.Msg
	if !u.opt.SealState || !m.ReqState.Present() {
		return nil
	}
	kind, body, err := u.store.Sealer().Open(string(m.Text(m.ReqState)), seal.Binding(ex, u.opt.Name), time.Now())
	if err != nil || kind != seal.State {
		return seal.BadState()
	}
	m.Replace(m.ReqState, body)
	return nil
}

// sealState binds a server's requestState to the caller: where several callers share one credential, the server
// cannot tell them apart and would let one resume a call of another.
func (c *modernCall) sealState(m *wire.Message) {
	state := wire.Get(m.Raw, m.Result, "requestState")
	if !c.u.opt.SealState || c.ex.Client.Era != proxy.Modern || !state.Present() {
		return
	}
	exp := time.Now().Add(c.u.store.Options().TTL)
	m.Replace(state, wire.AppendText(nil, c.u.store.Sealer().Seal(seal.State, state.Of(m.Raw), seal.Binding(c.ex, c.u.opt.Name), exp)))
}

// mirror handles the Mcp-Param-* headers of a call; server says whether the server's transport has headers. If both
// sides have headers they pass unchanged, and the server checks them. If only the client has them, they are checked
// here; if only the server has them, they are made here.
func (u *Upstream) mirror(ex *proxy.Exchange, server bool) error {
	if !ex.Msg.Is("tools/call") || ex.Mirrors == server {
		return nil
	}
	of := u.tool(ex).mirrored
	if ex.Mirrors {
		if err := translate.CheckParamHeaders(&ex.Msg, of, ex.Headers); err != nil {
			return err
		}
		return nil
	}
	headers, err := translate.ParamHeaders(&ex.Msg, of)
	if err != nil {
		return err
	}
	ex.Headers = headers
	return nil
}

// listPages bounds the pages read of a tool list, and listTime the fetching of one for its schemas.
const (
	listPages = 100
	listTime  = 10 * time.Second
)

// tool returns what is known of the tool of a call. It reads the tool list if the tool is not known.
func (u *Upstream) tool(ex *proxy.Exchange) toolFacts {
	name := ex.Msg.Text(ex.Msg.Name)
	found, known := u.tools.get(string(name)) // does not allocate, since get does not keep it
	if !known {
		u.fetchTools(ex)
		found = u.tools.getOrNone(string(name))
	}
	return found
}

// fetchTools reads the server's tool list, which adds the tools to u.tools. After a failure the tools stay unknown, and
// the server checks the call.
func (u *Upstream) fetchTools(ex *proxy.Exchange) {
	ctx, cancel := context.WithTimeout(ex, listTime)
	defer cancel()
	u.listTools(ctx, ex, ex.Client.Caps, func(*wire.Message) {})
}

// Tools reads the tool list on behalf of an exchange, while ctx lives, and calls see with each page, a borrowed result
// of tools/list. Pages that cannot be read are left out.
func (u *Upstream) Tools(ctx context.Context, ex *proxy.Exchange, see func(m *wire.Message)) {
	u.listTools(ctx, ex, []byte("{}"), see)
}

// listTools is Tools for a client of the given capabilities.
func (u *Upstream) listTools(ctx context.Context, ex *proxy.Exchange, caps []byte, see func(m *wire.Message)) {
	var cursor []byte
	for range listPages {
		inner, err := transport.NewExchange(proxy.Modern, listRequest(ex, cursor))
		if err != nil {
			return
		}
		inner.Client = proxy.Client{Era: proxy.Modern, Version: rules.ModernVersion, Info: ex.Client.Info, Caps: caps}
		inner.Caller = ex.Caller
		inner.Inherit(ex)
		m, err := u.listPage(ctx, inner)
		if err != nil || m.Kind != wire.Result {
			return
		}
		see(&m)
		next := wire.Get(m.Raw, m.Result, "nextCursor")
		if !next.IsString(m.Raw) || bytes.Equal(next.Of(m.Raw), cursor) {
			return
		}
		cursor = bytes.Clone(next.Of(m.Raw))
	}
}

// listPage sends one tools/list and returns its response.
func (u *Upstream) listPage(ctx context.Context, inner *proxy.Exchange) (wire.Message, error) {
	defer inner.Follow(ctx)()
	replies, err := u.doModern(inner)
	if err != nil {
		return wire.Message{}, err
	}
	until, _ := ctx.Deadline()
	return proxy.Response(replies, until)
}

// listRequest returns a tools/list on behalf of the client of ex. A nil cursor is left out.
func listRequest(ex *proxy.Exchange, cursor []byte) []byte {
	p := wire.Object([]wire.Change{{Key: "cursor", Value: cursor},
		{Key: "_meta", Value: wire.Object(rules.ModernMeta(ex.Client.Info, []byte("{}")))}})
	return append(append([]byte(`{"jsonrpc":"2.0","id":"dragoman-tools","method":"tools/list","params":`), p...), '}')
}

// modernCall is a call at a modern server for a client of either era, before translation.
type modernCall struct {
	proxy.Replies
	u      *Upstream
	link   transport.Link // carries the call
	ex     *proxy.Exchange
	method string
	before []wire.Edit  // the edits before begin
	room   [2]wire.Edit // storage for before
	again  bool         // may be sent once more after -32020, with headers from a fresh tool list
	begun  bool         // a reply has been returned
}

// Clear implements proxy.Clearer.
func (c *modernCall) Clear() { *c = modernCall{} }

func (c *modernCall) begin(link transport.Link) (proxy.Replies, error) {
	if c.again {
		c.before = append(c.room[:0], c.ex.Msg.Edits...)
	}
	var err error
	if c.Replies, c.link, err = c.u.links.Call(c.ex, link); err != nil {
		return nil, c.fault(err)
	}
	return c, nil
}

// Next implements proxy.Replies.
func (c *modernCall) Next(until time.Time) (m *wire.Message, err error) {
	for {
		m, err = c.Replies.Next(until)
		if err != nil {
			return m, c.fault(err)
		}
		switch m.Kind {
		case wire.Request:
			continue // forbidden in the modern era; a reply's stream has no way back
		case wire.Failure:
			if m.ErrorCode == proxy.CodeHeaderMismatch && c.again && !c.begun {
				if err := c.repeat(); err == nil {
					continue
				}
			}
			c.checkEra(m)
			c.unknownName(m)
		case wire.Result:
			if err := c.result(m); err != nil {
				return nil, err
			}
		}
		c.begun = true
		return m, nil
	}
}

// repeat sends the call again with headers made from a fresh tool list (2026-07-28 streamable HTTP, Client Behavior). If it fails, the
// replies are those of the first attempt.
func (c *modernCall) repeat() error {
	c.again = false
	c.u.tools.forget()
	c.ex.Msg.Edits = c.before
	if err := c.u.mirror(c.ex, c.u.opt.Wires.Mirrors); err != nil {
		return err
	}
	link, err := c.u.links.Get(c.ex, c.ex.Caller.Identity())
	if err != nil {
		return err
	}
	replies, link, err := c.u.links.Call(c.ex, link)
	if err != nil {
		return err
	}
	_ = c.Replies.Close()
	c.Replies, c.link = replies, link
	return nil
}

func (c *modernCall) result(m *wire.Message) error {
	if m.ResultType.Present() && !m.ResultType.Is(m.Raw, "complete") && !m.ResultType.Is(m.Raw, "input_required") && !c.extension(m) {
		return proxy.Errf(proxy.BadAnswer, "the upstream server answered with resultType %s, which is unknown", m.Of(m.ResultType))
	}
	if m.ResultType.Is(m.Raw, "input_required") {
		c.sealState(m)
	}
	if c.method == "tools/list" {
		c.u.tools.learn(m)
		if c.u.opt.Wires.Mirrors {
			translate.DropInvalidTools(m)
		}
	}
	return nil
}

// extension reports whether a result type of an extension may pass: always between two modern parties.
func (c *modernCall) extension(m *wire.Message) bool {
	return c.ex.Client.Era == proxy.Modern || c.u.opt.DriveTasks && c.method == "tools/call" && m.ResultType.Is(m.Raw, "task")
}

// unknownName is translate.UnknownName for modern clients.
func (c *modernCall) unknownName(m *wire.Message) {
	if v := c.u.keeper.Last(); v != nil && c.ex.Client.Era == proxy.Modern {
		_, caps := v.Identity()
		translate.UnknownName(m, c.method, caps)
	}
}

// checkEra doubts the server profile after errors that show that the server no longer speaks the modern era.
func (c *modernCall) checkEra(m *wire.Message) {
	legacyNow := m.ErrorCode == proxy.CodeUnsupportedVersion && rules.PickModern(m.Raw, wire.Get(m.Raw, m.ErrorData, "supported")) == "" &&
		wire.Get(m.Raw, m.ErrorData, "supported").Present()
	if legacyNow || m.ErrorCode == proxy.CodeMethodNotFound && c.method == "server/discover" {
		c.u.keeper.Doubt(errors.New(string(m.Text(m.ErrorText))))
	}
}

// fault converts a link's error to one for clients, and doubts the profile if no modern server would answer so.
func (c *modernCall) fault(err error) error {
	var status *transport.StatusError
	if errors.As(err, &status) {
		if status.Status == 400 || status.Status == 404 || status.Status == 405 {
			c.u.keeper.Doubt(status)
		}
		return transport.StatusFault(status)
	}
	return err
}
