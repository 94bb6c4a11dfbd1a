package calls

import (
	"errors"
	"fmt"

	"dragoman/conformance/everything/content"
	"dragoman/proxy/wire"
)

var errNoSession = errors.New("there is no session in which the client could be asked")

// askLegacy runs the script for a legacy client during its call: the questions are sent among the replies, the answers
// come through the session. An error as an answer ends the call.
func (c *Call) askLegacy(x *Script) Outcome {
	got := Answers{}
	for _, round := range x.Rounds {
		asked := round(&c.Query)
		if c.Args.Wrong != "" {
			return Outcome{}
		}
		if missing := c.undeclared(asked); len(missing) > 0 {
			return c.fails("the client does not declare " + named(missing) + ", which this needs")
		}
		for _, a := range asked {
			if c.Client.Version < a.Since {
				return c.fails("this needs a client of revision " + a.Since + " or later")
			}
		}
		r := newRound(c, asked, got)
		if out, ok := r.run(); !ok {
			return out
		}
	}
	return x.Done(&c.Query, got)
}

// round is the questions that are sent to a legacy client together.
type round struct {
	c     *Call
	asked []Question
	got   Answers
	came  chan answer
	open  map[int][]byte // ids of the unanswered questions
	urls  map[int]string // elicitationIds of the questions with a URL
}

// answer is the answer to the nth question.
type answer struct {
	n   int
	msg wire.Message
	err error
}

func newRound(c *Call, asked []Question, got Answers) *round {
	return &round{c: c, asked: asked, got: got, came: make(chan answer, len(asked)), open: map[int][]byte{}, urls: map[int]string{}}
}

// run sends all questions and waits for all answers. If it returns false, the call ends with the outcome.
func (r *round) run() (Outcome, bool) {
	for n := range r.asked {
		if err := r.put(n); err != nil {
			r.withdraw()
			return r.c.fails(err.Error()), false
		}
	}
	for len(r.open) > 0 {
		select {
		case a := <-r.came:
			delete(r.open, a.n)
			if text := r.take(a); text != "" {
				r.withdraw()
				return r.c.fails(text), false
			}
		case <-r.c.stop:
			r.withdraw()
			return Outcome{}, false
		}
	}
	return Outcome{}, r.complete()
}

// put sends one question. If the call was stopped, run notices it.
func (r *round) put(n int) error {
	if r.c.ex.Session == nil {
		return errNoSession
	}
	id, err := r.c.ex.Session.Expect(func(m *wire.Message) {
		own, err := m.Clone()
		r.came <- answer{n, own, err} // has room for all answers
	})
	if err != nil {
		return fmt.Errorf("the client cannot be asked: %w", err)
	}
	r.open[n] = id
	a := &r.asked[n]
	if a.need == needURL {
		r.urls[n] = uuid()
	}
	r.c.say(content.Object("jsonrpc", `"2.0"`, "id", string(id), "method", content.Quote(a.method), "params", a.params(&r.c.Query, r.urls[n])))
	return nil
}

// take stores an answer; it returns what is wrong with the answer, or "".
func (r *round) take(a answer) string {
	asked := &r.asked[a.n]
	switch {
	case a.err != nil:
		return fmt.Sprintf("the answer to %s cannot be read: %v", asked.method, a.err)
	case a.msg.Kind == wire.Failure:
		return fmt.Sprintf("the client answered %s with error %d: %s", asked.method, a.msg.ErrorCode, a.msg.Text(a.msg.ErrorText))
	case !asked.fits(a.msg.Of(a.msg.Result)):
		return fmt.Sprintf("the client's answer to %s has not the shape that this method wants", asked.method)
	}
	r.got[asked.key] = a.msg.Of(a.msg.Result)
	return ""
}

// complete sends a client of 2025-11-25 the notification that the interactions at accepted URLs are complete; here
// nothing has to be done there. It returns false if the call was stopped.
func (r *round) complete() bool {
	for n, id := range r.urls {
		if r.got.Action(r.asked[n].key) == "accept" && !r.c.notify("notifications/elicitation/complete", content.Object("elicitationId", content.Quote(id))) {
			return false
		}
	}
	return true
}

// withdraw cancels the unanswered questions. A stopped call has no replies any more, so the session sends the
// cancellation then.
func (r *round) withdraw() {
	for _, id := range r.open {
		if !r.c.ex.Session.Withdraw(id) {
			continue
		}
		gone := content.Object("jsonrpc", `"2.0"`, "method", `"notifications/cancelled"`,
			"params", content.Object("requestId", string(id), "reason", `"the call that asked has ended"`))
		select {
		case <-r.c.stop:
		default:
			if r.c.say(gone) {
				continue
			}
		}
		r.c.ex.Session.Keep("", []byte(gone))
	}
}
