package era

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"dragoman/adapters/era/tasks"
	"dragoman/adapters/era/translate"
	"dragoman/adapters/rules"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// upgrade sends a legacy client's exchange to a modern server. Every request carries what the handshake negotiated;
// requests about sessions are answered here.
func (u *Upstream) upgrade(ex *proxy.Exchange) (proxy.Replies, error) {
	m := &ex.Msg
	u.bridges.Refresh(ex)
	if m.Kind != wire.Request {
		if m.Is("notifications/initialized") {
			u.bridges.Initialized(ex.Session)
		}
		return nil, nil // a late answer, initialized, roots/list_changed, progress: none exists in the modern era
	}
	method := proxy.Method(m.Text(m.Method))
	switch {
	case method == "initialize":
		return u.initialize(ex)
	case method == "ping":
		return proxy.Reply(proxy.ResultMessage(m.Of(m.ID), []byte("{}"))), nil
	case method == "logging/setLevel":
		return u.setLevel(ex)
	case method == "resources/subscribe":
		return u.bridges.Subscribe(ex)
	case method == "resources/unsubscribe":
		return u.bridges.Unsubscribe(ex)
	case strings.HasPrefix(method, "tasks/"):
		return nil, tasks.NotOffered(method)
	case rules.Removed(method), rules.ModernOnly(method):
		return nil, proxy.Errf(proxy.MethodNotFound, "method %s is not offered for this server", method)
	}
	v, err := u.Profile(ex)
	if err != nil {
		return nil, err
	}
	c := proxy.Lend[upCall](ex, proxy.SlotEra)
	c.u, c.ex, c.method, c.modern = u, ex, method, v.Modern
	c.room.open(m)
	if v.Modern {
		u.addClientMeta(ex)
		if err := u.mirror(ex, u.opt.Wires.Mirrors); err != nil {
			return nil, err
		}
	}
	c.edits = m.Edits
	if err := c.begin(); err != nil {
		return nil, err
	}
	return c, nil
}

// initialize answers initialize from the server's DiscoverResult, requested on behalf of the client.
func (u *Upstream) initialize(ex *proxy.Exchange) (proxy.Replies, error) {
	inner, err := transport.NewExchange(proxy.Modern, rules.DiscoverRequest(ex.Client.Info, translate.ModernCaps(ex.Client.Caps, ex.Client.Version)))
	if err != nil {
		return nil, proxy.Errf(proxy.InvalidParams, "params of initialize: %w", err)
	}
	inner.Caller, inner.Client.Version = ex.Caller, rules.ModernVersion
	translate.ContinueTrace(inner, ex)
	m, err := u.discover(ex, inner)
	if err != nil {
		var status *transport.StatusError
		if errors.As(err, &status) {
			u.keeper.Doubt(status)
			return nil, transport.StatusFault(status)
		}
		return nil, err
	}
	if m.Kind == wire.Failure {
		return nil, u.keeper.Refused(&m, "server/discover")
	}
	info := m.Of(m.Info)
	if info == nil {
		info = u.defaultInfo()
	}
	result := wire.Object([]wire.Change{
		{Key: "protocolVersion", Value: []byte(`"` + rules.Settle(ex.Client.Version) + `"`)},
		{Key: "capabilities", Value: u.offeredCaps(ex, inner, wire.Get(m.Raw, m.Result, "capabilities").Of(m.Raw))},
		{Key: "serverInfo", Value: info},
		{Key: "instructions", Value: wire.Get(m.Raw, m.Result, "instructions").Of(m.Raw)},
	})
	return proxy.Reply(proxy.ResultMessage(ex.Msg.Of(ex.Msg.ID), result)), nil
}

// discover sends server/discover to a modern server, or answers it from a shared session of a legacy one.
func (u *Upstream) discover(ex, inner *proxy.Exchange) (wire.Message, error) {
	ctx, cancel := context.WithTimeout(ex, u.opt.Patience())
	defer cancel()
	v, err := u.Profile(ctx)
	if err != nil {
		return wire.Message{}, err
	}
	if v.Modern {
		link, err := u.links.Get(ex, ex.Caller.Principal)
		if err != nil {
			return wire.Message{}, err
		}
		return transport.Ask(ctx, link, inner)
	}
	defer inner.Follow(ctx)()
	replies, err := u.downgrade(inner)
	if err != nil {
		return wire.Message{}, err
	}
	until, _ := ctx.Deadline()
	return proxy.Response(replies, until)
}

// setLevel answers logging/setLevel. The session stores the level, and later requests carry it.
func (u *Upstream) setLevel(ex *proxy.Exchange) (proxy.Replies, error) {
	m := &ex.Msg
	v, err := u.Profile(ex)
	if err != nil {
		return nil, err
	}
	if v.Discover != nil {
		all := wire.Whole(v.Discover)
		if !wire.Path(v.Discover, all, "capabilities", "logging").Present() {
			return nil, proxy.Errf(proxy.MethodNotFound, "the server has no logging capability")
		}
	}
	if level := string(m.Text(m.Level)); !rules.ValidLevel(level) {
		return nil, proxy.Errf(proxy.InvalidParams, "params.level must be one of %v", rules.LogLevels)
	}
	return proxy.Reply(proxy.ResultMessage(m.Of(m.ID), []byte("{}"))), nil
}

// addClientMeta adds the members of _meta that every modern request carries, and removes reserved members that the
// client sent.
func (u *Upstream) addClientMeta(ex *proxy.Exchange) {
	m := &ex.Msg
	tasks := u.opt.DriveTasks && m.Is("tools/call")
	trace := translate.TraceMembers(ex)
	fill := translate.FillArguments(m)
	if trace == nil && fill == nil && m.Params.Present() && !m.Meta.Present() && !m.Task.Present() && !m.InputResponses.Present() && !m.ReqState.Present() {
		translate.Extend(m, m.Params, u.metaCache.of(&ex.Client, tasks))
		return
	}
	stamp := append(clientMeta(&ex.Client, tasks), trace...)
	changes := []wire.Change{{Key: "task"}, {Key: "inputResponses"}, {Key: "requestState"}}
	changes = append(changes, fill...)
	if m.Meta.IsObject(m.Raw) {
		m.EditObject(m.Meta, stamp)
	} else {
		changes = append(changes, wire.Change{Key: "_meta", Value: wire.Object(stamp)})
	}
	m.EditParams(changes)
}

// upCall is one call of a legacy client at a modern server.
type upCall struct {
	proxy.Replies
	u           *Upstream
	ex          *proxy.Exchange
	method      string
	edits       []wire.Edit
	room        edits
	first       modernCall    // the first attempt
	again       []wire.Change // changes to params when the call is sent again with answers
	settled     []byte
	modern      bool            // the server is modern; otherwise a legacy one that several clients share
	link        transport.Link  // to a modern server
	inner       *proxy.Exchange // replaces ex at a legacy server and is recycled on Close; nil: left to the collector
	cancelInner innerCancel     // cancels the first inner exchange
	shared      bool            // there was an inner exchange
	retried     bool
	begun       bool

	ask      inquiry
	task     *task    // made of the call by the server
	out      [][]byte // for the client, before further replies
	over     bool     // io.EOF follows once out is empty
	err      error    // follows once out is empty
	progress float64  // the highest value so far
}

func (c *upCall) begin() error {
	if !c.modern {
		return c.callShared()
	}
	link, err := c.u.links.Get(c.ex, c.ex.Caller.Principal)
	if err != nil {
		return err
	}
	call := &c.first
	if call.u == nil {
		c.ex.Msg.Edits = c.room.lend(c.edits)
	} else {
		c.ex.Msg.Edits = slices.Clone(c.edits)
		call = new(modernCall)
	}
	if c.again != nil {
		c.ex.Msg.EditParams(c.again)
	}
	*call = modernCall{u: c.u, ex: c.ex, method: c.method, again: c.method == "tools/call" && c.u.opt.Wires.Mirrors}
	c.Replies, err = call.begin(link)
	c.link = call.link
	return err
}

// callShared sends the call, as that of a modern client, through downgrade to a session that several clients share. The
// message stays unchanged but for answers to questions, which modern clients send with the retry.
func (c *upCall) callShared() error {
	inner := proxy.BorrowInner()
	inner.Msg, inner.Caller = c.ex.Msg, c.ex.Caller
	inner.Client = proxy.Client{Era: proxy.Modern, Version: rules.ModernVersion,
		Info: c.ex.Client.Info, Caps: c.u.capsCache.of(c.ex.Client.Caps, c.ex.Client.Version), LogLevel: c.ex.Client.LogLevel}
	inner.Inherit(c.ex)
	inner.Msg.Edits = slices.Clone(c.edits)
	if c.again != nil {
		inner.Msg.EditParams(c.again)
		m, err := wire.Scan(inner.Msg.Append(nil))
		if err != nil {
			return proxy.AsError(err)
		}
		inner.Msg = m
	}
	c.attachInner(inner)
	replies, err := c.u.downgrade(inner)
	if d, ok := replies.(*downCall); ok {
		d.legacyClient = true
	}
	c.Replies = replies
	if err != nil {
		c.inner = nil
	}
	return err
}

// attachInner cancels inner together with the call. Close recycles it if it was the only one.
func (c *upCall) attachInner(inner *proxy.Exchange) {
	if c.shared {
		c.inner = nil // replies of the previous one may still be open
		c.ex.Attach(&innerCancel{inner.Ticket()})
		return
	}
	c.shared, c.inner, c.cancelInner = true, inner, innerCancel{inner.Ticket()}
	c.ex.Attach(&c.cancelInner)
}

// doNotRecycle leaves the call to the collector, since others may hold it, or memory lent by it, beyond its end.
func (c *upCall) doNotRecycle() {
	c.inner = nil
	if c.ex != nil {
		c.ex.DoNotRecycle()
	}
}

// Clear implements proxy.Clearer.
func (c *upCall) Clear() { *c = upCall{} }

// innerCancel cancels an inner exchange that may have been recycled in the meantime.
type innerCancel struct{ inner proxy.Ticket }

// Abort implements proxy.Aborter.
func (b *innerCancel) Abort() { b.inner.Cancel(proxy.ErrCancelled) }

// Next implements proxy.Replies.
func (c *upCall) Next(until time.Time) (m *wire.Message, err error) {
	for {
		switch {
		case len(c.out) > 0:
			raw := c.out[0]
			c.out = c.out[1:]
			return proxy.Scanned(raw)
		case c.over:
			return nil, io.EOF
		case c.err != nil:
			return nil, c.err
		case c.ask.again:
			if err := c.await(until); err != nil {
				return nil, err
			}
			continue
		}
		if c.task == nil {
			m, err = c.Replies.Next(until)
		} else {
			m, err = c.nextTaskMessage(until)
		}
		if err != nil {
			if c.repeat(err) {
				continue
			}
			return m, err
		}
		if m.Kind == wire.Invalid {
			continue
		}
		c.begun = true
		give, err := c.reply(m)
		if err != nil || give {
			return m, err
		}
	}
}

// nextTaskMessage returns the next message of a task; an Invalid one if there is none yet.
func (c *upCall) nextTaskMessage(until time.Time) (*wire.Message, error) {
	m, give, err := c.poll(until)
	if !give {
		m = new(wire.Message)
	}
	return m, err
}

// reply translates one reply; give is false if the client must not receive it as it is.
func (c *upCall) reply(m *wire.Message) (give bool, err error) {
	switch m.Kind {
	case wire.Notification:
		return !m.Is("notifications/progress") || c.progressRises(m), nil
	case wire.Result:
		if m.ResultType.Is(m.Raw, "input_required") {
			return false, c.inquire(m)
		}
		if c.task == nil && m.ResultType.Is(m.Raw, "task") {
			return false, c.drive(m)
		}
		if m.Edited(m.Result) { // an object can be edited once only
			if c.settled, err = m.Settle(c.settled); err != nil {
				return false, proxy.Errf(proxy.Internal, "a translated result is no message: %w", err)
			}
		}
		translate.LegacyResult(m, c.method, c.ex.Client.Version)
	case wire.Failure:
		if e := translate.LegacyError(m, c.method, c.ex.Msg.Of(c.ex.Msg.URI)); e != nil {
			*m = proxy.ErrorMessage(c.ex.Msg.Of(c.ex.Msg.ID), e)
		}
	}
	if m.IsResponse() && len(c.ask.visits) > 0 {
		c.complete(m)
		return false, nil
	}
	return true, nil
}

// Close implements proxy.Replies. It withdraws open questions and cancels a running task.
func (c *upCall) Close() error {
	for _, msg := range c.withdraw() {
		_ = c.ex.Session.Push(msg) // without a stream the client learns of it when it answers
	}
	c.abandon()
	if c.Replies == nil {
		return nil
	}
	err := c.Replies.Close()
	if inner := c.inner; inner != nil {
		c.inner = nil
		inner.Release()
		inner.Recycle()
	}
	return err
}

// repeat sends a read-only request once more if the connection was lost before any reply.
func (c *upCall) repeat(err error) bool {
	var e *proxy.Error
	if errors.Is(err, io.EOF) || c.retried || c.begun || c.ex.Err() != nil || !errors.As(err, &e) || e.Name != proxy.Lost.Name || !rules.ReadsOnly(&c.ex.Msg) {
		return false
	}
	c.retried = true
	before := c.Replies
	if err := c.begin(); err != nil {
		c.Replies = before
		return false
	}
	_ = before.Close()
	return true
}

// offeredCaps returns the server capabilities for a legacy client and adds its session to a bridge. They include
// listChanged and subscribe, since the bridge delivers notices. inner is the server/discover that requested them.
func (u *Upstream) offeredCaps(ex, inner *proxy.Exchange, caps []byte) []byte {
	v, err := u.Profile(ex)
	if err != nil {
		return translate.ServerCaps(caps, false)
	}
	caps = translate.ServerCaps(caps, true) // for a legacy server, downgrade has removed what it cannot deliver
	u.bridges.Join(ex, inner, caps, !(v.Modern && u.opt.Wires.Stdio))
	return caps
}
