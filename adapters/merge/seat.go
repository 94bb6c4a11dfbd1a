package merge

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/era/work"
	"dragoman/adapters/merge/handles"
	"dragoman/adapters/merge/lists"
	"dragoman/adapters/merge/view"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/session"
	"dragoman/proxy/wire"
)

// seat is a legacy client's session at a member.
type seat struct {
	c       *client
	member  *member
	session *proxy.Session
	ready   chan struct{} // closed when the handshake is over
	err     error         // of the handshake
	refused string        // the policy that has refused the handshake
	caps    []byte        // what the member has declared in it, a JSON object
	began   time.Time     // when the handshake was over; zero: it has failed

	mu        sync.Mutex
	questions map[string][]byte                // ids of open questions at the client, by the member's
	changed   [catalogue.Kinds]bool            // lists that the member says have changed in this session
	lists     [catalogue.Kinds]*catalogue.List // lists that differ in this session; nil: as in the catalogue
}

// seat returns the client's session at a member, which it opens with the client's own handshake. Callers wait for one that is being
// opened.
func (c *client) seat(ex *proxy.Exchange, m *member) (*seat, error) {
	c.mu.Lock()
	why := m.gone()
	if c.u.work.Closed() {
		why = work.ErrClosing()
	}
	if why != nil {
		c.mu.Unlock()
		return nil, why
	}
	s := c.seats[m.Name]
	if s != nil && s.member != m {
		s = nil // of a former member, and about to end
	}
	if s == nil && !c.ended {
		s = &seat{c: c, member: m, ready: make(chan struct{}), questions: map[string][]byte{}}
		s.session = proxy.NewSession(c.session.ID+"/"+m.Name, c.session.Transport, c.session.Server, c.session.Caller, time.Now())
		s.session.Repeats = c.session.Repeats
		c.seats[m.Name] = s
		c.mu.Unlock()
		s.session.OnEnd(s.end)
		s.open(ex)
		ex.Clock.Waited()
		return s, s.opened(ex)
	}
	c.mu.Unlock()
	if s == nil {
		return nil, proxy.ErrCancelled
	}
	select {
	case <-s.ready: // almost always: to wait for an exchange has a cost
		return s, s.opened(ex)
	default:
	}
	select {
	case <-s.ready:
		ex.Clock.Waited()
		return s, s.opened(ex)
	case <-ex.Done():
		return nil, ex.Err()
	}
}

// opened returns the error of the handshake, for a request that needs the session.
func (s *seat) opened(ex *proxy.Exchange) error {
	if s.err != nil {
		ex.RefusedBy = s.refused
	}
	return s.err
}

// end takes the session from the client, whose next request to the member opens another.
func (s *seat) end() {
	s.c.mu.Lock()
	if s.c.seats[s.member.Name] == s {
		delete(s.c.seats, s.member.Name)
	}
	s.c.mu.Unlock()
	s.mu.Lock()
	open := s.questions
	s.questions = nil
	s.mu.Unlock()
	for _, id := range open {
		if s.c.session.Withdraw(id) {
			_ = s.c.session.Push(rules.Withdrawal(id))
		}
	}
	s.lost()
}

// open performs the handshake, on behalf of a request. Once begun it does not end with the request, for which others may wait.
func (s *seat) open(ex *proxy.Exchange) {
	defer close(s.ready)
	of := s.c.session.Client()
	do := func(inner *proxy.Exchange) (proxy.Replies, error) {
		replies, err := s.member.Do(inner)
		s.refused = inner.RefusedBy
		return replies, err
	}
	m, err := s.ask(ex, do, "initialize", []wire.Change{{Key: "protocolVersion", Value: wire.AppendText(nil, of.Version)}, {Key: "capabilities", Value: of.Caps}, {Key: "clientInfo", Value: of.Info}})
	why := s.member.gone()
	switch {
	case err != nil && why != nil: // the session has ended before the handshake, or in it
		s.err = why
	case err != nil:
		s.err = err
	case m.Kind == wire.Failure:
		s.err = proxy.Errf(proxy.Lost, "the server %q refuses the session: %s", s.member.Name, m.Text(m.ErrorText))
	}
	if s.err != nil {
		s.session.End(proxy.Closed)
		return
	}
	s.began = time.Now()
	s.caps = bytes.Clone(wire.Get(m.Raw, m.Result, "capabilities").Of(m.Raw))
	if done, err := wire.Scan([]byte(rules.Initialized)); err == nil {
		s.deliver(done)
	}
	s.c.mu.Lock()
	level, ended := s.c.level, s.c.ended
	s.c.mu.Unlock()
	switch {
	case ended:
		s.session.End(proxy.Closed)
		return
	case level != "":
		s.setLevel(ex, level)
	}
	if s.c.session.HasOutlet() {
		s.session.SetOutlet(&outlet{s})
	}
}

// ask sends a request of Dragoman's own in the session, on behalf of a request, and waits for its response.
func (s *seat) ask(ex *proxy.Exchange, do proxy.Handler, method string, params []wire.Change) (wire.Message, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ex), openTime)
	defer cancel()
	return lists.Ask(ctx, s.session, do, ex.Caller, method, params)
}

// openTime bounds a handshake with a member (seed 004, BR-002).
const openTime = 30 * time.Second

// setLevel sets the log level in the session. A member without logs refuses it, which is no failure of the client's.
func (s *seat) setLevel(ex *proxy.Exchange, level string) {
	_, _ = s.ask(ex, s.member.Do, "logging/setLevel", []wire.Change{{Key: "level", Value: wire.AppendText(nil, level)}})
}

// subscribed notes the subscription that a request has made or ended; asked is the request as the client has sent it. Of more than maxSubscribed at a member some are not noted.
func (s *seat) subscribed(m, asked *wire.Message) {
	if !m.URI.Present() { // almost always
		return
	}
	on := m.Is("resources/subscribe")
	if !on && !m.Is("resources/unsubscribe") {
		return
	}
	uri := string(m.Text(m.URI))
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	of := s.c.subscribed[s.member.Name]
	switch {
	case !on:
		delete(of, uri)
	case of == nil:
		s.c.subscribed[s.member.Name] = map[string]string{uri: string(asked.Text(asked.URI))}
	case len(of) < maxSubscribed:
		of[uri] = string(asked.Text(asked.URI))
	}
}

// lost opens a session again that has ended, if the client is subscribed to resources there: it would wait for their updates for ever.
func (s *seat) lost() {
	c := s.c
	c.mu.Lock()
	some := len(c.subscribed[s.member.Name]) > 0 && s.member.gone() == nil // else when it comes back
	c.mu.Unlock()
	select {
	case <-s.ready:
	default:
		return // it was never open
	}
	if !some || s.began.IsZero() || c.ctx.Err() != nil {
		return
	}
	soon := time.Since(s.began) > pauseLate
	c.u.work.Spawn(func() { c.renew(s.member, soon) })
}

// renew subscribes the client to resources of a member again, until that succeeds.
func (c *client) renew(m *member, soon bool) {
	ctx, stop := context.WithCancel(c.ctx)
	defer stop()
	defer context.AfterFunc(m.ctx, stop)()
	for pause := pauseFirst; ; pause = min(2*pause, pauseLate) {
		if !soon {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
		}
		if soon = false; ctx.Err() != nil || c.resubscribe(ctx, m) {
			return
		}
	}
}

// resubscribe reports whether nothing more is to be done. The client is told that the resources may have changed meanwhile. A subscription
// that the member refuses has ended.
func (c *client) resubscribe(ctx context.Context, m *member) bool {
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	ex := &proxy.Exchange{Caller: c.session.Reader(), Own: true}
	defer ex.Release()
	defer ex.Follow(ctx)()
	s, err := c.seat(ex, m)
	if err != nil {
		return false
	}
	c.mu.Lock()
	subscribed := maps.Clone(c.subscribed[m.Name])
	c.mu.Unlock()
	uris := slices.Sorted(maps.Keys(subscribed))
	for i, uri := range uris {
		answer, err := lists.Ask(ctx, s.session, m.Do, ex.Caller, "resources/subscribe", []wire.Change{{Key: "uri", Value: wire.AppendText(nil, uri)}})
		if err != nil {
			return s.session.State() >= proxy.Closed // its end begins anew
		}
		if answer.Kind == wire.Failure {
			c.mu.Lock()
			delete(c.subscribed[m.Name], uri)
			c.mu.Unlock()
		}
		uris[i] = c.view(ex.Caller).KnownURI(m.Name, uri, subscribed[uri])
	}
	for _, n := range rules.AllChanged(nil, uris) {
		c.session.Keep(n.Key, n.Msg)
	}
	return true
}

// deliver passes a notification or an answer of the client on. It takes the message over.
func (s *seat) deliver(m wire.Message) {
	session.Deliver(s.session, &proxy.Exchange{Msg: m, Caller: s.c.session.Reader(), Target: s.member.Name}, s.member.Do)
}

// seatCall is a legacy client's request in its session at a member.
type seatCall struct {
	proxy.Replies
	s     *seat
	v     *view.View
	ex    *proxy.Exchange
	inner *proxy.Exchange
	of    proxy.Ticket // inner, which may be recycled when it is to be cancelled
	room               // of the request as the member gets it
	reply []byte       // memory of edited replies
}

var seatSlot = proxy.NewSlot()

// Clear implements proxy.Clearer.
func (k *seatCall) Clear() {
	k.Replies, k.s, k.v, k.ex, k.inner, k.of, k.reply = nil, nil, nil, nil, nil, proxy.Ticket{}, k.reply[:0]
	k.empty()
}

// Abort implements proxy.Aborter.
func (k *seatCall) Abort() { k.of.Cancel(proxy.ErrCancelled) }

// begin makes the exchange at the member: the client's request, with the name or URI that it is about as the member has it.
func (k *seatCall) begin(d *view.Destination) (err error) {
	ex, inner := k.ex, proxy.BorrowInner()
	inner.Caller, inner.Below, inner.Target, inner.Key, inner.Polls, inner.Allowance = ex.Caller, ex.Below, k.s.member.Name, ex.Key, ex.Polls, ex.Allowance
	inner.Msg = ex.Msg
	inner.Msg.Edits = k.edits[:0]
	handles.OwnTask(&inner.Msg, k.s.member.Name)
	if k.address(&inner.Msg, d) {
		ex.Tool, inner.PublicName = d.Original, d.Asked
	}
	if err = k.settle(&inner.Msg); err != nil {
		return err
	}
	inner.Inherit(ex)
	inner.Clock = ex.Clock
	k.inner, k.of = inner, inner.Ticket()
	ex.Attach(k)
	return nil
}

// end ends the exchange at the member.
func (k *seatCall) end() {
	k.ex.Detach(k)
	k.inner.Release()
	k.inner.Recycle()
}

// learn gives the client's request what was found out at the member, where policies that record it look.
func (k *seatCall) learn() {
	ex, inner := k.ex, k.inner
	ex.Target, ex.UpstreamEra, ex.RefusedBy, ex.Replayed, ex.Allowance = inner.Target, inner.UpstreamEra, inner.RefusedBy, inner.Replayed, inner.Allowance
	ex.Clock = inner.Clock
	ex.Polled.Store(inner.Polled.Load())
	ex.Lasting.Store(inner.Lasting.Load())
}

// why returns the reason of a failure.
func (k *seatCall) why(err error) error {
	if k.ex.Err() != nil { // the request is cancelled, or the client's session has ended
		return k.ex.Why(err)
	}
	return lost(k.inner.Why(err))
}

// Next implements proxy.Replies.
func (k *seatCall) Next(until time.Time) (*wire.Message, error) {
	for {
		k.inner.Polled.Store(k.ex.Polled.Load()) // whoever polls has seen to it
		m, err := k.Replies.Next(until)
		k.learn()
		if err != nil {
			k.ex.NotProcessed = false // the client's session goes on
			return m, k.why(err)
		}
		if m.Kind == wire.Result {
			k.s.subscribed(&k.inner.Msg, &k.ex.Msg)
			if !view.MayHaveURIs(m.Raw) && !handles.HasTasks(m, &k.ex.Msg) { // most results
				return m, nil
			}
		}
		if k.reply, err = m.Settle(k.reply); err != nil {
			return nil, proxy.Errf(proxy.Internal, "an edited reply is no message: %w", err)
		}
		if k.s.public(k.v, m, &k.ex.Msg) {
			return m, nil
		}
	}
}

// Close implements proxy.Replies.
func (k *seatCall) Close() error {
	err := k.Replies.Close()
	k.end()
	return err
}

// public makes a message of the member one for the client; false if it is not for the client. asked is the request that a result answers.
func (s *seat) public(v *view.View, m, asked *wire.Message) bool {
	handles.PublicTasks(m, asked, s.publicTask)
	handles.PublicElicitations(m, s.member.Name)
	switch m.Kind {
	case wire.Request:
		return s.question(m)
	case wire.Result:
		if asked == nil || ofProtocol(string(asked.Text(asked.Method))) {
			v.ResultURIs(m, m.Result, s.member.Name)
		}
	case wire.Notification:
		switch {
		case m.Is("notifications/message"):
			nameLogger(m, s.member.Name)
		case m.Is(rules.ResourceUpdated):
			if notice := s.member.now.Load().Notice; notice != nil && !notice(s.c.session.Reader(), m) {
				return false
			}
			uri := string(m.Text(m.URI))
			if public := v.PublicURI(s.member.Name, uri); public != uri {
				m.Replace(m.URI, wire.AppendText(nil, public))
			}
		case m.Is("notifications/cancelled"):
			return s.withdrawn(m)
		default:
			s.heard(m)
		}
	}
	return true
}

// question gives a member's question an id of its own in the client's session: members choose theirs alike. False: the client has too
// many open, and the member was told so.
func (s *seat) question(m *wire.Message) bool {
	own := string(m.Of(m.ID))
	if !s.c.hosted.Allows(m, s.member.Name) {
		s.deliver(proxy.ErrorMessage([]byte(own), errTask()))
		return false
	}
	method, begins := string(m.Text(m.Method)), m.Task.Present()
	s.mu.Lock()
	id, err := s.c.session.Expect(func(answer *wire.Message) {
		s.mu.Lock()
		delete(s.questions, own)
		s.mu.Unlock()
		back := *answer
		back.Edits = nil
		back.Replace(answer.ID, []byte(own))
		handles.OwnTask(&back, s.member.Name)
		s.c.hosted.Answered(&back, method, begins, s.member.Name)
		if back, err := back.Clone(); err == nil {
			s.deliver(back)
		}
	})
	if err == nil && s.questions != nil {
		s.questions[own] = id
	}
	s.mu.Unlock()
	if err != nil {
		s.deliver(proxy.ErrorMessage([]byte(own), proxy.Errf(proxy.Question, "the client has too many open questions")))
		return false
	}
	m.Replace(m.ID, id)
	if m.Token.Present() { // of progress that the client reports
		m.Replace(m.Token, wire.AppendText(nil, s.member.Name+"/"+string(m.Of(m.Token))))
	}
	return true
}

// withdrawn makes the withdrawal of a question one for the client; false if the client does not have it.
func (s *seat) withdrawn(m *wire.Message) bool {
	own := string(m.Of(m.RequestID))
	s.mu.Lock()
	id, open := s.questions[own]
	delete(s.questions, own)
	s.mu.Unlock()
	if !open || !s.c.session.Withdraw(id) {
		return false
	}
	m.Replace(m.RequestID, id)
	return true
}

// outlet takes what a member sends outside of calls to the client's stream.
type outlet struct{ s *seat }

// Push implements proxy.Outlet.
func (o *outlet) Push(msg []byte) error {
	if !o.s.c.session.HasOutlet() {
		return proxy.ErrNoOutlet
	}
	m, err := wire.Scan(msg)
	if err != nil {
		return nil //nolint:nilerr // it is none for a client
	}
	if !o.s.public(o.s.c.view(o.s.c.session.Reader()), &m, nil) {
		return nil
	}
	return o.s.c.session.Push(m.Append(nil))
}

// End implements proxy.Outlet.
func (o *outlet) End() {}
