package relay

import (
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"dragoman/adapters/era/translate"
	"dragoman/adapters/era/work"
	"dragoman/adapters/rules"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// maxOpen bounds the server's open questions.
const maxOpen = 64

// relay connects one legacy client to a legacy server over a link of its own, on which messages pass unchanged.
type relay struct {
	x       *Relays
	session *proxy.Session
	link    transport.Ref

	mu         sync.Mutex
	open       map[string]*relayCall // questions sent to the client on the stream of a call, by id
	withdrawn  []string              // ids of the questions withdrawn last
	suspension suspension

	retiring atomic.Bool // of Relays.Retire; set under mu
	older    atomic.Bool // the client speaks an older revision than the server
}

// open dials the server for the session of an initialize. The relay lives as long as the session.
func (x *Relays) open(ex *proxy.Exchange, dial transport.Dial) (*relay, error) {
	if x.retire.Load() {
		return nil, ErrRetiring
	}
	r := &relay{x: x, session: ex.Session, open: make(map[string]*relayCall)}
	link, err := x.quota.Dial(transport.Owned(ex), dial, ex.Caller.Principal, r.sink())
	if err != nil {
		return nil, r.fault(err)
	}
	r.link.Set(link)
	x.mu.Lock()
	if x.work.Closed() {
		x.mu.Unlock()
		_ = link.Close()
		return nil, work.ErrClosing()
	}
	x.of[ex.Session.ID] = r
	x.mu.Unlock()
	ex.Session.OnEnd(r.end)
	if x.retire.Load() { // meanwhile
		r.retireOne()
	}
	return r, nil
}

// end closes the link, once.
func (r *relay) end() {
	x := r.x
	x.mu.Lock()
	open := x.of[r.session.ID] == r
	if open {
		delete(x.of, r.session.ID)
	}
	if link := r.link.Get(); open && link != nil {
		x.work.Go(func() { _ = link.Close() }) // under the lock: Close waits either for this or closes the link itself
	}
	x.mu.Unlock()
	if open {
		x.opt.Ended()
	}
}

func (r *relay) do(ex *proxy.Exchange) (proxy.Replies, error) {
	if ex.Msg.Kind != wire.Request { // a notification, or the answer to a server's question
		if ex.Msg.IsResponse() && !r.answer(string(ex.Msg.Of(ex.Msg.ID))) {
			return nil, nil
		}
		return nil, r.send(ex)
	}
	if rules.ModernOnly(ex.Msg.Text(ex.Msg.Method)) {
		return nil, proxy.Errf(proxy.MethodNotFound, "method %s does not exist in the revision of this session", ex.Msg.Text(ex.Msg.Method))
	}
	if err := r.enter(ex); err != nil {
		return nil, err
	}
	if changes := translate.AddTrace(ex, translate.FillArguments(&ex.Msg)); changes != nil {
		ex.Msg.EditParams(changes)
	}
	replies, err := r.link.Get().Call(ex)
	if err != nil {
		r.leave()
		markNotProcessed(ex, err)
		return nil, r.fault(err)
	}
	c := proxy.Lend[relayCall](ex, proxy.SlotEra)
	c.Replies, c.r, c.ex = replies, r, ex
	return c, nil
}

// send sends a notification or an answer. A session whose process is stopped has nothing open that it could concern, and
// the next process asks for changed lists itself.
func (r *relay) send(ex *proxy.Exchange) error {
	link := r.link.Get()
	if link == nil {
		return nil
	}
	if ex.Msg.Is("notifications/initialized") {
		r.mu.Lock()
		r.suspension.initialized = true
		r.mu.Unlock()
	}
	return link.Send(ex, ex.Msg.AppendLine(nil))
}

// Message implements transport.Sink: a message that belongs to no call goes to the client's stream. Without a stream, a
// request or log message goes to a call in flight if the link can tell of one; otherwise it waits for a stream.
func (r *relay) Message(m *wire.Message) bool {
	if m.Kind == wire.Request && m.Is("ping") {
		r.x.work.Refuse(r.link.Get(), m)
		return true
	}
	if r.retiring.Load() {
		r.unclear(m)
		return true
	}
	key := rules.NoticeKey(m)
	if !r.x.opt.Notice(r.session.Reader(), m) {
		return true
	}
	raw := m.Append(nil)
	if r.session.Push(raw) == nil {
		return true
	}
	calls, shared := transport.As[transport.Channel](r.link.Get())
	if shared && calls.InFlight() > 0 && (m.Kind == wire.Request || m.Is("notifications/message") || m.Is("notifications/cancelled")) {
		return false
	}
	r.session.Keep(key, raw)
	return true
}

// Lost implements transport.Sink: it ends the client's session. The client's next request reports the loss, and the
// client opens a new session.
func (r *relay) Lost(err error) {
	r.x.keeper.Lost()
	if r.retiring.Load() { // the session goes on without
		r.end()
		return
	}
	r.x.work.Note("warn", "the upstream's session is lost, and the client's with it", err)
	r.end()
	var known *proxy.Error
	if !errors.As(err, &known) {
		known = proxy.Errf(proxy.Lost, "the connection to the upstream server is lost: %w", err)
	}
	r.session.EndFor(proxy.Closed, known)
}

func (r *relay) fault(err error) error {
	var status *transport.StatusError
	if errors.As(err, &status) {
		return transport.StatusFault(status)
	}
	var lost *proxy.Error
	if !errors.As(err, &lost) || lost.Name != proxy.SessionLost.Name {
		return err
	}
	if with := *lost; !strings.Contains(with.Message, "send initialize") {
		with.Message += "; send initialize to open a new one"
		lost = &with
	}
	r.session.EndFor(proxy.Closed, lost) // before the client can send initialize
	return lost
}

// markNotProcessed sets ex.NotProcessed if the call itself was refused because the session is lost. A call that was
// cancelled because another one was refused may have run.
func markNotProcessed(ex *proxy.Exchange, err error) {
	var lost, cause *proxy.Error
	if errors.As(err, &lost) && lost.Name == proxy.SessionLost.Name && (!errors.As(ex.Err(), &cause) || cause != lost) {
		ex.NotProcessed = true
	}
}

// relayCall is one call of a legacy client at a legacy server.
type relayCall struct {
	proxy.Replies
	r   *relay
	ex  *proxy.Exchange
	out [][]byte // for the client, before err
	err error
}

// Clear implements proxy.Clearer.
func (c *relayCall) Clear() { *c = relayCall{} }

// trackQuestion records a question sent on the stream of the call. When that stream ends the server can no longer
// withdraw the question (on a shared channel it can), so it is withdrawn here if the call is cancelled.
func (c *relayCall) trackQuestion(m *wire.Message) {
	if _, shared := transport.As[transport.Channel](c.r.link.Get()); shared {
		return
	}
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	if len(c.r.open) < maxOpen {
		c.r.open[string(m.Of(m.ID))] = c
	}
}

// answer handles the answer to a question; false if the question has been withdrawn. Some clients answer withdrawn
// questions with an error, which must not reach the server before the cancellation of the call: the server would take it
// for the user's.
func (r *relay) answer(id string) bool {
	r.closeQuestion(id)
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.Index(r.withdrawn, id)
	if i >= 0 {
		r.withdrawn = slices.Delete(r.withdrawn, i, i+1)
	}
	return i < 0
}

// closeQuestion removes a question that no longer needs an answer.
func (r *relay) closeQuestion(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, id)
}

// forgetQuestions removes the questions of a call that has ended; server and client settle them between themselves.
func (c *relayCall) forgetQuestions() {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	if len(c.r.open) == 0 {
		return
	}
	maps.DeleteFunc(c.r.open, func(_ string, of *relayCall) bool { return of == c })
}

// withdraw withdraws the open questions of the call and returns the notifications for the client.
func (c *relayCall) withdraw() (out [][]byte) {
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	if len(c.r.open) == 0 {
		return nil
	}
	for id, of := range c.r.open {
		if of == c {
			delete(c.r.open, id)
			if c.r.withdrawn = append(c.r.withdrawn, id); len(c.r.withdrawn) > maxOpen {
				c.r.withdrawn = c.r.withdrawn[1:]
			}
			out = append(out, rules.Withdrawal([]byte(id)))
		}
	}
	return out
}

// Next implements proxy.Replies.
func (c *relayCall) Next(until time.Time) (m *wire.Message, err error) {
	for {
		switch {
		case len(c.out) > 0:
			raw := c.out[0]
			c.out = c.out[1:]
			return proxy.Scanned(raw)
		case c.err != nil:
			return nil, c.err
		}
		m, err = c.Replies.Next(until)
		if errors.Is(err, proxy.ErrNotYet) { // even if the call has just been cancelled: its end is still to come
			return m, err
		}
		if err != nil {
			markNotProcessed(c.ex, err)
			if c.ex.Err() == nil {
				return m, c.fail(err)
			}
			c.out, c.err = c.withdraw(), c.fail(err)
			continue
		}
		if !m.IsResponse() && c.r.retiring.Load() && c.r.unclear(m) {
			continue
		}
		switch m.Kind {
		case wire.Notification:
			if m.Is("notifications/cancelled") {
				c.r.closeQuestion(string(m.Of(m.RequestID)))
			}
		case wire.Request:
			if m.Is("ping") { // answered here
				c.r.x.work.Refuse(c.r.link.Get(), m)
				continue
			}
			c.trackQuestion(m)
		case wire.Result:
			c.r.remember(&c.ex.Msg, m)
			switch {
			case c.ex.Msg.Is("initialize"):
				if err := c.tell(m); err != nil {
					return nil, err
				}
			case c.r.older.Load():
				translate.LegacyResult(m, proxy.Method(c.ex.Msg.Text(c.ex.Msg.Method)), c.ex.Client.Version)
				return m, nil
			}
			if m.InputRequests.Present() { // SDKs that support both eras would act on it
				m.EditObject(m.Result, []wire.Change{{Key: "inputRequests"}, {Key: "requestState"}, {Key: "resultType"}})
			}
		case wire.Failure:
			switch {
			case c.ex.Msg.Is("initialize"):
				c.r.checkEra(m)
			case m.ErrorCode == proxy.CodeURLElicitation && !rules.URLMode.In(c.ex.Client.Version):
				*m = proxy.ErrorMessage(c.ex.Msg.Of(c.ex.Msg.ID), visitAsText(m))
			}
		}
		return m, nil
	}
}

// tell replaces the revision of an initialize result by the one that the client is told.
func (c *relayCall) tell(m *wire.Message) error {
	at := wire.Get(m.Raw, m.Result, "protocolVersion")
	settled := string(at.Text(m.Raw))
	version, older := rules.Told(c.ex.Client.Version, settled, c.r.session.Transport)
	if version == settled {
		return nil
	}
	c.r.older.Store(older)
	m.Replace(at, wire.AppendText(nil, version))
	if _, err := m.Settle(nil); err != nil { // the session reads the revision from the message
		return proxy.Errf(proxy.Internal, "a translated initialize result is no message: %w", err)
	}
	c.r.x.work.Note("debug", "a client of revision "+version+" uses the upstream, which speaks "+settled, nil)
	return nil
}

// visitAsText puts the URLs that the user must open into the message, for clients whose revision has no error code for
// them.
func visitAsText(m *wire.Message) *proxy.Error {
	text := string(m.Text(m.ErrorText))
	for _, s := range wire.Items(m.Raw, wire.Get(m.Raw, m.ErrorData, "elicitations")) {
		if url := wire.Get(m.Raw, s, "url").Text(m.Raw); url != nil {
			text += "; open " + string(url)
		}
	}
	return proxy.NewError(proxy.Question, wire.ShownText(text))
}

func (c *relayCall) fail(err error) error {
	if errors.Is(err, io.EOF) {
		return err
	}
	if proxy.IsFault(err, proxy.SessionLost) {
		c.r.Lost(err)
	}
	var status *transport.StatusError
	if c.ex.Msg.Is("initialize") && errors.As(err, &status) {
		c.r.x.keeper.Doubt(status)
	}
	return c.r.fault(err)
}

// Close implements proxy.Replies. A failed handshake ends the relay.
func (c *relayCall) Close() error {
	defer c.r.leave()
	if c.ex.Msg.Is("initialize") && c.r.session.State() != proxy.Initialized {
		defer c.r.end()
	}
	if c.ex.Err() == nil {
		c.forgetQuestions()
		return c.Replies.Close()
	}
	for _, msg := range c.withdraw() {
		_ = c.r.session.Push(msg) // without a stream the client learns of it when it answers
	}
	return c.Replies.Close()
}

// checkEra doubts the server profile if the failure of an initialize comes from a modern server.
func (r *relay) checkEra(m *wire.Message) {
	if m.ErrorCode == proxy.CodeUnsupportedVersion && rules.PickModern(m.Raw, wire.Get(m.Raw, m.ErrorData, "supported")) != "" {
		r.x.keeper.Doubt(errors.New(string(m.Text(m.ErrorText))))
	}
}
