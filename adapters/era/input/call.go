package input

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"dragoman/adapters/era/seal"
	"dragoman/adapters/era/sessions"
	"dragoman/adapters/era/translate"
	"dragoman/adapters/era/work"
	"dragoman/adapters/rules"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Bounds of one call.
const (
	MaxOpen        = 64      // questions open at a time
	queuedMessages = 1024    // replies queued while a request is attached
	queuedBytes    = 8 << 20 // of these
	heldMessages   = 256     // replies queued while the call is suspended
	heldBytes      = 1 << 20 // of these
)

// question is a question of the legacy server.
type question struct {
	key    string // its name in inputRequests
	id     []byte // from the server, raw JSON
	method string
	params []byte // translated for a modern client
	given  bool   // sent to the client
}

// Call is a call at a legacy server that also receives what the server sends outside it: progress, log messages and, if
// the client can be asked, questions. It outlives the request that began it. A question ends that request with
// input_required and suspends the call; the client's retry resumes it with the answers (2026-07-28 multi-round-trip
// requests).
type Call struct {
	x       *Calls
	session *sessions.Session
	turn    *sessions.Turn
	asks    bool // the server may ask in it
	binding [32]byte
	inner   *proxy.Exchange // the call upstream
	replies proxy.Replies

	mu        sync.Mutex
	caps      []byte // of the request attached now or last: which questions it permits
	queue     [][]byte
	size      int
	answered  bool // the response is queued or has been returned
	err       error
	open      []question
	questions int // number of questions so far; makes their keys unique
	round     int
	first     time.Time // time of the first question not yet sent
	last      time.Time // time of the last one
	wake      chan struct{}
	suspended bool
	expiry    *time.Timer // while suspended
}

// Calls holds the interactive calls of one server.
type Calls struct {
	store      *Store
	work       *work.Group
	name       string // of the server
	declareAll bool   // the server may ask anything, whatever clients have declared
	count      atomic.Uint64
}

// NewCalls returns the interactive calls of one server. declareAll says that the server was promised that it may ask
// anything.
func NewCalls(name string, declareAll bool, store *Store, group *work.Group) *Calls {
	return &Calls{store: store, work: group, name: name, declareAll: declareAll}
}

// Start describes how a call begins.
type Start struct {
	Turn *sessions.Turn // in which the call runs
	Asks bool           // the server may ask in it
	// Send sends the call in the session.
	Send func(s *sessions.Session, ex *proxy.Exchange) (proxy.Replies, error)
}

// Begin begins the call of a request; the caller attaches the request next. The call ends its turn, unless Begin fails.
func (x *Calls) Begin(ex *proxy.Exchange, by Start) (*Call, error) {
	s := by.Turn.Session()
	if err := s.WantLevel(ex, ex.Client.LogLevel); err != nil && ex.Err() != nil {
		return nil, ex.Err()
	}
	if ex.Msg.Token.Present() { // clients may use equal tokens
		ex.Msg.Replace(ex.Msg.Token, append(strconv.AppendUint([]byte(`"d`), x.count.Add(1), 10), '"'))
	}
	inner, err := transport.NewExchange(proxy.Modern, ex.Msg.Append(nil))
	if err != nil {
		return nil, proxy.Errf(proxy.Internal, "a translated request is no message: %w", err)
	}
	inner.Client, inner.Caller = ex.Client, ex.Caller
	inner.Inherit(ex)
	inner.Client.Info, inner.Client.Caps = nil, nil // borrowed from a message with a shorter life
	d := &Call{x: x, session: s, turn: by.Turn, asks: by.Asks, binding: seal.Binding(ex, x.name), inner: inner,
		caps: bytes.Clone(ex.Client.Caps), wake: make(chan struct{}, 1)}
	ex.Attach(transport.Along{Inner: inner}) // until Attach
	defer ex.Detach(transport.Along{Inner: inner})
	d.turn.Join(d, d.asks)
	if d.replies, err = by.Send(s, inner); err != nil {
		s.Leave(d)
		return nil, err
	}
	if !x.work.Spawn(d.pump) {
		_ = d.replies.Close()
		s.Leave(d)
		return nil, work.ErrClosing()
	}
	return d, nil
}

// Close gives up the suspended calls.
func (x *Calls) Close() { x.store.clear(x) }

// pump reads the replies of the server, whether a request is attached or not.
func (c *Call) pump() {
	for {
		m, err := c.replies.Next(time.Time{})
		if err != nil {
			c.fail(err)
			break
		}
		if m.Kind == wire.Request {
			c.ask(m)
			continue
		}
		if m.Kind == wire.Notification && (c.dropWithdrawn(m) || c.session.Notice(m)) {
			continue
		}
		if m.IsResponse() { // released before the client has the response, so that its next call finds the session free
			c.session.Leave(c)
			c.turn.End()
			c.put(m)
			_ = c.replies.Close()
			return
		}
		c.put(m)
	}
	_ = c.replies.Close()
	c.session.Leave(c)
	if c.turn.Leased() && c.inner.Err() != nil {
		select {
		case <-time.After(sessions.RestTime):
		case <-c.x.work.Context().Done():
		}
	}
	c.turn.End()
}

// put queues a reply. Beyond the bounds the oldest reply is dropped, never the response.
func (c *Call) put(m *wire.Message) {
	raw := m.Append(nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answered || c.err != nil {
		return
	}
	messages, bytes := queuedMessages, queuedBytes
	if c.suspended {
		messages, bytes = heldMessages, heldBytes
	}
	for len(c.queue) > 0 && (len(c.queue) >= messages || c.size+len(raw) > bytes) {
		c.size -= len(c.queue[0])
		c.queue = c.queue[1:]
	}
	c.queue = append(c.queue, raw)
	c.size += len(raw)
	if m.IsResponse() {
		// Questions that the client has not been asked come too late. The others may have been asked outside the call, so that the server still waits.
		given := func(q question) bool { return q.given }
		c.rejectQuestions(slices.DeleteFunc(slices.Clone(c.open), given), "has ended")
		c.answered, c.open = true, slices.DeleteFunc(c.open, func(q question) bool { return !given(q) })
	}
	work.Signal(c.wake)
}

func (c *Call) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil && !c.answered {
		c.rejectQuestions(c.open, "is lost")
		c.err, c.open = err, nil
	}
	work.Signal(c.wake)
}

// Accepts implements sessions.Receiver.
func (c *Call) Accepts(m *wire.Message) bool {
	switch {
	case m.Kind == wire.Request:
		return c.asks
	case m.Is("notifications/progress"):
		return bytes.Equal(c.inner.Msg.Of(c.inner.Msg.Token), m.AppendPart(nil, m.ProgressToken))
	}
	return m.Is("notifications/message") && c.inner.Client.LogLevel != ""
}

// Receive implements sessions.Receiver.
func (c *Call) Receive(m *wire.Message) {
	if m.Kind == wire.Request {
		c.ask(m)
		return
	}
	c.put(m)
}

// Withdraw implements sessions.Receiver.
func (c *Call) Withdraw(m *wire.Message) { c.dropWithdrawn(m) }

// GiveWay implements sessions.Yielder.
func (c *Call) GiveWay() { c.giveUp(errGaveWay) }

// errGaveWay ends a call whose client has not answered while another client waited for the session.
var errGaveWay = proxy.Errf(proxy.Unanswered, "the call was given up, since the server has one session at a time, another client waited for it, and the server's question was not answered before")

// ask handles a question of the server. A question that cannot be put to the client is refused, and the call goes on.
func (c *Call) ask(m *wire.Message) {
	c.mu.Lock()
	method := string(m.Text(m.Method))
	why, need := "", rules.Undeclared(c.caps, method, m.Raw, m.Params)
	if need != "" && need != "{}" && c.x.declareAll && !c.answered && c.err == nil {
		c.mu.Unlock()
		c.giveUp(rules.MissingCapability(method, need))
		c.session.Refuse(m)
		return
	}
	switch {
	case method == "ping", c.answered, c.err != nil:
		why = "ended"
	case need != "", !c.asks:
		why = "undeclared"
	case len(c.open) >= MaxOpen, c.round >= c.x.store.opt.Rounds:
		why = "too many"
		c.x.work.Note("warn", "a server's question is refused: questions.rounds, or 64 questions at a time", nil)
	}
	if why != "" {
		c.mu.Unlock()
		c.session.Refuse(m)
		return
	}
	c.questions++
	key := "r" + strconv.Itoa(c.round+1) + "-" + strconv.Itoa(c.questions)
	c.open = append(c.open, question{key: key, id: bytes.Clone(m.Of(m.ID)), method: method, params: translate.ModernQuestion(m)})
	c.markPending()
	c.mu.Unlock()
	work.Signal(c.wake)
}

// markPending records that questions wait to be sent. The caller holds c.mu.
func (c *Call) markPending() {
	c.last = time.Now()
	if c.first.IsZero() {
		c.first = c.last
	}
}

// dropWithdrawn drops a question that the server has cancelled.
func (c *Call) dropWithdrawn(m *wire.Message) bool {
	if !m.Is("notifications/cancelled") {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.open {
		if bytes.Equal(c.open[i].id, m.Of(m.RequestID)) {
			c.open = append(c.open[:i:i], c.open[i+1:]...)
			if len(c.open) == 0 {
				c.first = time.Time{}
			}
			break
		}
	}
	return true
}

// giveUp ends the call upstream: first the cancellation, then errors for its questions. In the opposite order official
// servers take the error for the user's answer and go on.
func (c *Call) giveUp(cause error) {
	c.mu.Lock()
	if c.answered || c.err != nil {
		c.mu.Unlock()
		c.dropQuestions()
		return
	}
	open := c.open
	c.err, c.open = cause, nil
	c.mu.Unlock()
	c.turn.Abort() // at once: the client's next call may follow closely
	c.inner.Cancel(cause)
	work.Signal(c.wake)
	c.rejectQuestions(open, "has been given up")
}

// dropQuestions rejects the questions that are open after the end of the call, when its client will not return.
func (c *Call) dropQuestions() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rejectQuestions(c.open, "has ended")
	c.open = nil
}

// rejectQuestions answers questions with errors in the background; how completes the sentence about the call.
func (c *Call) rejectQuestions(open []question, how string) {
	if len(open) == 0 {
		return
	}
	c.x.work.Spawn(func() {
		ctx, cancel := context.WithTimeout(c.x.work.Context(), work.AnswerTime)
		defer cancel()
		if link, ok := transport.As[transport.Settler](c.session.Link()); ok {
			link.Settle(ctx)
		}
		for _, q := range open {
			m := proxy.ErrorMessage(q.id, proxy.Errf(proxy.Unanswered, "the call in which this was asked %s", how))
			c.x.work.Answer(ctx, c.session.Link(), m.Raw)
		}
	})
}

// validate checks the answers of a retry before any is used: each must be an object.
func (c *Call) validate(m *wire.Message) *proxy.Error {
	if m.InputResponses.Present() && !m.InputResponses.IsObject(m.Raw) {
		return proxy.Errf(proxy.InvalidParams, "params.inputResponses must be an object")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range c.open {
		if at := wire.Get(m.Raw, m.InputResponses, q.key); at.Present() && !at.IsObject(m.Raw) {
			return proxy.Errf(proxy.InvalidParams, "params.inputResponses[%q] must be an object", q.key)
		}
	}
	return nil
}

// takeAnswers returns the responses for the server from a retry. Unanswered questions stay open and are asked again;
// answers to unknown questions are ignored.
func (c *Call) takeAnswers(m *wire.Message) (out [][]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	left := c.open[:0:0]
	for _, q := range c.open {
		at := wire.Get(m.Raw, m.InputResponses, q.key)
		if !at.Present() {
			left = append(left, q)
			continue
		}
		answer := proxy.ResultMessage(q.id, at.Of(m.Raw))
		out = append(out, answer.Raw)
	}
	c.open, c.first = left, time.Time{}
	if len(left) > 0 {
		c.markPending()
	}
	return out
}

// inputRequired returns the result that carries the open questions. The caller holds c.mu.
func (c *Call) inputRequired(state string) []byte {
	requests := make([]wire.Change, 0, len(c.open))
	for i, q := range c.open {
		c.open[i].given = true
		requests = append(requests, wire.Change{Key: q.key, Value: wire.Object([]wire.Change{
			{Key: "method", Value: wire.AppendText(nil, q.method)}, {Key: "params", Value: q.params}})})
	}
	return translate.InputRequired(wire.Object(requests), state, c.session.Result().Info)
}
