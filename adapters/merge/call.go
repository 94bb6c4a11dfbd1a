package merge

import (
	"bytes"
	"time"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/era/seal"
	"dragoman/adapters/merge/names"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// modern answers a request of a modern client, or sends it to the member that it means.
func (u *Upstream) modern(ex *proxy.Exchange) (proxy.Replies, error) {
	m := &ex.Msg
	method := proxy.Method(m.Text(m.Method))
	if kind, ok := kindOf(method); ok {
		return u.answerList(ex, kind)
	}
	switch method {
	case "server/discover":
		return u.discover(ex), nil
	case "tools/call", "prompts/get", "resources/read", "completion/complete":
		return u.forward(ex)
	case "subscriptions/listen":
		return u.listen(ex)
	}
	return nil, proxy.Errf(proxy.MethodNotFound, "method %s is not offered for several servers at once; send it to /servers/NAME/mcp", method)
}

// discover answers server/discover.
func (u *Upstream) discover(ex *proxy.Exchange) proxy.Replies {
	v := u.view(ex.Caller)
	var instructions []byte
	if text := v.instructions(); text != "" {
		instructions = wire.AppendText(nil, text)
	}
	return proxy.Reply(proxy.ResultMessage(ex.Msg.Of(ex.Msg.ID), wire.Object([]wire.Change{
		{Key: "resultType", Value: []byte(`"complete"`)},
		{Key: "supportedVersions", Value: append(wire.AppendText([]byte{'['}, rules.ModernVersion), ']')},
		{Key: "capabilities", Value: v.capabilities()},
		{Key: "instructions", Value: instructions},
		{Key: "ttlMs", Value: []byte("0")}, {Key: "cacheScope", Value: []byte(`"private"`)},
		{Key: "_meta", Value: wire.Object([]wire.Change{{Key: wire.MetaPrefix + "serverInfo", Value: u.opt.Info}})},
	})))
}

// destination is the member that a request is for, and what the request is about there.
type destination struct {
	member *Member
	at     wire.Span // of the name or URI in the request; not present: nothing is to be replaced
	own    string    // the member's name for it
}

// about returns where a request has the name or URI that it is about, and of which kind that is.
func about(m *wire.Message) (at wire.Span, kind catalogue.Kind) {
	switch {
	case m.Is("tools/call"):
		return m.Name, catalogue.Tools
	case m.Is("prompts/get"):
		return m.Name, catalogue.Prompts
	case m.Is("completion/complete"):
		ref := wire.Get(m.Raw, m.Params, "ref")
		if wire.Get(m.Raw, ref, "type").Is(m.Raw, "ref/resource") {
			return wire.Get(m.Raw, ref, "uri"), catalogue.Templates
		}
		return wire.Get(m.Raw, ref, "name"), catalogue.Prompts
	}
	return m.URI, catalogue.Resources
}

// destination finds out for which member a request is.
func (v *view) destination(m *wire.Message) (d destination, err *proxy.Error) {
	var kind catalogue.Kind
	d.at, kind = about(m)
	if !d.at.IsString(m.Raw) {
		return d, proxy.Errf(proxy.InvalidParams, "params of %s: the name or URI must be a string", m.Text(m.Method))
	}
	name, server := string(m.Text(d.at)), explicit(m)
	if kind == catalogue.Tools || kind == catalogue.Prompts {
		d.member, d.own, err = v.named(kind, name, server)
	} else {
		d.member, d.own, err = v.located(name, server)
	}
	return d, err
}

// resolve finds out for which member a request is. A name that says nothing of its server is looked up once every member was asked for
// its lists.
func (u *Upstream) resolve(ex *proxy.Exchange) (*view, destination, error) {
	v := u.view(ex.Caller)
	if kind, certain := v.certain(&ex.Msg); !certain {
		if err := u.awaitFirst(ex, kind); err != nil {
			return nil, destination{}, err
		}
		v = u.view(ex.Caller)
	}
	d, err := v.destination(&ex.Msg)
	if err != nil {
		return nil, d, err
	}
	return v, d, nil
}

// certain reports whether the member of a request does not depend on lists that are not known yet, and of which kind these are.
func (v *view) certain(m *wire.Message) (catalogue.Kind, bool) {
	at, kind := about(m)
	name := string(m.Text(at))
	switch {
	case explicit(m) != "":
		return kind, true
	case kind == catalogue.Tools || kind == catalogue.Prompts:
		return kind, v.list(kind).table.Certain(name)
	}
	_, _, prefixed := names.SplitURI(name)
	return kind, prefixed || v.snap.Owner(name) != ""
}

// forward sends a request to the member that it is about.
func (u *Upstream) forward(ex *proxy.Exchange) (proxy.Replies, error) {
	v, d, err := u.resolve(ex)
	if err != nil {
		return nil, err
	}
	c := proxy.Lend[call](ex, slot)
	c.u, c.v, c.ex, c.member, c.asked = u, v, ex, d.member, ex.Msg
	if err := c.address(&d); err != nil {
		return nil, err
	}
	ex.Server, ex.Target = d.member.Name, d.member.Name
	replies, derr := d.member.Do(ex)
	if derr != nil {
		return nil, derr
	}
	c.Replies = replies
	return c, nil
}

var slot = proxy.NewSlot()

// call is a request at a member. Its replies have the names of the merged endpoint.
type call struct {
	proxy.Replies
	u      *Upstream
	v      *view
	ex     *proxy.Exchange
	member *Member
	asked  wire.Message // the request as the client has sent it
	own    []byte       // the request as the member gets it
	reply  []byte       // memory of edited replies
}

// Clear implements proxy.Clearer.
func (c *call) Clear() { *c = call{own: c.own[:0], reply: c.reply[:0]} }

// address makes the request one for its member.
func (c *call) address(d *destination) error {
	m := &c.ex.Msg
	if err := c.openState(); err != nil {
		return err
	}
	if string(m.Text(d.at)) != d.own {
		m.Replace(d.at, wire.AppendText(nil, d.own))
	}
	var err error
	if c.own, err = m.Settle(c.own); err != nil {
		return proxy.Errf(proxy.Internal, "a request for a member is no message: %w", err)
	}
	return nil
}

// openState restores the requestState of the member (2026-07-28 multi-round-trip requests).
func (c *call) openState() *proxy.Error {
	m := &c.ex.Msg
	if !m.ReqState.Present() {
		return nil
	}
	bad := proxy.Errf(proxy.InvalidParams, "params.requestState is unknown, changed or expired; send the request again without it")
	kind, body, err := c.u.opt.Sealer.Open(string(m.Text(m.ReqState)), seal.Binding(c.ex, ""), time.Now())
	if err != nil || kind != seal.Member {
		return bad
	}
	server, state, ok := bytes.Cut(body, []byte{0})
	if !ok || string(server) != c.member.Name {
		return bad
	}
	m.Replace(m.ReqState, state)
	return nil
}

// sealState binds the requestState of a member to it and to the request.
func (c *call) sealState(m *wire.Message) {
	state := wire.Get(m.Raw, m.Result, "requestState")
	if !state.Present() {
		return
	}
	asked := proxy.Exchange{Msg: c.asked, Caller: c.ex.Caller}
	body := append([]byte(c.member.Name+"\x00"), state.Of(m.Raw)...)
	sealed := c.u.opt.Sealer.Seal(seal.Member, body, seal.Binding(&asked, ""), time.Now().Add(c.u.opt.StateTTL))
	m.Replace(state, wire.AppendText(nil, sealed))
}

// Next implements proxy.Replies.
func (c *call) Next(until time.Time) (*wire.Message, error) {
	m, err := c.Replies.Next(until)
	if err != nil {
		return m, err
	}
	return m, c.public(m)
}

// public puts the names of the merged endpoint into a reply.
func (c *call) public(m *wire.Message) (err error) {
	uris := m.Kind == wire.Result && bytes.Contains(m.Raw, []byte(`"uri"`))
	state := m.Kind == wire.Result && m.ResultType.Is(m.Raw, "input_required")
	log := m.Is("notifications/message")
	if !uris && !state && !log {
		return nil
	}
	if c.reply, err = m.Settle(c.reply); err != nil {
		return proxy.Errf(proxy.Internal, "an edited reply is no message: %w", err)
	}
	switch {
	case log:
		nameLogger(m, c.member.Name)
	case state:
		c.sealState(m)
	default:
		c.v.resultURIs(m, c.member.Name)
	}
	return nil
}

// nameLogger puts the name of the server before that of its logger.
func nameLogger(m *wire.Message, server string) {
	logger := wire.Get(m.Raw, m.Params, "logger")
	if !logger.IsString(m.Raw) {
		m.EditObject(m.Params, []wire.Change{{Key: "logger", Value: wire.AppendText(nil, server)}})
		return
	}
	m.Replace(logger, wire.AppendText(nil, server+"/"+string(logger.Text(m.Raw))))
}

// resultURIs makes the URIs in a result lead to the server that has given it.
func (v *view) resultURIs(m *wire.Message, server string) {
	replace := func(at wire.Span) {
		if !at.IsString(m.Raw) {
			return
		}
		uri := string(at.Text(m.Raw))
		if public := v.publicURI(server, uri); public != uri {
			m.Replace(at, wire.AppendText(nil, public))
		}
	}
	block := func(at wire.Span) { // a resource link, or an embedded resource
		if wire.Get(m.Raw, at, "type").Is(m.Raw, "resource_link") {
			replace(wire.Get(m.Raw, at, "uri"))
		}
		replace(wire.Path(m.Raw, at, "resource", "uri"))
	}
	for _, item := range wire.Items(m.Raw, wire.Get(m.Raw, m.Result, "contents")) {
		replace(wire.Get(m.Raw, item, "uri"))
	}
	for _, item := range wire.Items(m.Raw, wire.Get(m.Raw, m.Result, "content")) {
		block(item)
	}
	for _, item := range wire.Items(m.Raw, wire.Get(m.Raw, m.Result, "messages")) {
		content := wire.Get(m.Raw, item, "content")
		if content.IsObject(m.Raw) {
			block(content)
			continue
		}
		for _, part := range wire.Items(m.Raw, content) {
			block(part)
		}
	}
}
