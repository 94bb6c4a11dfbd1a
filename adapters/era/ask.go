package era

import (
	"bytes"
	"fmt"
	"strconv"
	"sync"
	"time"

	"dragoman/adapters/era/translate"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Bounds on what a modern server may make of one call of a legacy client.
const (
	stateRounds  = 3                      // consecutive results that request a retry without a question
	stateBackoff = 250 * time.Millisecond // before such a retry
	visitFirst   = time.Second            // before a retry while the user is still at the requested page; doubled each time
	visitMost    = 30 * time.Second
)

// inquiry is the state of the questions in a legacy client's call. A modern server ends the call with questions; the
// client is asked during its call, and the call is sent again with the answers (2026-07-28 multi-round-trip requests).
type inquiry struct {
	rounds, idle int               // rounds so far, and consecutive rounds without a question
	state        []byte            // requestState of this round, raw JSON; nil if absent
	list         []*askedQuestion  // questions of this round
	consents     map[string][]byte // answers to questions in URL mode, by URL
	visits       []string          // elicitationIds whose completion the client is notified of
	wait         time.Duration     // delay before the next retry while the user is still at a page
	due          time.Time         // when to retry; zero: at once
	again        bool              // the call must be sent again

	mu     sync.Mutex
	left   int           // answers outstanding
	failed string        // the client's error, if it sent one instead of an answer
	wake   chan struct{} // made with the first question
}

// askedQuestion is one question of a round.
type askedQuestion struct {
	key, url string
	id       []byte // of the request to the client, raw JSON; nil: answered from consents
	answer   []byte
}

// inquire reads an input_required result and queues its questions for the client.
func (c *upCall) inquire(m *wire.Message) error {
	c.doNotRecycle()
	a := &c.ask
	a.rounds++
	a.list, a.failed, a.due, a.again = nil, "", time.Time{}, false
	a.state = bytes.Clone(wire.Get(m.Raw, m.Result, "requestState").Of(m.Raw))
	switch {
	case !rules.Askable(c.method):
		return proxy.Errf(proxy.BadAnswer, "the upstream server asks for input in %s, which the protocol forbids", c.method)
	case a.rounds > c.u.store.Options().Rounds:
		return proxy.Errf(proxy.BadAnswer, "the upstream server has asked in %d rounds, more than questions.rounds allows", a.rounds)
	}
	var out [][]byte
	for k, q := range wire.Members(m.Raw, m.InputRequests) {
		msg, err := c.question(string(k.Text(m.Raw)), m.Raw, q)
		if err != nil {
			c.withdraw()
			return err
		}
		if msg != nil {
			out = append(out, msg)
		}
	}
	if len(a.list) > 0 {
		a.idle = 0
	} else if a.idle++; a.state == nil || a.idle >= stateRounds {
		return proxy.Errf(proxy.BadAnswer, "the upstream server asks to be called again, and asks nothing")
	} else {
		a.due = time.Now().Add(stateBackoff)
	}
	if len(out) == 0 && len(a.list) > 0 { // the user has consented to all of them
		a.wait = min(max(2*a.wait, visitFirst), visitMost)
		a.due = time.Now().Add(a.wait)
	}
	a.again = true
	c.out = append(c.out, out...)
	return nil
}

// question returns the request for one question; nil for a page that the user has agreed to open before.
func (c *upCall) question(key string, raw []byte, q wire.Span) ([]byte, error) {
	method := string(wire.Get(raw, q, "method").Text(raw))
	params := wire.Get(raw, q, "params")
	caps := translate.ModernCaps(c.ex.Client.Caps, c.ex.Client.Version)
	if need := rules.Undeclared(caps, method, raw, params); need != "" {
		return nil, proxy.Errf(proxy.Question, "the upstream server asks for %q, which the client has not declared (%s)", method, need)
	}
	given, id, ok := translate.LegacyQuestion(method, params.Of(raw), c.ex.Client.Version)
	if !ok {
		return nil, proxy.Errf(proxy.Question, "the upstream server's question (%s) cannot be put to a client of revision %s", method, c.ex.Client.Version)
	}
	x := &askedQuestion{key: key}
	c.ask.list = append(c.ask.list, x)
	if id != "" {
		x.url = string(wire.Get(raw, params, "url").Text(raw))
		if x.answer = c.ask.consents[x.url]; x.answer != nil {
			return nil, nil
		}
		c.ask.visits = append(c.ask.visits, id)
	}
	var err error
	c.ask.mu.Lock()
	if c.ask.left++; c.ask.wake == nil {
		c.ask.wake = make(chan struct{}, 1)
	}
	c.ask.mu.Unlock()
	if x.id, err = c.ex.Session.Expect(func(m *wire.Message) { c.answered(x, m) }); err != nil {
		return nil, proxy.Errf(proxy.Overloaded, "the client cannot be asked: %w", err)
	}
	msg := append(append([]byte(`{"jsonrpc":"2.0","id":`), x.id...), `,"method":`...)
	msg = append(append(wire.AppendText(msg, method), `,"params":`...), given...)
	return append(msg, '}'), nil
}

// answered records the client's answer. It runs on the goroutine that read it.
func (c *upCall) answered(x *askedQuestion, m *wire.Message) {
	a := &c.ask
	a.mu.Lock()
	defer a.mu.Unlock()
	a.left--
	if m.Kind == wire.Result && m.Result.IsObject(m.Raw) {
		x.answer = wire.Without(m.Of(m.Result), "_meta", "resultType")
	} else if a.failed == "" {
		a.failed = fmt.Sprintf("the client could not answer the server's question: %s (code %d)", m.Text(m.ErrorText), m.ErrorCode)
	}
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// await waits for the answers, or for the time of the retry. Then the call has been sent again, or c.out and c.err say
// how it ended.
func (c *upCall) await(until time.Time) error {
	a := &c.ask
	for {
		a.mu.Lock()
		left, failed := a.left, a.failed
		a.mu.Unlock()
		switch {
		case c.ex.Err() != nil:
			c.out, c.err = append(c.out, c.withdraw()...), c.ex.Err()
			return nil
		case failed != "":
			c.out = append(c.out, c.withdraw()...)
			c.refused(failed)
			return nil
		case left == 0 && !time.Now().Before(a.due):
			return c.retry()
		}
		wait := until
		if left == 0 && (wait.IsZero() || a.due.Before(wait)) {
			wait = a.due
		}
		if !c.pause(wait) && !until.IsZero() && !time.Now().Before(until) {
			return proxy.ErrNotYet
		}
	}
}

// pause waits for an answer or the end of the exchange; false if the time came first.
func (c *upCall) pause(until time.Time) bool {
	var timeout <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-c.ask.wake:
	case <-c.ex.Done():
	case <-timeout:
		return false
	}
	return true
}

// withdraw withdraws the open questions and returns the notifications for the client.
func (c *upCall) withdraw() (out [][]byte) {
	c.ask.again = false
	for _, x := range c.ask.list {
		if x.id != nil && c.ex.Session.Withdraw(x.id) {
			out = append(out, rules.Withdrawal(x.id))
		}
	}
	c.ask.list = nil
	return out
}

// refused ends the call of a client that answered a question with an error. The modern era has no way to pass that error
// on, so the server is not called again and the caller of the tool receives the error. No answer is made up: "cancel"
// would claim a decision of the user.
func (c *upCall) refused(why string) {
	if c.method != "tools/call" {
		c.err = proxy.Errf(proxy.Unanswered, "%s", why)
		return
	}
	result := append(wire.AppendText([]byte(`{"content":[{"type":"text","text":`), why), `}],"isError":true}`...)
	c.out = append(c.out, proxy.ResultMessage(c.ex.Msg.Of(c.ex.Msg.ID), result).Raw)
	c.over = true
}

// retry sends the call again with the answers of this round only.
func (c *upCall) retry() error {
	a := &c.ask
	if c.task != nil {
		return c.updateTask()
	}
	m := &c.ex.Msg
	if c.edits != nil { // apply the edits, so that more can be added
		m.Edits = c.edits
		raw := m.Append(nil)
		settled, err := wire.Scan(raw)
		if err != nil {
			return proxy.Errf(proxy.Internal, "a translated request is no message: %w", err)
		}
		*m, c.edits = settled, nil
	}
	changes := []wire.Change{{Key: "inputResponses"}, {Key: "requestState", Value: a.state}}
	if len(a.list) > 0 {
		changes[0].Value = c.collect()
	}
	a.list, a.again = nil, false
	_ = c.Replies.Close()
	c.Replies = nil // begin may fail and leave none
	c.again = changes
	return c.begin()
}

// collect returns the answers of this round and records the consents among them.
func (c *upCall) collect() []byte {
	a := &c.ask
	answers := []byte{'{'}
	for i, x := range a.list {
		if i > 0 {
			answers = append(answers, ',')
		}
		answers = append(append(wire.AppendText(answers, x.key), ':'), x.answer...)
		m := wire.Message{Raw: x.answer}
		if x.url != "" && wire.Get(x.answer, m.Whole(), "action").Is(x.answer, "accept") {
			if a.consents == nil {
				a.consents = make(map[string][]byte)
			}
			a.consents[x.url] = x.answer
		}
	}
	return append(answers, '}')
}

// updateTask schedules the answers of this round to be sent to the task.
func (c *upCall) updateTask() error {
	c.task.answers, c.task.due = c.collect(), time.Now()
	c.ask.list, c.ask.again = nil, false
	return nil
}

// complete notifies a client of 2025-11-25, ahead of the response, that its URL elicitations are complete (elicitation,
// Completion Notifications).
func (c *upCall) complete(response *wire.Message) {
	for _, id := range c.ask.visits {
		msg := wire.AppendText([]byte(`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":`), id)
		c.out = append(c.out, append(msg, "}}"...))
	}
	c.ask.visits = nil
	c.out = append(c.out, response.Append(nil))
	c.over = true
}

// progressRises reports whether a progress notification may pass. Progress may restart with each round, but must rise
// within what is one call to the client (2025-11-25 progress).
func (c *upCall) progressRises(m *wire.Message) bool {
	n, err := strconv.ParseFloat(string(wire.Get(m.Raw, m.Params, "progress").Of(m.Raw)), 64)
	if err != nil {
		return true
	}
	if c.ask.rounds > 0 && n <= c.progress {
		return false
	}
	c.progress = max(c.progress, n)
	return true
}
