package downstream

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"time"

	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/session"
	"dragoman/proxy/wire"
)

// A client whose session id is unknown to the server must open a new session (2025-11-25 transports, Session Management).
// A client behind a pipe never sees the id and cannot notice. The proxy opens the new session for it.

// Limits on the remembered subscriptions of a session, in number and bytes. Further ones are not restored.
const (
	maxSubscriptions     = 1024
	maxSubscriptionsSize = 1 << 20
)

// setup holds what a client has set up in its session, which a new session needs too.
type setup struct {
	initialize    []byte            // its initialize; nil if there is none to repeat
	version       string            // negotiated revision
	lists         []string          // methods of the list_changed notifications that the server announced
	initialized   bool              // it has sent notifications/initialized
	level         []byte            // its last logging/setLevel
	subscriptions map[string][]byte // its resources/subscribe requests, by uri
	size          int               // bytes of subscriptions
}

// setupFrom returns the state after a successful initialize. Both messages are borrowed.
func setupFrom(initialize, result *wire.Message) setup {
	s := setup{initialize: bytes.Clone(initialize.Raw), subscriptions: make(map[string][]byte)}
	m, err := wire.Scan(result.Append(nil))
	if err != nil {
		return setup{}
	}
	s.version = string(wire.Get(m.Raw, m.Result, "protocolVersion").Text(m.Raw))
	for _, list := range []string{"tools", "prompts", "resources"} {
		if string(wire.Path(m.Raw, m.Result, "capabilities", list, "listChanged").Of(m.Raw)) == "true" {
			s.lists = append(s.lists, "notifications/"+list+"/list_changed")
		}
	}
	return s
}

// renewal is the opening of a session that replaces a lost one; several requests may wait for it.
type renewal struct {
	done chan struct{}
	sess *proxy.Session // nil if it failed
}

// attempt is a legacy request in a session, with its replies. It remembers what the request has set up at the server, and
// decides whether it is repeated in another session.
type attempt struct {
	proxy.Replies
	c     *client
	ex    *proxy.Exchange
	sess  *proxy.Session
	final bool            // it is not repeated
	begun bool            // the client has received a part of the answer
	next  *proxy.Exchange // the repeated request; nil if there is none
	held  []byte          // the error that the client gets if no session can be opened; nil if it gets none
}

// watch wraps handle so that its replies pass through the attempt.
func (a *attempt) watch(handle proxy.Handler) proxy.Handler {
	return func(ex *proxy.Exchange) (proxy.Replies, error) {
		replies, err := handle(ex)
		if err != nil || replies == nil {
			a.judge(err)
			return nil, err
		}
		a.Replies = replies
		return a, nil
	}
}

// Next implements proxy.Replies.
func (a *attempt) Next(until time.Time) (*wire.Message, error) {
	m, err := a.Replies.Next(until)
	switch {
	case err != nil && err != proxy.ErrNotYet:
		a.judge(err)
	case err == nil && m.Kind == wire.Result:
		a.c.remember(a.sess, &a.ex.Msg)
	}
	return m, err
}

// judge repeats a failed request if its session is lost and the request has not been processed or has no effects.
func (a *attempt) judge(err error) {
	var e *proxy.Error
	if a.final || a.begun || a.next != nil || !errors.As(err, &e) || a.sess.State() != proxy.Closed {
		return
	}
	switch {
	case e.Name == proxy.SessionUnknown.Name: // lost before the request was entered
	case e.Name == proxy.SessionLost.Name && (a.ex.NotProcessed || rules.ReadsOnly(&a.ex.Msg)):
	default:
		return
	}
	if m, err := wire.Scan(a.ex.Msg.Raw); err == nil {
		a.next = &proxy.Exchange{Msg: m}
		a.c.addWaiting(a.next)
	}
}

// hold keeps the error of a request that is repeated from the client. It reports whether it has done so.
func (a *attempt) hold(m *wire.Message) bool {
	if a.next == nil || m.Kind != wire.Failure {
		a.begun = a.begun || !m.IsResponse()
		return false
	}
	a.held = m.Append(nil)
	return true
}

// finish repeats the request if judge has decided so.
func (a *attempt) finish() {
	switch {
	case a.next == nil:
	case a.held == nil: // the client has cancelled it
		a.c.removeWaiting(a.next)
	default:
		a.c.again(a.next, a.sess, func() {
			if m, err := wire.Scan(a.held); err == nil {
				a.c.reply(m)
			}
		})
	}
}

// addWaiting registers a request that waits for another session, so that a cancellation finds it.
func (c *client) addWaiting(ex *proxy.Exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting[string(ex.Msg.Of(ex.Msg.ID))] = ex
	if c.over {
		ex.Cancel(errGone)
	}
}

// removeWaiting removes it again.
func (c *client) removeWaiting(ex *proxy.Exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id := string(ex.Msg.Of(ex.Msg.ID)); c.waiting[id] == ex {
		delete(c.waiting, id)
	}
}

// postpone makes a request wait for another session; false if there will be none. Later messages of the client are still
// read meanwhile.
func (c *client) postpone(m *wire.Message, lost *proxy.Session) bool {
	c.mu.Lock()
	able := c.setup.initialize != nil && lost != nil && lost.State() == proxy.Closed && !c.over
	c.mu.Unlock()
	if !able {
		return false
	}
	ex := &proxy.Exchange{Msg: *m}
	c.addWaiting(ex)
	select {
	case c.slots <- struct{}{}:
	case <-c.ctx.Done():
		c.removeWaiting(ex)
		return true
	}
	c.group.Go(func() {
		defer func() { <-c.slots }()
		c.again(ex, lost, func() { c.refuseSessionless(&ex.Msg, lost) })
	})
	return true
}

// again repeats a waiting request in the session that replaces the lost one. If there is none, fail answers it.
func (c *client) again(ex *proxy.Exchange, lost *proxy.Session, fail func()) {
	next := c.renew(ex, lost)
	if next == nil {
		c.removeWaiting(ex)
		if session.Answerable(ex) {
			fail()
		}
		return
	}
	a := &attempt{c: c, ex: ex, sess: next, final: true}
	handle := a.watch(session.Enter(next, ex, c.d.Handle))
	c.removeWaiting(ex)
	session.Pump(ex, handle, c.d.Cap, c.write)
}

// renew returns the session that replaces the lost one; nil if none could be opened. Concurrent callers wait for the same
// opening.
func (c *client) renew(ex *proxy.Exchange, lost *proxy.Session) *proxy.Session {
	c.mu.Lock()
	if c.sess != lost && c.sess != nil && c.sess.State() == proxy.Initialized {
		defer c.mu.Unlock()
		return c.sess
	}
	if c.over || c.sess == nil || c.setup.initialize == nil {
		c.mu.Unlock()
		return nil
	}
	r, old := c.renewing, c.sess
	begin := r == nil
	if begin {
		r = &renewal{done: make(chan struct{})}
		c.renewing = r
	}
	c.mu.Unlock()
	if begin {
		c.group.Go(func() { c.reopen(r, old) })
	}
	select {
	case <-r.done:
		return r.sess
	case <-ex.Done():
		return nil
	}
}

// reopen opens a session that replaces the lost one, and sends the client list_changed notifications, because a restarted
// server may have other lists.
func (c *client) reopen(r *renewal, lost *proxy.Session) {
	defer close(r.done)
	c.d.Store.Remove(lost)
	next, err := c.repeatSetup()
	c.mu.Lock()
	c.renewing, c.next = nil, nil
	if err == nil && (c.over || c.sess != lost) {
		err = errGone
	}
	if err == nil {
		c.sess, r.sess = next, next
	}
	lists := c.setup.lists
	c.mu.Unlock()
	if err != nil {
		if next != nil {
			c.d.Store.Remove(next)
		}
		c.note("warn", "the upstream's session was lost, and cannot be opened anew for the client", err)
		return
	}
	c.note("info", "the upstream's session was lost, and is opened anew for the client", nil)
	for _, list := range lists {
		_ = c.Push([]byte(`{"jsonrpc":"2.0","method":"` + list + `"}`)) // read notices a client that is gone
	}
}

// repeatSetup opens a session and repeats the client's setup there, without showing it the answers. The whole may take as
// long as one request. A returned session must be removed even if there is an error.
func (c *client) repeatSetup() (*proxy.Session, error) {
	c.mu.Lock()
	s := c.setup
	s.subscriptions = maps.Clone(s.subscriptions)
	c.mu.Unlock()
	sess, fault := c.d.Store.Create("stdio", "", proxy.Caller{})
	if fault != nil {
		return nil, fault
	}
	sess.SetOutlet(c)
	until := time.Now().Add(c.d.Cap)
	m, err := c.repeat(sess, s.initialize, until)
	switch {
	case err != nil:
		return sess, err
	case m.Kind != wire.Result:
		return sess, fmt.Errorf("stdio: the server refuses the handshake: %s", m.Text(m.ErrorText))
	}
	if v := wire.Get(m.Raw, m.Result, "protocolVersion").Text(m.Raw); string(v) != s.version {
		return sess, fmt.Errorf("stdio: the server settles on revision %q now, and the client knows it by %q", v, s.version)
	}
	c.mu.Lock()
	c.next = sess // from now on the client's answers and notifications go to this session
	initialized := c.setup.initialized
	c.mu.Unlock()
	if initialized {
		m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
		if err != nil {
			return sess, err
		}
		session.Deliver(sess, &proxy.Exchange{Msg: m}, c.d.Handle)
	}
	if err := c.restore(sess, &s, until); err != nil {
		return sess, err
	}
	if sess.State() != proxy.Initialized {
		return sess, errors.New("stdio: the server has forgotten this session, too")
	}
	return sess, nil
}

// restore repeats logging/setLevel and the subscriptions. The server may refuse a subscription now; that is only logged.
func (c *client) restore(sess *proxy.Session, s *setup, until time.Time) error {
	if s.level != nil {
		if _, err := c.repeat(sess, s.level, until); err != nil {
			return err
		}
	}
	for _, raw := range s.subscriptions {
		m, err := c.repeat(sess, raw, until)
		if err != nil {
			return err
		}
		if m.Kind == wire.Failure {
			c.note("debug", "the upstream's new session refuses a subscription of the client's", errors.New(string(m.Text(m.ErrorText))))
		}
	}
	return nil
}

// repeat sends a request of the client's again and returns the response.
func (c *client) repeat(sess *proxy.Session, raw []byte, until time.Time) (wire.Message, error) {
	m, err := wire.Scan(raw)
	if err != nil {
		return wire.Message{}, err
	}
	ex := &proxy.Exchange{Msg: m, Own: true}
	defer ex.Follow(c.ctx)()
	ex.GiveUp(time.Until(until))
	defer ex.Release()
	replies, err := session.Run(sess, ex, c.d.Handle)
	if err != nil {
		return wire.Message{}, err
	}
	return proxy.Response(replies, until)
}

// remember records what a successful request has set up at the server.
func (c *client) remember(sess *proxy.Session, m *wire.Message) {
	level, on, off := m.Is("logging/setLevel"), m.Is("resources/subscribe"), m.Is("resources/unsubscribe")
	if !level && !on && !off {
		return
	}
	uri := string(m.Text(m.URI))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sess != sess || c.setup.initialize == nil {
		return
	}
	if level {
		c.setup.level = bytes.Clone(m.Raw)
		return
	}
	c.setup.size -= len(c.setup.subscriptions[uri])
	delete(c.setup.subscriptions, uri)
	if on && len(c.setup.subscriptions) < maxSubscriptions && c.setup.size+len(m.Raw) <= maxSubscriptionsSize {
		c.setup.subscriptions[uri] = bytes.Clone(m.Raw)
		c.setup.size += len(m.Raw)
	}
}

// sessionOf records the end of the client's handshake, and returns the session for messages that are not requests.
func (c *client) sessionOf(m *wire.Message) *proxy.Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.Is("notifications/initialized") {
		c.setup.initialized = true
	}
	if c.next != nil && (c.sess == nil || c.sess.State() >= proxy.Closed) {
		return c.next
	}
	return c.sess
}

func (c *client) note(level, text string, err error) {
	if c.d.Note != nil {
		c.d.Note(level, text, err)
	}
}
