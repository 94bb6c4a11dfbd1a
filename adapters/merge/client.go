package merge

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/era/translate"
	"dragoman/adapters/merge/handles"
	"dragoman/adapters/merge/view"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/session"
	"dragoman/proxy/wire"
)

// client is a legacy client. It has a session of its own at each member that it uses.
type client struct {
	u       *Upstream
	session *proxy.Session
	hosted  handles.Hosted // tasks that it runs for members

	mu    sync.Mutex
	seats map[string]*seat // by member
	ended bool
	level string          // of logging/setLevel; empty: none was set
	own   *view.View      // of a client that sees lists of its own at a member; nil: there is none
	base  *view.View      // of which own was made
	told  shown           // the lists that the client knows of, or was told of
	apps  map[string]bool // members of which it has read an app
	// subscribed holds the URIs with which it has subscribed to resources, by member and the member's own.
	subscribed map[string]map[string]string

	ctx  context.Context // ends with the client
	stop context.CancelFunc
}

// clients holds the legacy clients by their sessions.
type clients struct {
	mu sync.Mutex
	of map[*proxy.Session]*client
}

// all returns the clients.
func (x *clients) all() []*client {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Collect(maps.Values(x.of))
}

// client returns the client of a session, which it makes.
func (u *Upstream) client(s *proxy.Session) *client {
	u.clients.mu.Lock()
	c := u.clients.of[s]
	if c != nil {
		u.clients.mu.Unlock()
		return c
	}
	c = &client{u: u, session: s, seats: map[string]*seat{}, apps: map[string]bool{}, subscribed: map[string]map[string]string{}, told: u.shown(s.Caller)}
	c.ctx, c.stop = context.WithCancel(u.work.Context())
	if u.clients.of == nil {
		u.clients.of = map[*proxy.Session]*client{}
	}
	u.clients.of[s] = c
	u.clients.mu.Unlock()
	s.OnOutlet(c.connect)
	s.OnEnd(c.end)
	return c
}

// end ends the client's sessions at the members, because its own session has ended.
func (c *client) end() { c.endFor(proxy.ErrCancelled) }

// endFor ends the client's sessions at the members, with an error for the calls there.
func (c *client) endFor(why error) {
	c.u.clients.mu.Lock()
	delete(c.u.clients.of, c.session)
	c.u.clients.mu.Unlock()
	c.mu.Lock()
	c.ended = true
	seats := c.open()
	c.mu.Unlock()
	c.stop()
	for _, s := range seats {
		s.session.EndFor(proxy.Closed, why)
	}
}

// open returns the seats, by the names of their members. The caller holds mu.
func (c *client) open() (all []*seat) {
	for _, name := range slices.Sorted(maps.Keys(c.seats)) {
		all = append(all, c.seats[name])
	}
	return all
}

// all returns the seats.
func (c *client) all() []*seat {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open()
}

// connect gives the members' sessions the stream that the client has opened.
func (c *client) connect() {
	for _, s := range c.all() {
		s.session.SetOutlet(&outlet{s})
	}
}

// legacy serves a legacy client's message.
func (u *Upstream) legacy(ex *proxy.Exchange) (proxy.Replies, error) {
	m := &ex.Msg
	if err := translate.CheckArguments(m); err != nil {
		return nil, err
	}
	if m.Kind != wire.Request {
		u.client(ex.Session).notify(ex)
		return nil, nil
	}
	if m.Is("initialize") {
		return u.initialize(ex)
	}
	if ex.Session.State() == proxy.Created {
		answer, err := rules.Early(m)
		if err != nil {
			return nil, err
		}
		return proxy.Reply(answer), nil
	}
	c, method := u.client(ex.Session), proxy.Method(m.Text(m.Method))
	switch method {
	case "tools/call", "prompts/get", "resources/read", "completion/complete", "resources/subscribe", "resources/unsubscribe":
		return c.forward(ex)
	case "ping":
		return proxy.Reply(proxy.ResultMessage(m.Of(m.ID), []byte("{}"))), nil
	case "logging/setLevel":
		return c.setLevel(ex)
	case "tasks/get", "tasks/result", "tasks/cancel":
		return c.legacyTask(ex)
	case "tasks/list":
		return c.listTasks(ex)
	}
	if kind, ok := catalogue.KindOf(method); ok {
		if err := u.awaitFirst(ex, kind); err != nil {
			return nil, err
		}
		c.refresh(ex, kind)
		return u.answerList(ex, kind, c.sees)
	}
	return u.beyond(ex, c.sees, c.send)
}

// initialize answers initialize, once it is known what the members offer.
func (u *Upstream) initialize(ex *proxy.Exchange) (proxy.Replies, error) {
	if err := u.awaitFirst(ex, catalogue.Tools); err != nil {
		return nil, err
	}
	who := legacyClient(ex.Caller)
	v := u.viewOf(&who)
	u.client(ex.Session)
	return proxy.Reply(proxy.ResultMessage(ex.Msg.Of(ex.Msg.ID), wire.Object([]wire.Change{
		{Key: "protocolVersion", Value: wire.AppendText(nil, rules.Settle(ex.Client.Version))},
		{Key: "capabilities", Value: v.Capabilities(rules.Settle(ex.Client.Version))},
		{Key: "serverInfo", Value: u.opt.Info},
		{Key: "instructions", Value: u.tools.Instructions(ex, v)},
	}))), nil
}

// setLevel answers logging/setLevel. The level counts at all members, those that are used later included.
func (c *client) setLevel(ex *proxy.Exchange) (proxy.Replies, error) {
	m := &ex.Msg
	level := string(m.Text(m.Level))
	if !rules.ValidLevel(level) {
		return nil, proxy.Errf(proxy.InvalidParams, "params.level must be one of %v", rules.LogLevels)
	}
	c.mu.Lock()
	c.level = level
	seats := c.open()
	c.mu.Unlock()
	var group sync.WaitGroup
	for _, s := range seats {
		group.Go(func() { s.setLevel(ex, level) })
	}
	group.Wait()
	return proxy.Reply(proxy.ResultMessage(m.Of(m.ID), []byte("{}"))), nil
}

// notify passes on a notification of the client: of progress to the member whose question it is about, of changed roots to all, and one that
// is none of the protocol to the member that alone may know it.
func (c *client) notify(ex *proxy.Exchange) {
	m := &ex.Msg
	switch {
	case m.Is("notifications/roots/list_changed"):
		for _, s := range c.all() {
			s.deliver(*m)
		}
	case m.Is("notifications/progress"):
		server, token, ok := strings.Cut(string(m.Text(m.ProgressToken)), "/")
		if ok {
			c.pass(m, server, func(own *wire.Message) { own.Replace(m.ProgressToken, []byte(token)) })
		}
	case m.Is("notifications/tasks/status"):
		c.pass(m, c.hosted.Server(string(m.Text(m.TaskID))), func(*wire.Message) {})
	case m.Kind == wire.Notification && !m.Is("notifications/initialized"):
		if server, err := c.view(ex.Caller).Beyond(m, ex.Client.Version); err == nil {
			c.pass(m, server, view.DropServer)
		}
	}
}

// pass passes a notification of the client, edited, on to a member at which the client has a session.
func (c *client) pass(m *wire.Message, server string, edit func(own *wire.Message)) {
	seats := c.all()
	i := slices.IndexFunc(seats, func(s *seat) bool { return s.member.Name == server })
	if i < 0 {
		return
	}
	own := *m
	own.Edits = nil
	edit(&own)
	handles.OwnTask(&own, server)
	if own, err := own.Clone(); err == nil {
		seats[i].deliver(own)
	}
}

// forward sends a request to the member that it is about, in the client's session there. If the member no longer knows that, a new one
// is opened, since the request was not processed.
func (c *client) forward(ex *proxy.Exchange) (proxy.Replies, error) {
	if replies, own, err := c.u.own(ex, c.sees); own {
		return replies, err
	}
	v, d, err := c.u.resolve(ex, c.sees)
	if err != nil {
		var known bool
		v = c.view(ex.Caller)
		if d, known = c.ofApp(v, &ex.Msg); !known {
			return nil, err
		}
	}
	if refused := c.u.tools.Refuse(ex, v, &d, legacyVersion(ex)); refused != nil {
		return refused, nil
	}
	if strings.HasPrefix(d.Original, "ui://") && ex.Msg.Is("resources/read") {
		c.mu.Lock()
		c.apps[d.Server] = true
		c.mu.Unlock()
	}
	return c.send(ex, v, d)
}

// ofApp finds the member of a call whose tool has the name at several. The client was told public names, so that the call is of an app,
// which knows the names of its server (SEP-1865): the member is the one of which the client has read an app, if that is only one.
func (c *client) ofApp(v *view.View, m *wire.Message) (d view.Destination, known bool) {
	if !m.Is("tools/call") {
		return d, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for server := range c.apps {
		at, has := v.At(m, server)
		switch {
		case has && known:
			return d, false
		case has:
			d, known = at, true
		}
	}
	return d, known
}

// send sends a request to a member.
func (c *client) send(ex *proxy.Exchange, v *view.View, d view.Destination) (proxy.Replies, error) {
	member, err := c.u.member(d.Server)
	if err != nil {
		return nil, err
	}
	ex.Target = member.Name
	for again := false; ; again = true {
		s, err := c.seat(ex, member)
		if err != nil {
			return nil, lost(err)
		}
		if err := s.runsTask(v, &ex.Msg); err != nil {
			return nil, err
		}
		k := proxy.Lend[seatCall](ex, seatSlot)
		k.s, k.v, k.ex = s, v, ex
		if err := k.begin(&d); err != nil {
			return nil, err
		}
		replies, err := session.Run(s.session, k.inner, member.Do)
		if err == nil {
			k.Replies = replies
			return k, nil
		}
		k.learn()
		notProcessed, why := k.inner.NotProcessed, k.why(err)
		k.end()
		if !notProcessed || again || ex.Err() != nil {
			return nil, why
		}
		ex.Clock.Waited()
	}
}

// inSession makes a server that is unknown a wrong parameter: its own status would end the client's session, see lost.
func inSession(err error) error {
	if err == nil {
		return nil // without the allocation below
	}
	var e *proxy.Error
	if !errors.As(err, &e) || e.Name != proxy.ServerUnknown.Name {
		return err
	}
	return proxy.NewError(proxy.InvalidParams, e.Message)
}

// lost says that the connection is lost for each error of a member that would end the client's own session, which goes on: HTTP clients drop
// it at the status 404 (2025-11-25 transports, Session Management).
func lost(err error) error {
	var e *proxy.Error
	switch {
	case !errors.As(err, &e):
		return err
	case e.Name == proxy.SessionLost.Name || e.Name == proxy.SessionUnknown.Name:
		return proxy.Errf(proxy.Lost, "the session with the server is lost; the next request opens another: %s", e.Message)
	case e.Status == proxy.SessionUnknown.Status:
		return proxy.Errf(proxy.Lost, "the server is gone: %s", e.Message)
	}
	return err
}
