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

// upgrade takes a legacy client's exchange to a modern server: what the handshake fixed goes with every request, what
// only sessions have is answered here.
func (u *Upstream) upgrade(ex *proxy.Exchange) (proxy.Replies, error) {
	m := &ex.Msg
	u.bridges.Refresh(ex)
	if m.Kind != wire.Request {
		if m.Is("notifications/initialized") {
			u.bridges.Initialized(ex.Session)
		}
		return nil, nil // an answer nobody awaits any more; initialized, roots/list_changed, progress: nothing of it exists in the modern era
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

// initialize answers initialize from the server's DiscoverResult, asked for in the client's own name.
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

// discover asks the server, or, for a legacy one that all clients share, its session, what it is.
func (u *Upstream) discover(ex, inner *proxy.Exchange) (wire.Message, error) {
	ctx, cancel := context.WithTimeout(ex, u.opt.patience())
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

// setLevel answers logging/setLevel; the session remembers the level, and later requests carry it.
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

// addClientMeta puts on a legacy request what every modern one carries, in place of whatever the client put there.
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
	first       modernCall    // the first time that it is made
	again       []wire.Change // of params, in a call that is made again with answers
	settled     []byte
	modern      bool            // the server is; else it is a legacy one that several clients share
	link        transport.Link  // to a modern server
	inner       *proxy.Exchange // that stands for ex at a legacy server, while it is to be given back; nil: it is left to the collector
	cancelInner innerCancel     // the first of them
	shared      bool            // there was one
	retried     bool
	begun       bool

	ask      inquiry
	task     *task    // that the server has made of the call
	out      [][]byte // for the client, ahead of what the server says
	over     bool     // when out is empty, all has been said
	err      error    // or this is how it ends
	progress float64  // the highest so far
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

// callShared takes the call, as a modern client's, down again to a session that several clients share: sharing is what the modern
// era is made for. The message stays as it is, but for answers to questions, which modern clients send with it.
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

// attachInner has inner cancelled together with the call, and given back with it if it is the only one that there was.
func (c *upCall) attachInner(inner *proxy.Exchange) {
	if c.shared {
		c.inner = nil // the one before has replies that may not be closed yet
		c.ex.Attach(&innerCancel{inner.Ticket()})
		return
	}
	c.shared, c.inner, c.cancelInner = true, inner, innerCancel{inner.Ticket()}
	c.ex.Attach(&c.cancelInner)
}

// doNotRecycle says that somebody else may hold the call, or what it has lent, beyond its end.
func (c *upCall) doNotRecycle() {
	c.inner = nil
	if c.ex != nil {
		c.ex.DoNotRecycle()
	}
}

// Clear implements proxy.Clearer.
func (c *upCall) Clear() { *c = upCall{} }

// innerCancel is along for one that may be given back before.
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

// nextTaskMessage returns what the server says next of a task; no message (Invalid) if that goes on.
func (c *upCall) nextTaskMessage(until time.Time) (*wire.Message, error) {
	m, give, err := c.poll(until)
	if !give {
		m = new(wire.Message)
	}
	return m, err
}

// reply translates one reply; false for one that the client is not to see as it is.
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
		if m.Edited(m.Result) { // by what came before; an object is edited once
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

// Close implements proxy.Replies. A client that is still being asked is told that it need not answer.
func (c *upCall) Close() error {
	for _, msg := range c.withdraw() {
		_ = c.ex.Session.Push(msg) // without a stream it finds out when it answers
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

// repeat sends a request without effects once more if the server's stream broke off before anything came.
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

// offeredCaps returns the capabilities that a legacy client is told of a server: with listChanged and subscribe, since a bridge, which begins
// here, brings it the notices. inner is the server/discover that asked for them.
func (u *Upstream) offeredCaps(ex, inner *proxy.Exchange, caps []byte) []byte {
	v, err := u.Profile(ex)
	if err != nil {
		return translate.ServerCaps(caps, false)
	}
	caps = translate.ServerCaps(caps, true) // of a legacy server, downgrade has said what it can deliver
	u.bridges.Join(ex, inner, caps, !(v.Modern && u.opt.Wires.Stdio))
	return caps
}
