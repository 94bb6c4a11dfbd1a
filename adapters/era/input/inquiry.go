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
func (i *Inquiry) Ask(m *wire.Message) (out [][]byte, err error) {
	i.rounds++
	i.state = bytes.Clone(wire.Get(m.Raw, m.Result, "requestState").Of(m.Raw))
	i.begin()
	method := i.ex.Msg.Text(i.ex.Msg.Method)
	switch {
	case !rules.Askable(string(method)):
		return nil, proxy.Errf(proxy.BadAnswer, "the upstream server asks for input in %s, which the protocol forbids", method)
	case i.rounds > i.mostRounds:
		return nil, proxy.Errf(proxy.BadAnswer, "the upstream server has asked in %d rounds, more than questions.rounds allows", i.rounds)
	}
	if out, err = i.questions(m, m.InputRequests, false); err != nil {
		return nil, err
	}
	if len(i.list) > 0 {
		i.idle = 0
	} else if i.idle++; i.state == nil || i.idle >= stateRounds {
		return nil, proxy.Errf(proxy.BadAnswer, "the upstream server asks to be called again, and asks nothing")
	} else {
		i.due = time.Now().Add(stateBackoff)
	}
	if len(out) == 0 && len(i.list) > 0 { // the user has consented to all of them
		i.wait = min(max(2*i.wait, visitFirst), visitMost)
		i.due = time.Now().Add(i.wait)
	}
	i.open = true
	return out, nil
}

// AskTask is Ask for a state of the call's task. Each question of a task is put to the client once.
func (i *Inquiry) AskTask(m *wire.Message) (out [][]byte, err error) {
	i.begin()
	if out, err = i.questions(m, wire.Get(m.Raw, m.Result, "inputRequests"), true); err == nil {
		i.open = len(i.list) > 0
	}
	return out, err
}

func (i *Inquiry) begin() { i.list, i.failed, i.due, i.open = nil, "", time.Time{}, false }

// questions returns the requests for the questions in an inputRequests object, of a task those that are not known.
func (i *Inquiry) questions(m *wire.Message, requests wire.Span, task bool) (out [][]byte, err error) {
	for k, q := range wire.Members(m.Raw, requests) {
		key := string(k.Text(m.Raw))
		switch {
		case !task:
		case i.known[key]:
			continue
		case len(i.known) >= MaxOpen*i.mostRounds:
			i.Withdraw()
			return nil, proxy.Errf(proxy.BadAnswer, "the upstream server's task asks more than questions.rounds allows")
		case i.known == nil:
			i.known = map[string]bool{key: true}
		default:
			i.known[key] = true
		}
		msg, err := i.question(key, m.Raw, q)
		if err != nil {
			i.Withdraw()
			return nil, err
		}
		if msg != nil {
			out = append(out, msg)
		}
	}
	return out, nil
}

// question returns the request for one question; nil for a page that the user has agreed to open before.
func (i *Inquiry) question(key string, raw []byte, q wire.Span) ([]byte, error) {
	method, client := string(wire.Get(raw, q, "method").Text(raw)), &i.ex.Client
	params := wire.Get(raw, q, "params")
	if need := rules.Undeclared(translate.ModernCaps(client.Caps, client.Version), method, raw, params); need != "" {
		return nil, proxy.Errf(proxy.Question, "the upstream server asks for %q, which the client has not declared (%s)", method, need)
	}
	given, id, ok := translate.LegacyQuestion(method, params.Of(raw), client.Version)
	if !ok {
		return nil, proxy.Errf(proxy.Question, "the upstream server's question (%s) cannot be put to a client of revision %s", method, client.Version)
	}
	x := &inquiryItem{key: key}
	i.list = append(i.list, x)
	if id != "" {
		x.url = string(wire.Get(raw, params, "url").Text(raw))
		if x.answer = i.consents[x.url]; x.answer != nil {
			return nil, nil
		}
		i.visits = append(i.visits, id)
	}
	i.mu.Lock()
	i.left++
	i.mu.Unlock()
	var err error
	if x.id, err = i.ex.Session.Expect(func(m *wire.Message) { i.answered(x, m) }); err != nil {
		return nil, proxy.Errf(proxy.Overloaded, "the client cannot be asked: %w", err)
	}
	msg := append(append([]byte(`{"jsonrpc":"2.0","id":`), x.id...), `,"method":`...)
	msg = append(append(wire.AppendText(msg, method), `,"params":`...), given...)
	return append(msg, '}'), nil
}

// answered records the client's answer. It runs on the goroutine that read it.
func (i *Inquiry) answered(x *inquiryItem, m *wire.Message) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.left--
	if m.Kind == wire.Result && m.Result.IsObject(m.Raw) {
		x.answer = wire.Without(m.Of(m.Result), "_meta", "resultType")
	} else if i.failed == "" {
		i.failed = fmt.Sprintf("the client could not answer the server's question: %s (code %d)", m.Text(m.ErrorText), m.ErrorCode)
	}
	work.Signal(i.wake)
}

// Open reports whether the inquiry awaits answers, or the time of the retry.
func (i *Inquiry) Open() bool { return i != nil && i.open }

// Wait waits for the answers, or for the time of the retry, until the given time (zero: without limit). The error is nil
// when the call is to be sent again, and [proxy.ErrNotYet] if the time came first. With any other error the call has
// ended: out is for the client, before the error.
func (i *Inquiry) Wait(until time.Time) (out [][]byte, err error) {
	for {
		i.mu.Lock()
		left, failed := i.left, i.failed
		i.mu.Unlock()
		switch {
		case i.ex.Err() != nil:
			return i.Withdraw(), i.ex.Err()
		case failed != "":
			return i.refused(failed)
		case left == 0 && !time.Now().Before(i.due):
			return nil, nil
		}
		wait := until
		if left == 0 && (wait.IsZero() || i.due.Before(wait)) {
			wait = i.due
		}
		if !i.pause(wait) && !until.IsZero() && !time.Now().Before(until) {
			return nil, proxy.ErrNotYet
		}
	}
}

// pause waits for an answer or the end of the exchange; false if the time came first.
func (i *Inquiry) pause(until time.Time) bool {
	select {
	case <-i.wake:
	case <-i.ex.Done():
	case <-work.After(until):
		return false
	}
	return true
}

// Withdraw withdraws the open questions and returns the notifications for the client.
func (i *Inquiry) Withdraw() (out [][]byte) {
	if i == nil {
		return nil
	}
	i.open = false
	for _, x := range i.list {
		if x.id != nil && i.ex.Session.Withdraw(x.id) {
			out = append(out, rules.Withdrawal(x.id))
		}
	}
	i.list = nil
	return out
}

// refused ends the call of a client that answered a question with an error. The modern era has no way to pass that error
// on, so the server is not called again and the caller of the tool receives the error. No answer is made up: "cancel"
// would claim a decision of the user.
func (i *Inquiry) refused(why string) (out [][]byte, err error) {
	out = i.Withdraw()
	if !i.ex.Msg.Is("tools/call") {
		return out, proxy.NewError(proxy.Unanswered, wire.ShownText(why))
	}
	result := append(wire.AppendText([]byte(`{"content":[{"type":"text","text":`), why), `}],"isError":true}`...)
	return append(out, proxy.ResultMessage(i.ex.Msg.Of(i.ex.Msg.ID), result).Raw), io.EOF
}

// Retry ends the round and returns the changes to the call's params: the answers of this round only, and its
// requestState.
func (i *Inquiry) Retry() []wire.Change {
	changes := []wire.Change{{Key: "inputResponses"}, {Key: "requestState", Value: i.state}}
	if len(i.list) > 0 {
		changes[0].Value = i.Answers()
	}
	i.list, i.open = nil, false
	return changes
}

// Answers ends the round and returns its answers as an inputResponses object. It records the consents among them.
func (i *Inquiry) Answers() []byte {
	answers := []byte{'{'}
	for n, x := range i.list {
		if n > 0 {
			answers = append(answers, ',')
		}
		answers = append(append(wire.AppendText(answers, x.key), ':'), x.answer...)
		if x.url != "" && wire.Get(x.answer, wire.Whole(x.answer), "action").Is(x.answer, "accept") {
			if i.consents == nil {
				i.consents = make(map[string][]byte)
			}
			i.consents[x.url] = x.answer
		}
	}
	i.list, i.open = nil, false
	return append(answers, '}')
}

// Completed returns, once, the notifications that the client's URL elicitations are complete. A client of 2025-11-25
// receives them ahead of the response (elicitation, Completion Notifications).
func (i *Inquiry) Completed() (out [][]byte) {
	if i == nil {
		return nil
	}
	for _, id := range i.visits {
		msg := wire.AppendText([]byte(`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":`), id)
		out = append(out, append(msg, "}}"...))
	}
	i.visits = nil
	return out
}
