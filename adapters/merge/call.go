package merge

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/era/seal"
	"dragoman/adapters/merge/handles"
	"dragoman/adapters/merge/lists"
	"dragoman/adapters/merge/metatools"
	"dragoman/adapters/merge/names"
	"dragoman/adapters/merge/skillset"
	"dragoman/adapters/merge/view"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// modern answers a request of a modern client, or sends it to the member that it means.
func (u *Upstream) modern(ex *proxy.Exchange) (proxy.Replies, error) {
	m := &ex.Msg
	method := proxy.Method(m.Text(m.Method))
	switch method {
	case "tools/call", "prompts/get", "resources/read", "completion/complete":
		return u.forward(ex)
	case skillset.ListMethod, skillset.GetMethod, skillset.DirectoryMethod:
		return u.skilled(ex, method)
	case "server/discover":
		return u.discover(ex)
	case "subscriptions/listen":
		return u.listen(ex)
	case "tasks/get", "tasks/update", "tasks/cancel":
		return u.modernTask(ex, method)
	case metatools.SearchMethod:
		if err := u.awaitFirst(ex, catalogue.Tools); err != nil {
			return nil, err
		}
		return u.tools.Search(ex, u.view(ex))
	}
	if kind, ok := catalogue.KindOf(method); ok {
		return u.answerList(ex, kind, u.view)
	}
	return u.beyond(ex, u.view, u.send)
}

// skilled answers a request of the extension for skills, or sends it to the member whose skill it is about.
func (u *Upstream) skilled(ex *proxy.Exchange, method string) (proxy.Replies, error) {
	if err := u.awaitFirst(ex, catalogue.Tools); err != nil {
		return nil, err
	}
	v := u.view(ex)
	if !v.HasSkills() {
		return u.beyond(ex, u.view, u.send)
	}
	if method == skillset.ListMethod {
		return u.skills.List(ex, v, u.strict.Load())
	}
	if replies, own, err := u.skills.Own(ex, v); own {
		return replies, err
	}
	v, d, err := u.resolve(ex, u.view)
	if err != nil {
		return nil, err
	}
	skilled, directories := v.Skilled(d.Server)
	switch {
	case !skilled:
		return nil, skillset.Unknown(string(d.Asked))
	case method == skillset.DirectoryMethod && !directories:
		return u.skills.Directory(ex, v, d.Server, d.Original)
	}
	return u.send(ex, v, d)
}

// ask sends a request to a member on behalf of a modern client's, with all policies of the member, and waits for its response until ctx ends.
func (u *Upstream) ask(ctx context.Context, of *proxy.Exchange, server, method string, params []wire.Change) (wire.Message, error) {
	member, err := u.member(server)
	if err != nil {
		return wire.Message{}, err
	}
	meta := wire.Object(rules.ModernMeta(of.Client.Info, of.Client.Caps))
	m, err := wire.Scan(lists.Request(method, append(slices.Clone(params), wire.Change{Key: "_meta", Value: meta})))
	if err != nil {
		return m, proxy.Errf(proxy.Internal, "a request to a server is no message: %w", err)
	}
	ex := &proxy.Exchange{Msg: m, Caller: of.Caller, Client: proxy.Client{Era: proxy.Modern, Version: of.Client.Version, Info: of.Client.Info, Caps: of.Client.Caps},
		Own: true, Server: server, Target: server}
	ex.Inherit(of)
	defer ex.Release()
	defer ex.Follow(ctx)()
	replies, err := member.Do(ex)
	if err != nil {
		return wire.Message{}, ex.Why(err)
	}
	until, _ := ctx.Deadline()
	m, err = proxy.Response(replies, until)
	if err != nil {
		return m, ex.Why(err)
	}
	return m, nil
}

// beyond sends a request whose method is none of the protocol to the member that alone can answer it.
func (u *Upstream) beyond(ex *proxy.Exchange, sees func(*proxy.Exchange) *view.View, send sender) (proxy.Replies, error) {
	m, v := &ex.Msg, sees(ex)
	method := string(m.Text(m.Method))
	if ofProtocol(method) {
		return nil, notOffered(method)
	}
	server, err := v.Beyond(m, legacyVersion(ex))
	if err != nil {
		return nil, err
	}
	if server == "" {
		return nil, notOffered(method)
	}
	return send(ex, v, view.Destination{Name: names.Name{Server: server}})
}

// sender sends a request to a member.
type sender func(ex *proxy.Exchange, v *view.View, d view.Destination) (proxy.Replies, error)

// ofProtocol reports whether a method is one of the protocol, or of the tasks extension.
func ofProtocol(method string) bool {
	return rules.Known(method) || strings.HasPrefix(method, "tasks/")
}

// notOffered is the error for methods that no member is known to have.
func notOffered(method string) *proxy.Error {
	return proxy.Errf(proxy.MethodNotFound, "method %s is not offered for several servers at once; send it to /servers/NAME/mcp", method)
}

// discover answers server/discover, once it is known what the members offer.
func (u *Upstream) discover(ex *proxy.Exchange) (proxy.Replies, error) {
	if err := u.awaitFirst(ex, catalogue.Tools); err != nil {
		return nil, err
	}
	v := u.view(ex)
	return proxy.Reply(proxy.ResultMessage(ex.Msg.Of(ex.Msg.ID), wire.Object([]wire.Change{
		{Key: "resultType", Value: []byte(`"complete"`)},
		{Key: "supportedVersions", Value: append(wire.AppendText([]byte{'['}, rules.ModernVersion), ']')},
		{Key: "capabilities", Value: v.Capabilities("")},
		{Key: "instructions", Value: u.tools.Instructions(ex, v)},
		{Key: "ttlMs", Value: []byte("0")}, {Key: "cacheScope", Value: []byte(`"private"`)},
		{Key: "_meta", Value: wire.Object([]wire.Change{{Key: wire.MetaPrefix + "serverInfo", Value: u.opt.Info}})},
	}))), nil
}

// answerList answers a request for a list, of which sees returns what a caller sees.
func (u *Upstream) answerList(ex *proxy.Exchange, kind catalogue.Kind, sees func(*proxy.Exchange) *view.View) (proxy.Replies, error) {
	if err := u.awaitFirst(ex, kind); err != nil {
		return nil, err
	}
	v := sees(ex)
	if late := v.Late(kind); u.strict.Load() && late != nil {
		return nil, proxy.Errf(proxy.Unreachable, "the lists of these servers are not up to date: %s", strings.Join(late[:min(len(late), maxNamed)], ", "))
	}
	var cursor *string
	if at := ex.Msg.Cursor; at.Present() {
		text := string(ex.Msg.Text(at))
		cursor = &text
	}
	var answer wire.Message
	var short bool
	var err *proxy.Error
	if kind == catalogue.Tools {
		answer, short, err = u.tools.List(ex, v, cursor, legacyVersion(ex))
	}
	if !short {
		answer, err = v.Answer(ex.Msg.Of(ex.Msg.ID), kind, cursor, legacyVersion(ex))
	}
	if err != nil {
		return nil, err
	}
	return proxy.Reply(answer), nil
}

// maxNamed bounds the servers in an error.
const maxNamed = 20

// legacyVersion returns the revision of a legacy client; empty for a modern one.
func legacyVersion(ex *proxy.Exchange) string {
	if ex.Client.Era == proxy.Legacy {
		return ex.Client.Version
	}
	return ""
}

// resolve finds out for which member a request is. A name that says nothing of its server is looked up again once every member was asked
// for its lists.
func (u *Upstream) resolve(ex *proxy.Exchange, sees func(*proxy.Exchange) *view.View) (*view.View, view.Destination, error) {
	v := sees(ex)
	d, err := v.Destination(&ex.Msg)
	if !u.opt.Lists.Settled(ex.Client.Era == proxy.Legacy) && !v.Certain(&ex.Msg, &d) {
		if err := u.awaitFirst(ex, d.Kind); err != nil {
			return nil, d, err
		}
		ex.Clock.Waited()
		v = sees(ex)
		d, err = v.Destination(&ex.Msg)
	}
	if err != nil {
		return nil, d, err
	}
	return v, d, nil
}

// forward sends a request to the member that it is about.
func (u *Upstream) forward(ex *proxy.Exchange) (proxy.Replies, error) {
	if replies, own, err := u.own(ex, u.view); own {
		return replies, err
	}
	if u.opt.Skills == view.GeneratedSkills && ex.Msg.Is("resources/read") {
		if replies, own, err := u.skills.Own(ex, u.view(ex)); own {
			return replies, err
		}
	}
	v, d, err := u.resolve(ex, u.view)
	if err != nil {
		return nil, err
	}
	if refused := u.tools.Refuse(ex, v, &d, legacyVersion(ex)); refused != nil {
		return refused, nil
	}
	return u.send(ex, v, d)
}

// send sends a request to a member.
func (u *Upstream) send(ex *proxy.Exchange, v *view.View, d view.Destination) (proxy.Replies, error) {
	member, err := u.member(d.Server)
	if err != nil {
		return nil, err
	}
	c := proxy.Lend[call](ex, slot)
	m := &ex.Msg
	c.u, c.v, c.ex, c.member = u, v, ex, member
	c.asked.Raw, c.asked.Method, c.asked.Params, c.asked.Task, c.asked.TaskID = m.Raw, m.Method, m.Params, m.Task, m.TaskID
	switch d.At {
	case wire.Span{}:
		c.beyond = true
	case ex.Msg.TaskID:
		c.task = d.Original
	}
	if err := c.begin(&d); err != nil {
		return nil, err
	}
	ex.Target = member.Name
	replies, derr := member.Do(ex)
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
	v      *view.View
	ex     *proxy.Exchange
	member *member
	asked  wire.Message // the request as the client has sent it: where its method and params are, and what its task is
	beyond bool         // its method is none of the protocol: nobody looks into its result
	task   string       // the member's id of the task that the request is about; empty: it is about none
	room                // of the request as the member gets it
	reply  []byte       // memory of edited replies
}

// room is memory of a request as a member gets it.
type room struct {
	own   []byte
	edits []wire.Edit
}

func (r *room) empty() { r.own, r.edits = r.own[:0], r.edits[:0] }

// address puts the name or URI of a destination into a request, and takes out what is for Dragoman alone. It reports whether the member has another
// name than the client. It comes after all other edits: the request may be in the room already.
func (r *room) address(m *wire.Message, d *view.Destination) (renamed bool) {
	view.DropServer(m)
	switch {
	case string(d.Asked) == d.Original:
		return false
	case len(m.Edits) == 0: // almost always
		r.own = m.Rename(d.At, d.Original, r.own)
	default:
		m.Replace(d.At, wire.AppendText(nil, d.Original))
	}
	return true
}

// settle applies the edits of a request.
func (r *room) settle(m *wire.Message) (err error) {
	r.edits = m.Edits[:0]
	if r.own, err = m.Settle(r.own); err != nil {
		return proxy.Errf(proxy.Internal, "a request for a member is no message: %w", err)
	}
	return nil
}

// Clear implements proxy.Clearer.
func (c *call) Clear() {
	c.Replies, c.u, c.v, c.ex, c.member, c.beyond, c.task, c.reply = nil, nil, nil, nil, nil, false, "", c.reply[:0]
	c.asked.Raw = nil // send sets the rest
	c.empty()
}

// begin makes the request one for its member.
func (c *call) begin(d *view.Destination) error {
	m := &c.ex.Msg
	m.Edits = c.edits[:0]
	if err := c.openState(); err != nil {
		return err
	}
	if c.address(m, d) {
		c.ex.Tool, c.ex.PublicName = d.Original, d.Asked
	}
	return c.settle(m)
}

// openState restores the requestState of the member (2026-07-28 multi-round-trip requests).
func (c *call) openState() *proxy.Error {
	m := &c.ex.Msg
	if !m.ReqState.Present() {
		return nil
	}
	kind, body, err := c.u.opt.Sealer.Open(string(m.Text(m.ReqState)), seal.Binding(c.ex, ""), time.Now())
	server, state, ok := bytes.Cut(body, []byte{0})
	if err != nil || kind != seal.Member || !ok || string(server) != c.member.Name {
		return seal.BadState()
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
	uris := m.Kind == wire.Result && !c.beyond && view.MayHaveURIs(m.Raw)
	skills := uris && skillset.Is(string(c.asked.Text(c.asked.Method)))
	state := m.Kind == wire.Result && m.At(m.ResultType, "input_required")
	log := m.Is("notifications/message")
	if !uris && !state && !log && !handles.HasTasks(m, &c.asked) {
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
	case skills:
		c.v.SkillURIs(m, m.Result, c.member.Name)
	case uris:
		c.v.ResultURIs(m, c.result(m), c.member.Name)
	}
	handles.PublicTasks(m, &c.asked, c.handle)
	return nil
}

// result returns where a reply has the result of what was called: that of a task is within.
func (c *call) result(m *wire.Message) wire.Span {
	if c.task != "" {
		return wire.Get(m.Raw, m.Result, "result")
	}
	return m.Result
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
