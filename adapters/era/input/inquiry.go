package input

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"

	"dragoman/adapters/era/translate"
	"dragoman/adapters/era/work"
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

// Inquiry puts the questions of a modern server to a legacy client. The server ends the call with questions; the client
// is asked during its call, and the call is sent again with the answers (2026-07-28 multi-round-trip requests). The
// goroutine that reads the replies of the call uses an Inquiry; a nil one has asked nothing.
type Inquiry struct {
	ex           *proxy.Exchange
	mostRounds   int
	rounds, idle int               // rounds so far, and consecutive rounds without a question
	state        []byte            // requestState of this round, raw JSON; nil if absent
	list         []*inquiryItem    // questions of this round
	consents     map[string][]byte // answers to questions in URL mode, by URL
	visits       []string          // elicitationIds whose completion the client is notified of
	wait         time.Duration     // delay before the next retry while the user is still at a page
	due          time.Time         // when to retry; zero: at once
	open         bool              // answers or the time of the retry are awaited
	known        map[string]bool   // questions of a task that have been put to the client

	mu     sync.Mutex
	left   int    // answers outstanding
	failed string // the client's error, if it sent one instead of an answer
	wake   chan struct{}
}

// inquiryItem is one question of a round.
type inquiryItem struct {
	key, url string
	id       []byte // of the request to the client, raw JSON; nil: answered from consents
	answer   []byte
}

// NewInquiry returns an Inquiry for a call of a legacy client, within the bounds of the store.
func NewInquiry(ex *proxy.Exchange, store *Store) *Inquiry {
	return &Inquiry{ex: ex, mostRounds: store.opt.Rounds, wake: make(chan struct{}, 1)}
}

// Ask reads an input_required result and returns the requests for the client. None is returned with an error, which ends
// the call.
func (a *Inquiry) Ask(m *wire.Message) (out [][]byte, err error) {
	a.rounds++
	a.state = bytes.Clone(wire.Get(m.Raw, m.Result, "requestState").Of(m.Raw))
	a.begin()
	method := a.ex.Msg.Text(a.ex.Msg.Method)
	switch {
	case !rules.Askable(string(method)):
		return nil, proxy.Errf(proxy.BadAnswer, "the upstream server asks for input in %s, which the protocol forbids", method)
	case a.rounds > a.mostRounds:
		return nil, proxy.Errf(proxy.BadAnswer, "the upstream server has asked in %d rounds, more than questions.rounds allows", a.rounds)
	}
	if out, err = a.questions(m, m.InputRequests, false); err != nil {
		return nil, err
	}
	if len(a.list) > 0 {
		a.idle = 0
	} else if a.idle++; a.state == nil || a.idle >= stateRounds {
		return nil, proxy.Errf(proxy.BadAnswer, "the upstream server asks to be called again, and asks nothing")
	} else {
		a.due = time.Now().Add(stateBackoff)
	}
	if len(out) == 0 && len(a.list) > 0 { // the user has consented to all of them
		a.wait = min(max(2*a.wait, visitFirst), visitMost)
		a.due = time.Now().Add(a.wait)
	}
	a.open = true
	return out, nil
}

// AskTask is Ask for a state of the call's task. Each question of a task is put to the client once.
func (a *Inquiry) AskTask(m *wire.Message) (out [][]byte, err error) {
	a.begin()
	if out, err = a.questions(m, wire.Get(m.Raw, m.Result, "inputRequests"), true); err == nil {
		a.open = len(a.list) > 0
	}
	return out, err
}

func (a *Inquiry) begin() { a.list, a.failed, a.due, a.open = nil, "", time.Time{}, false }

// questions returns the requests for the questions in an inputRequests object, of a task those that are not known.
func (a *Inquiry) questions(m *wire.Message, requests wire.Span, task bool) (out [][]byte, err error) {
	for k, q := range wire.Members(m.Raw, requests) {
		key := string(k.Text(m.Raw))
		switch {
		case !task:
		case a.known[key]:
			continue
		case len(a.known) >= MaxOpen*a.mostRounds:
			a.Withdraw()
			return nil, proxy.Errf(proxy.BadAnswer, "the upstream server's task asks more than questions.rounds allows")
		case a.known == nil:
			a.known = map[string]bool{key: true}
		default:
			a.known[key] = true
		}
		msg, err := a.question(key, m.Raw, q)
		if err != nil {
			a.Withdraw()
			return nil, err
		}
		if msg != nil {
			out = append(out, msg)
		}
	}
	return out, nil
}

// question returns the request for one question; nil for a page that the user has agreed to open before.
func (a *Inquiry) question(key string, raw []byte, q wire.Span) ([]byte, error) {
	method, client := string(wire.Get(raw, q, "method").Text(raw)), &a.ex.Client
	params := wire.Get(raw, q, "params")
	if need := rules.Undeclared(translate.ModernCaps(client.Caps, client.Version), method, raw, params); need != "" {
		return nil, proxy.Errf(proxy.Question, "the upstream server asks for %q, which the client has not declared (%s)", method, need)
	}
	given, id, ok := translate.LegacyQuestion(method, params.Of(raw), client.Version)
	if !ok {
		return nil, proxy.Errf(proxy.Question, "the upstream server's question (%s) cannot be put to a client of revision %s", method, client.Version)
	}
	x := &inquiryItem{key: key}
	a.list = append(a.list, x)
	if id != "" {
		x.url = string(wire.Get(raw, params, "url").Text(raw))
		if x.answer = a.consents[x.url]; x.answer != nil {
			return nil, nil
		}
		a.visits = append(a.visits, id)
	}
	a.mu.Lock()
	a.left++
	a.mu.Unlock()
	var err error
	if x.id, err = a.ex.Session.Expect(func(m *wire.Message) { a.answered(x, m) }); err != nil {
		return nil, proxy.Errf(proxy.Overloaded, "the client cannot be asked: %w", err)
	}
	msg := append(append([]byte(`{"jsonrpc":"2.0","id":`), x.id...), `,"method":`...)
	msg = append(append(wire.AppendText(msg, method), `,"params":`...), given...)
	return append(msg, '}'), nil
}

// answered records the client's answer. It runs on the goroutine that read it.
func (a *Inquiry) answered(x *inquiryItem, m *wire.Message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.left--
	if m.Kind == wire.Result && m.Result.IsObject(m.Raw) {
		x.answer = wire.Without(m.Of(m.Result), "_meta", "resultType")
	} else if a.failed == "" {
		a.failed = fmt.Sprintf("the client could not answer the server's question: %s (code %d)", m.Text(m.ErrorText), m.ErrorCode)
	}
	work.Signal(a.wake)
}

// Open reports whether the inquiry awaits answers, or the time of the retry.
func (a *Inquiry) Open() bool { return a != nil && a.open }

// Wait waits for the answers, or for the time of the retry, until the given time (zero: without limit). The error is nil
// when the call is to be sent again, and [proxy.ErrNotYet] if the time came first. With any other error the call has
// ended: out is for the client, before the error.
func (a *Inquiry) Wait(until time.Time) (out [][]byte, err error) {
	for {
		a.mu.Lock()
		left, failed := a.left, a.failed
		a.mu.Unlock()
		switch {
		case a.ex.Err() != nil:
			return a.Withdraw(), a.ex.Err()
		case failed != "":
			return a.refused(failed)
		case left == 0 && !time.Now().Before(a.due):
			return nil, nil
		}
		wait := until
		if left == 0 && (wait.IsZero() || a.due.Before(wait)) {
			wait = a.due
		}
		if !a.pause(wait) && !until.IsZero() && !time.Now().Before(until) {
			return nil, proxy.ErrNotYet
		}
	}
}

// pause waits for an answer or the end of the exchange; false if the time came first.
func (a *Inquiry) pause(until time.Time) bool {
	select {
	case <-a.wake:
	case <-a.ex.Done():
	case <-work.After(until):
		return false
	}
	return true
}

// Withdraw withdraws the open questions and returns the notifications for the client.
func (a *Inquiry) Withdraw() (out [][]byte) {
	if a == nil {
		return nil
	}
	a.open = false
	for _, x := range a.list {
		if x.id != nil && a.ex.Session.Withdraw(x.id) {
			out = append(out, rules.Withdrawal(x.id))
		}
	}
	a.list = nil
	return out
}

// refused ends the call of a client that answered a question with an error. The modern era has no way to pass that error
// on, so the server is not called again and the caller of the tool receives the error. No answer is made up: "cancel"
// would claim a decision of the user.
func (a *Inquiry) refused(why string) (out [][]byte, err error) {
	out = a.Withdraw()
	if !a.ex.Msg.Is("tools/call") {
		return out, proxy.Errf(proxy.Unanswered, "%s", why)
	}
	result := append(wire.AppendText([]byte(`{"content":[{"type":"text","text":`), why), `}],"isError":true}`...)
	return append(out, proxy.ResultMessage(a.ex.Msg.Of(a.ex.Msg.ID), result).Raw), io.EOF
}

// Retry ends the round and returns the changes to the call's params: the answers of this round only, and its
// requestState.
func (a *Inquiry) Retry() []wire.Change {
	changes := []wire.Change{{Key: "inputResponses"}, {Key: "requestState", Value: a.state}}
	if len(a.list) > 0 {
		changes[0].Value = a.Answers()
	}
	a.list, a.open = nil, false
	return changes
}

// Answers ends the round and returns its answers as an inputResponses object. It records the consents among them.
func (a *Inquiry) Answers() []byte {
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
	a.list, a.open = nil, false
	return append(answers, '}')
}

// Completed returns, once, the notifications that the client's URL elicitations are complete. A client of 2025-11-25
// receives them ahead of the response (elicitation, Completion Notifications).
func (a *Inquiry) Completed() (out [][]byte) {
	if a == nil {
		return nil
	}
	for _, id := range a.visits {
		msg := wire.AppendText([]byte(`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":`), id)
		out = append(out, append(msg, "}}"...))
	}
	a.visits = nil
	return out
}
