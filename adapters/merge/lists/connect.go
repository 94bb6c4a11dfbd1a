package lists

import (
	"bytes"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/era/work"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/session"
	"dragoman/proxy/wire"
)

// connection is a session of Dragoman's own at a server.
type connection struct {
	Asker
	bare  Asker // asks as a client without capabilities; nil: there is none
	close func()
	caps  []byte          // capabilities of the server
	gone  <-chan struct{} // closed when it is lost
	deaf  atomic.Bool     // the server announces changes, but refuses listens
}

// has reports whether the server has lists of a kind.
func (c *connection) has(kind catalogue.Kind) bool {
	return wire.Get(c.caps, wire.Whole(c.caps), rules.NoticeLists[min(kind, catalogue.Resources)]).Present()
}

// announces reports whether the server says when its list of a kind changes.
func (c *connection) announces(kind catalogue.Kind) bool {
	return !c.deaf.Load() && slices.Contains(Announced(c.caps), rules.NoticeLists[min(kind, catalogue.Resources)])
}

// Announced returns the lists, as rules.NoticeLists has them, of which a server with these capabilities says when they change.
func Announced(caps []byte) (lists []string) {
	for _, list := range rules.NoticeLists {
		if string(wire.Path(caps, wire.Whole(caps), list, "listChanged").Of(caps)) == "true" {
			lists = append(lists, list)
		}
	}
	return lists
}

// open opens a connection on behalf of a caller. With lasting the server tells the reader of changes; else it is for a few requests.
func (r *reader) open(ctx context.Context, caller proxy.Caller, lasting bool) (*connection, catalogue.Description, error) {
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	modern, err := r.server.Load().Modern(ctx)
	switch {
	case err != nil:
		return nil, catalogue.Description{}, err
	case lasting:
		r.met(modern)
	}
	if modern {
		return r.openModern(ctx, caller, []byte(declared), lasting)
	}
	return r.openLegacy(ctx, caller, lasting)
}

// declared are the capabilities of Dragoman's own sessions. Some servers list tools that ask something only to clients that can be asked, and
// name the resources of their apps only to clients that declare MCP Apps (SEP-1865, Capability Negotiation).
const declared = `{"roots":{},"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}},"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}`

// legacyConnection is a connection to a legacy member: a session as a client has it.
type legacyConnection struct {
	r       *reader
	session *proxy.Session
	lasting bool // the reader is told of changes
}

func (r *reader) openLegacy(ctx context.Context, caller proxy.Caller, lasting bool) (*connection, catalogue.Description, error) {
	c, gone := &legacyConnection{r: r, lasting: lasting}, make(chan struct{})
	c.session = proxy.NewSession(r.of.opt.NewID()+"/"+r.name, "merge", r.name, caller, time.Now())
	c.session.OnEnd(func() { close(gone) })
	m, err := c.Ask(ctx, "initialize", []wire.Change{{Key: "protocolVersion", Value: wire.AppendText(nil, rules.LegacyVersion)}, {Key: "capabilities", Value: []byte(declared)}, {Key: "clientInfo", Value: r.of.opt.Info}})
	if err == nil && m.Kind == wire.Failure {
		err = proxy.Errf(proxy.BadAnswer, "the server refuses the session: %d %s", m.ErrorCode, m.Text(m.ErrorText))
	}
	if err != nil {
		c.close()
		return nil, catalogue.Description{}, err
	}
	d := catalogue.Description{Revision: string(wire.Get(m.Raw, m.Result, "protocolVersion").Text(m.Raw)), Capabilities: bytes.Clone(wire.Get(m.Raw, m.Result, "capabilities").Of(m.Raw)),
		Info: bytes.Clone(wire.Get(m.Raw, m.Result, "serverInfo").Of(m.Raw)), Instructions: string(wire.Get(m.Raw, m.Result, "instructions").Text(m.Raw))}
	c.session.SetOutlet(c)
	if done, err := wire.Scan([]byte(rules.Initialized)); err == nil {
		session.Deliver(c.session, &proxy.Exchange{Msg: done, Caller: caller, Target: r.name, Own: true}, r.server.Load().Do)
	}
	return &connection{Asker: c, close: c.close, caps: d.Capabilities, gone: gone}, d, nil
}

func (c *legacyConnection) Ask(ctx context.Context, method string, params []wire.Change) (wire.Message, error) {
	return Ask(ctx, c.session, c.r.server.Load().Do, c.session.Caller, method, params)
}

func (c *legacyConnection) close() { c.session.End(proxy.Closed) }

// Push implements proxy.Outlet.
func (c *legacyConnection) Push(msg []byte) error {
	m, err := wire.Scan(msg)
	switch {
	case err != nil:
	case m.Kind == wire.Notification && c.lasting:
		c.r.heard(&m)
	case m.Kind == wire.Request:
		refuse(c.session, &m, c.r.server.Load().Do)
	}
	return nil
}

// End implements proxy.Outlet.
func (c *legacyConnection) End() {}

// modernConnection is a connection to a modern member: a listen, and requests beside it.
type modernConnection struct {
	r      *reader
	caller proxy.Caller
	able   []byte          // the capabilities that it declares
	ex     *proxy.Exchange // the listen; nil: the server announces nothing, or nobody listens
}

func (r *reader) openModern(ctx context.Context, caller proxy.Caller, able []byte, lasting bool) (*connection, catalogue.Description, error) {
	c := &modernConnection{r: r, caller: caller, able: able}
	m, err := c.Ask(ctx, "server/discover", nil)
	if err == nil && m.Kind == wire.Failure {
		err = proxy.Errf(proxy.BadAnswer, "the server refuses server/discover: %d %s", m.ErrorCode, m.Text(m.ErrorText))
	}
	if err != nil {
		return nil, catalogue.Description{}, err
	}
	d := catalogue.Description{Revision: rules.ModernVersion, Capabilities: bytes.Clone(wire.Get(m.Raw, m.Result, "capabilities").Of(m.Raw)), Info: bytes.Clone(m.Of(m.Info)),
		Instructions: string(wire.Get(m.Raw, m.Result, "instructions").Text(m.Raw))}
	gone := make(chan struct{})
	own := &connection{Asker: c, close: c.close, caps: d.Capabilities, gone: gone}
	if !lasting {
		return own, d, nil
	}
	own.bare = &modernConnection{r: r, caller: caller, able: []byte("{}")}
	return own, d, c.listen(own, gone)
}

func (c *modernConnection) Ask(ctx context.Context, method string, params []wire.Change) (wire.Message, error) {
	ex, err := c.exchange(method, params)
	if err != nil {
		return wire.Message{}, err
	}
	defer ex.Release()
	defer ex.Follow(ctx)()
	replies, err := c.r.server.Load().Do(ex)
	if err != nil {
		return wire.Message{}, err
	}
	until, _ := ctx.Deadline()
	return proxy.Response(replies, until)
}

// exchange returns a modern request of Dragoman's own.
func (c *modernConnection) exchange(method string, params []wire.Change) (*proxy.Exchange, error) {
	meta := wire.Object(rules.ModernMeta(c.r.of.opt.Info, c.able))
	m, err := wire.Scan(Request(method, append(slices.Clone(params), wire.Change{Key: "_meta", Value: meta})))
	if err != nil {
		return nil, err
	}
	client := proxy.Client{Era: proxy.Modern, Version: rules.ModernVersion, Info: c.r.of.opt.Info, Caps: c.able}
	return &proxy.Exchange{Msg: m, Client: client, Caller: c.caller, Own: true, Server: c.r.name, Target: c.r.name}, nil
}

// listen asks for the changes of the lists that the server announces, and closes gone when it is told no more. A server that refuses is asked
// for its lists from time to time.
func (c *modernConnection) listen(of *connection, gone chan<- struct{}) error {
	lists := Announced(of.caps)
	if lists == nil || c.r.server.Load().Sleeps { // a listen would keep it awake
		return nil
	}
	ex, err := c.exchange("subscriptions/listen", []wire.Change{{Key: "notifications", Value: wire.Object(rules.SubscriptionFilter(lists, nil))}})
	if err != nil {
		return err
	}
	replies, err := c.r.server.Load().Do(ex)
	if err != nil {
		return err
	}
	listens := func() {
		defer ex.Release()
		defer func() { _ = replies.Close() }()
		for heard := false; ; heard = true {
			m, err := replies.Next(time.Time{})
			switch {
			case err == nil && !m.IsResponse():
				c.r.heard(m)
				continue
			case !heard && (err == nil && m.Kind == wire.Failure || proxy.IsFault(err, proxy.MethodNotFound, proxy.BadAnswer, proxy.HTTPStatus)):
				of.deaf.Store(true)
				work.Signal(c.r.wake)
			default:
				close(gone)
			}
			return
		}
	}
	if !c.r.of.work.Spawn(listens) {
		_ = replies.Close()
		return work.ErrClosing()
	}
	c.ex = ex
	return nil
}

func (c *modernConnection) close() {
	if c.ex != nil {
		c.ex.Cancel(proxy.ErrCancelled)
	}
}
