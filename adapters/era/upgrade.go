package era

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"dragoman/adapters/era/input"
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
	result := wire.Object([]wire.Change{
		{Key: "protocolVersion", Value: []byte(`"` + rules.Settle(ex.Client.Version) + `"`)},
		{Key: "capabilities", Value: u.offeredCaps(ex, inner, wire.Get(m.Raw, m.Result, "capabilities").Of(m.Raw))},
		{Key: "serverInfo", Value: u.infoOr(m.Of(m.Info))},
		{Key: "instructions", Value: wire.Get(m.Raw, m.Result, "instructions").Of(m.Raw)},
	})
	return proxy.Reply(proxy.ResultMessage(ex.Msg.Of(ex.Msg.ID), result)), nil
}

// discover sends server/discover to a modern server, or answers it from a shared session of a legacy one.
func (u *Upstream) discover(ex, inner *proxy.Exchange) (wire.Message, error) {
	ctx, cancel := context.WithTimeout(ex, u.opt.HandshakeTimeout())
	defer cancel()
	v, err := u.Profile(ctx)
	if err != nil {
		return wire.Message{}, err
	}
	if v.Modern {
		link, err := u.links.Get(ex, ex.Caller.Identity())
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
		translate.Extend(m, m.Params, u.metaCache.of(&ex.Client, tasks, metaMember))
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

	ask      *input.Inquiry // nil until the server asks
	task     *tasks.Polled  // made of the call by the server
	out      [][]byte       // for the client, before further replies
	err      error          // follows once out is empty
	progress float64        // the highest value so far
}

func (c *upCall) begin() error {
	if !c.modern {
		return c.callShared()
	}
	link, err := c.u.links.Get(c.ex, c.ex.Caller.Identity())
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
		Info: c.ex.Client.Info, Caps: c.u.capsCache.of(&c.ex.Client, false, modernCaps), LogLevel: c.ex.Client.LogLevel}
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
		case c.err != nil:
			return nil, c.err
		case c.ask.Open():
			if err := c.await(until); err != nil {
				return nil, err
			}
			continue
		}
		m, err = c.Replies.Next(until)
		if err != nil {
			if c.repeat(err) {
				continue
			}
			return m, err
		}
		c.begun = true
		give, err := c.reply(m)
		if err != nil || give {
			return m, err
		}
	}
}

// reply translates one reply; give is false if the client must not receive it as it is.
func (c *upCall) reply(m *wire.Message) (give bool, err error) {
	switch m.Kind {
	case wire.Notification:
		return !m.Is("notifications/progress") || c.progressRises(m), nil
	case wire.Result:
		switch {
		case c.task != nil && c.task.Asks(), m.ResultType.Is(m.Raw, "input_required"):
			return false, c.inquire(m)
		case c.modern && c.task == nil && m.ResultType.Is(m.Raw, "task"):
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
	if m.IsResponse() {
		if c.out = c.ask.Completed(); c.out != nil {
			c.out, c.err = append(c.out, m.Append(nil)), io.EOF
			return false, nil
		}
	}
	return true, nil
}

// inquire puts the questions of a result to the client.
func (c *upCall) inquire(m *wire.Message) (err error) {
	c.doNotRecycle()
	if c.ask == nil {
		c.ask = input.NewInquiry(c.ex, c.u.store)
	}
	if c.task != nil && c.task.Asks() {
		c.out, err = c.ask.AskTask(m)
	} else {
		c.out, err = c.ask.Ask(m)
	}
	return err
}

// await waits for the answers to questions, and sends the call again, or the task the answers. If the call has ended
// instead, c.out and c.err say how.
func (c *upCall) await(until time.Time) error {
	out, err := c.ask.Wait(until)
	switch {
	case errors.Is(err, proxy.ErrNotYet):
		return err
	case err != nil:
		c.out, c.err = out, err
		return nil
	case c.task != nil:
		c.task.Answer(c.ask.Answers())
		return nil
	}
	return c.retry()
}

// retry sends the call again with the answers of this round.
func (c *upCall) retry() error {
	m := &c.ex.Msg
	if c.edits != nil { // apply the edits, so that more can be added
		m.Edits = c.edits
		settled, err := wire.Scan(m.Append(nil))
		if err != nil {
			return proxy.Errf(proxy.Internal, "a translated request is no message: %w", err)
		}
		*m, c.edits = settled, nil
	}
	c.again = c.ask.Retry()
	_ = c.Replies.Close()
	c.Replies = nil // begin may fail and leave none
	return c.begin()
}

// drive begins to poll the task that a result names.
func (c *upCall) drive(m *wire.Message) error {
	task, err := tasks.Poll(c.ex, c.link, c.u.work, m)
	if err != nil {
		return err
	}
	c.doNotRecycle()
	_ = c.Replies.Close()
	c.Replies, c.task = task, task
	return nil
}

// progressRises reports whether a progress notification may pass. Progress may restart with each round, but must rise
// within what is one call to the client (2025-11-25 progress).
func (c *upCall) progressRises(m *wire.Message) bool {
	n, err := strconv.ParseFloat(string(wire.Get(m.Raw, m.Params, "progress").Of(m.Raw)), 64)
	if err != nil {
		return true
	}
	if c.ask != nil && n <= c.progress {
		return false
	}
	c.progress = max(c.progress, n)
	return true
}

// Close implements proxy.Replies. It withdraws open questions and cancels a running task.
func (c *upCall) Close() error {
	for _, msg := range c.ask.Withdraw() {
		_ = c.ex.Session.Push(msg) // without a stream the client learns of it when it answers
	}
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
	if errors.Is(err, io.EOF) || c.retried || c.begun || c.ex.Err() != nil || !proxy.IsFault(err, proxy.Lost) || !rules.ReadsOnly(&c.ex.Msg) {
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
