package era

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"dragoman/adapters/era/input"
	"dragoman/adapters/era/seal"
	"dragoman/adapters/era/sessions"
	"dragoman/adapters/era/tasks"
	"dragoman/adapters/era/translate"
	"dragoman/adapters/rules"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// downgrade sends a modern client's exchange to a legacy server in a pooled session. It removes modern members from the
// request and adds those that modern clients require to the replies.
func (u *Upstream) downgrade(ex *proxy.Exchange) (proxy.Replies, error) {
	m := &ex.Msg
	method := proxy.Method(m.Text(m.Method))
	if strings.HasPrefix(method, "tasks/") {
		return nil, tasks.NotOffered(method)
	}
	if method == "subscriptions/listen" {
		return u.listens.Listen(ex)
	}
	if err := u.mirror(ex, false); err != nil {
		return nil, err
	}
	if method == "server/discover" {
		s, err := u.pool.Described(ex)
		if err != nil {
			return nil, err
		}
		defer s.Release()
		return proxy.Reply(proxy.ResultMessage(m.Of(m.ID), u.discoverResult(s))), nil
	}
	mayAsk := rules.Askable(method) && u.opt.Sessions.Isolation.Asks(u.opt.Sessions.DeclareAll)
	asks := mayAsk && (u.opt.Sessions.DeclareAll || rules.AnyQuestion(ex.Client.Caps))
	wantsEvents := !u.opt.Sessions.Isolation.Mixed() && (ex.Client.LogLevel != "" || m.Token.Present() && !u.opt.Wires.Stdio)
	var c *downCall
	if asks || wantsEvents || mayAsk && m.ReqState.Present() { // an interactive call may outlive the request, and must not be recycled
		c = new(downCall)
	} else {
		c = proxy.Lend[downCall](ex, proxy.SlotEra)
	}
	c.u, c.ex, c.method, c.asks, c.wantsEvents = u, ex, method, asks, wantsEvents
	c.room.open(m)
	c.task = u.onlyAsTask(ex)
	translate.Strip(m, c.task, translate.TraceMembers(ex))
	c.turnPage()
	c.edits = m.Edits
	if mayAsk && m.ReqState.Present() {
		if replies, err := c.resume(); replies != nil || err != nil {
			return replies, err
		}
	}
	if err := c.begin(); err != nil {
		return nil, err
	}
	return c, nil
}

// resume handles a retry according to its requestState. The replies are nil if the call is to be sent again.
func (c *downCall) resume() (proxy.Replies, error) {
	replies, visits, err := c.u.calls.Resume(c.ex)
	if err != nil {
		return nil, err
	}
	if w, ok := replies.(*input.Waiter); ok {
		c.Replies, c.session = w, w.Session()
		c.retried = true // a call that has asked is not sent again: the user would be asked twice
		return c, nil
	}
	c.visits = visits
	return replies, nil
}

// discoverResult returns the DiscoverResult of a legacy server, made from its initialize result.
func (u *Upstream) discoverResult(s *sessions.Session) []byte {
	h := s.Result()
	return wire.Object([]wire.Change{
		{Key: "resultType", Value: []byte(`"complete"`)},
		{Key: "supportedVersions", Value: []byte(`["` + rules.ModernVersion + `"]`)},
		{Key: "capabilities", Value: translate.ServerCaps(h.Caps, u.listens.Delivers(s))},
		{Key: "instructions", Value: h.Instructions},
		{Key: "ttlMs", Value: []byte("0")}, {Key: "cacheScope", Value: []byte(`"private"`)},
		{Key: "_meta", Value: wire.Object([]wire.Change{{Key: wire.MetaPrefix + "serverInfo", Value: u.infoOr(h.Info)}})},
	})
}

// infoOr returns info, or the serverInfo of a server that sent none.
func (u *Upstream) infoOr(info []byte) []byte {
	if info != nil {
		return info
	}
	return wire.Object([]wire.Change{{Key: "name", Value: wire.AppendText(nil, u.opt.Name)}, {Key: "version", Value: []byte(`"unknown"`)}})
}

// downCall is one call of a modern client at a legacy server.
type downCall struct {
	proxy.Replies
	u            *Upstream
	ex           *proxy.Exchange
	method       string
	asks         bool        // the server may ask during the call
	wantsEvents  bool        // the client wants log messages or progress, which may arrive outside the call
	task         bool        // the call runs as a task at the server
	edits        []wire.Edit // of the message before the link adds its own
	room         edits
	session      *sessions.Session
	held         bool   // release must release the session; an interactive call releases its own
	page         uint64 // the session in which the cursor is valid
	visits       int    // rounds of -32042 before this one
	retried      bool
	begun        bool
	legacyClient bool // the reply is translated further for a legacy client: members for modern clients are left out
}

// Clear implements proxy.Clearer.
func (c *downCall) Clear() { *c = downCall{} }

func (c *downCall) begin() error {
	if c.retried {
		c.ex.Msg.Edits = slices.Clone(c.edits)
	} else {
		c.ex.Msg.Edits = c.room.lend(c.edits)
	}
	start := c.plain
	if c.asks || c.wantsEvents {
		start = c.interactive
	}
	err := start()
	switch {
	case err == nil:
		return nil
	case c.session != nil && c.lost(err):
		return c.begin()
	case c.ex.Err() != nil:
		return c.ex.Err()
	}
	return c.fault(err)
}

// interactive begins a call that also receives questions, log messages and progress sent outside it. It leases its
// session if the server may ask.
func (c *downCall) interactive() error {
	lease := c.asks && !c.u.opt.AsksOnCall
	turn, err := c.u.pool.Turn(c.ex, lease, c.page)
	if err != nil {
		return err
	}
	defer c.ex.Detach(turn)
	c.session = turn.Session()
	d, err := c.u.calls.Begin(c.ex, input.Start{Turn: turn, Asks: c.asks,
		Send: func(s *sessions.Session, ex *proxy.Exchange) (proxy.Replies, error) {
			return c.u.callLegacy(s, ex, c.task)
		}})
	if err != nil {
		turn.End()
		return err
	}
	c.Replies = d.Attach(c.ex)
	return nil
}

// plain begins a call without questions.
func (c *downCall) plain() error {
	s, err := c.u.pool.Acquire(c.ex, c.page)
	if err != nil {
		return err
	}
	c.session, c.held = s, true
	if err := s.WantLevel(c.ex, c.ex.Client.LogLevel); err != nil && c.ex.Err() != nil {
		c.release()
		return c.ex.Err()
	}
	replies, err := c.u.callLegacy(s, c.ex, c.task)
	if err != nil {
		c.release()
		return err
	}
	c.Replies = replies
	return nil
}

// release releases the session. c.session stays set, since the session may have to be discarded.
func (c *downCall) release() {
	if c.held {
		c.session.Release()
		c.held = false
	}
}

// lost discards a lost session, and reports whether the request may be sent again: a server does not process requests of
// an unknown session.
func (c *downCall) lost(err error) bool {
	if !proxy.IsFault(err, proxy.SessionLost) {
		return false
	}
	c.u.pool.Discard(c.session)
	again := !c.retried && !c.begun
	c.retried = true
	return again
}

// Next implements proxy.Replies.
func (c *downCall) Next(until time.Time) (m *wire.Message, err error) {
	for {
		if c.Replies == nil {
			return nil, proxy.Errf(proxy.SessionLost, "the session with the upstream server is lost")
		}
		m, err = c.Replies.Next(until)
		if err != nil {
			if done, err := c.retryBroken(err); done {
				return nil, err
			}
			continue
		}
		if keep, err := c.reply(m); err != nil || keep {
			c.begun = true
			return m, err
		}
	}
}

// retryBroken handles an error of the replies. It sends the call again where that is safe; otherwise done is true and
// out is the error.
func (c *downCall) retryBroken(err error) (done bool, out error) {
	if errors.Is(err, io.EOF) || errors.Is(err, proxy.ErrNotYet) || c.ex.Err() != nil {
		return true, err
	}
	again := c.lost(err)
	if !again && !c.retried && !c.begun && proxy.IsFault(err, proxy.Lost) && rules.ReadsOnly(&c.ex.Msg) {
		c.retried, again = true, true
	}
	if !again {
		return true, c.fault(err)
	}
	_ = c.Replies.Close()
	c.Replies = nil
	c.release()
	if err := c.begin(); err != nil {
		return true, err
	}
	return false, nil
}

// reply translates one reply; keep is false if the client must not receive it.
func (c *downCall) reply(m *wire.Message) (keep bool, err error) {
	switch m.Kind {
	case wire.Request:
		c.session.Refuse(m)
		return false, nil
	case wire.Notification:
		return !c.session.Notice(m) && c.notification(m), nil
	case wire.Failure:
		if c.asks && m.ErrorCode == proxy.CodeURLElicitation {
			if visits := c.u.calls.AskVisits(c.ex, m, c.visits, c.session.Result().Info); visits != nil {
				*m = *visits
				return true, nil
			}
		}
		if !c.legacyClient {
			translate.UnknownName(m, c.method, c.session.Result().Caps)
		}
		if e := translate.ModernError(m, c.ex.Msg.Of(c.ex.Msg.URI)); e != nil {
			*m = proxy.ErrorMessage(c.ex.Msg.Of(c.ex.Msg.ID), e)
		}
		return true, nil
	}
	if w, ok := c.Replies.(*input.Waiter); ok && w.Asked() {
		return true, nil // made here, and modern already
	}
	if c.method == "tools/list" {
		c.u.tools.learn(m)
		translate.DropExecution(m, c.u.opt.DriveTasks && c.session.Result().RunsTasks())
	}
	c.markPage(m)
	if c.legacyClient {
		return true, nil
	}
	if result := c.session.Result(); !translate.StampPlain(m, c.method, result.Members) {
		translate.StampResult(m, c.method, c.u.infoOr(result.Info))
	}
	return true, nil
}

// notification reports whether a notification on a call's stream passes: progress and log messages if the request asked
// for them. The modern era has no others there.
func (c *downCall) notification(m *wire.Message) bool {
	if m.Is("notifications/message") {
		least := c.ex.Client.LogLevel
		return least != "" && rules.Severe(string(m.Text(m.Level)), least)
	}
	return m.Is("notifications/progress") && c.ex.Msg.Token.Present()
}

// fault converts a link's error to one for clients. Some legacy servers answer an unknown method with 400 and plain
// text; for a method that no revision has this becomes MethodNotFound.
func (c *downCall) fault(err error) error {
	var status *transport.StatusError
	if !errors.As(err, &status) {
		return err
	}
	if status.Status == 400 && !rules.Known(c.method) {
		return proxy.Errf(proxy.MethodNotFound, "the upstream server refused method %s: %w", c.method, status)
	}
	return transport.StatusFault(status)
}

// Close implements proxy.Replies.
func (c *downCall) Close() error {
	var err error
	if c.Replies != nil {
		err = c.Replies.Close()
	}
	c.release()
	return err
}

// onlyAsTask reports whether a call must run as a task because the tool of the legacy server requires it (2025-11-25
// tasks, tool-level negotiation). It fetches the tool list if the tool is not known.
func (u *Upstream) onlyAsTask(ex *proxy.Exchange) bool {
	return u.opt.DriveTasks && ex.Msg.Is("tools/call") && u.tool(ex).task
}

// callLegacy sends an exchange in a session; asTask says that the request asks to run as a task.
func (u *Upstream) callLegacy(s *sessions.Session, ex *proxy.Exchange, asTask bool) (proxy.Replies, error) {
	if asTask {
		return tasks.Drive(s.Link(), ex, u.work)
	}
	return s.Link().Call(ex)
}

// A legacy server's cursor may be valid only in the session that issued it (2025-11-25 pagination), and the calls of a modern client
// may run in several sessions. So the client receives the cursor sealed together with the number of its session.

// cursorTime is how long a cursor is valid.
const cursorTime = 24 * time.Hour

// cursorBinding returns the binding of a cursor: caller, server and method.
func (c *downCall) cursorBinding() [32]byte {
	return sha256.Sum256(fmt.Appendf(nil, "cursor %q %q %q", c.ex.Caller.Identity().Append(nil), c.u.opt.Name, c.ex.Msg.Text(c.ex.Msg.Method)))
}

// pages reports whether the result is paginated; elsewhere a member of that name belongs to the server.
func (c *downCall) pages() bool { return strings.HasSuffix(c.method, "/list") }

// turnPage replaces the client's cursor by the server's own and records its session. A cursor that was not issued here passes unchanged
// to the server.
func (c *downCall) turnPage() {
	m := &c.ex.Msg
	if !c.pages() || !m.Cursor.IsString(m.Raw) {
		return
	}
	kind, body, err := c.u.store.Sealer().Open(string(m.Text(m.Cursor)), c.cursorBinding(), time.Now())
	if err == nil && kind == seal.Page && len(body) > 8 {
		c.page = binary.BigEndian.Uint64(body)
		m.Replace(m.Cursor, body[8:])
	}
}

// markPage seals the cursor of a result's next page together with the session.
func (c *downCall) markPage(m *wire.Message) {
	if !c.pages() {
		return
	}
	next := wire.Get(m.Raw, m.Result, "nextCursor")
	if !next.IsString(m.Raw) {
		return
	}
	body := append(binary.BigEndian.AppendUint64(nil, c.session.Number()), next.Of(m.Raw)...)
	sealed := c.u.store.Sealer().Seal(seal.Page, body, c.cursorBinding(), time.Now().Add(cursorTime))
	m.Replace(next, wire.AppendText(nil, sealed))
}
