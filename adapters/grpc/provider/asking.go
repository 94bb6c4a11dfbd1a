package provider

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"dragoman/adapters/era/seal"
	"dragoman/adapters/grpc/channel"
	"dragoman/adapters/grpc/providerpb"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Asking bounds the questions of a provider.
type Asking struct {
	TTL             time.Duration // how long a call waits for its client
	Settle          time.Duration // questions within this time are sent together
	Most            int           // calls that wait
	MostOfPrincipal int           // of these, those of one principal
	Rounds          int           // rounds of questions in one call
}

// maxOpen is the most questions of one call at a time.
const maxOpen = 64

// settleMax bounds how long later questions can delay the first.
const settleMax = 50 * time.Millisecond

// talk is a call in which the provider may ask: between two requests of the client it waits in pending.
type talk struct {
	u           *Upstream
	caller      proxy.Identity
	method      string // of the request, and what it names
	subject     string
	stream      *channel.Stream
	tool        *tool                  // that is called; nil: it is another method
	content     []byte                 // of the tool so far, raw JSON items
	given       []byte                 // answers that came before any question, an object; nil: none
	open        []*providerpb.Question // not answered
	round       int
	settle      time.Duration
	first, last time.Time // when questions came that are not sent yet; zero: there is none

	expiry *time.Timer // while it waits
}

// due returns when Next has to give up waiting for the provider: until, or earlier if questions are due, which asking tells.
func (t *talk) due(until time.Time) (at time.Time, asking bool) {
	if t.first.IsZero() {
		return until, false
	}
	at = t.last.Add(t.settle)
	if most := t.first.Add(settleMax); most.Before(at) {
		at = most
	}
	if !until.IsZero() && until.Before(at) {
		at = until
	}
	return at, true
}

// interact makes a call in which the provider may ask; of is the tool that it runs, nil if it runs none.
func (c *call) interact(request *providerpb.InteractRequest, of *tool) error {
	if err := c.step(interactMethod, request, c.heard); err != nil {
		return err
	}
	c.talk = &talk{u: c.u, caller: c.ex.Caller.Identity(), method: string(c.m.Text(c.m.Method)), subject: c.subject(), stream: c.stream,
		tool: of, settle: c.u.opt.Asking.opt.Settle}
	if c.m.InputResponses.IsObject(c.m.Raw) {
		c.talk.given = bytes.Clone(c.m.Of(c.m.InputResponses))
	}
	return nil
}

// subject returns the name or URI in the request.
func (c *call) subject() string {
	if c.m.Is("resources/read") {
		return string(c.m.Text(c.m.URI))
	}
	return string(c.m.Text(c.m.Name))
}

// heard takes a message of a call in which the provider may ask.
func (c *call) heard(in proto.Message) (*wire.Message, error) {
	switch m := in.(*providerpb.InteractResponse).GetMessage().(type) {
	case *providerpb.InteractResponse_Progress:
		return c.Progress(m.Progress.GetProgress(), m.Progress.Total, m.Progress.GetMessage())
	case *providerpb.InteractResponse_Log:
		return c.log(m.Log)
	case *providerpb.InteractResponse_Content:
		var err error
		c.talk.content, err = c.appendItem(c.talk.content, 0, m.Content)
		return nil, err
	case *providerpb.InteractResponse_Question:
		return nil, c.question(m.Question)
	case *providerpb.InteractResponse_Withdrawn:
		c.talk.drop(m.Withdrawn)
	case *providerpb.InteractResponse_Tool:
		if c.talk.tool == nil {
			return nil, c.wrongKind()
		}
		return c.toolResult(c.talk.tool, c.talk.content, m.Tool)
	case *providerpb.InteractResponse_Resource:
		if !c.m.Is("resources/read") {
			return nil, c.wrongKind()
		}
		return c.contents(m.Resource)
	case *providerpb.InteractResponse_Prompt:
		if !c.m.Is("prompts/get") {
			return nil, c.wrongKind()
		}
		return c.messages(m.Prompt)
	}
	return nil, nil //nolint:nilnil // nothing for the client
}

func (c *call) wrongKind() error {
	return proxy.Errf(proxy.BadAnswer, "the provider has answered %s with the result of another method", c.m.Text(c.m.Method))
}

// drop removes a question that the provider has withdrawn.
func (t *talk) drop(id string) {
	for i, q := range t.open {
		if q.GetId() == id {
			t.open = append(t.open[:i:i], t.open[i+1:]...)
			break
		}
	}
	if len(t.open) == 0 {
		t.first = time.Time{}
	}
}

// question puts a question on the list of those for the client. One that cannot be put to it is answered with a status, and the call goes on.
func (c *call) question(q *providerpb.Question) error {
	if q.GetParams() == "" {
		q.Params = "{}"
	}
	params, err := object(q.GetParams(), "question.params")
	if err != nil {
		return err
	}
	refuse := rules.MayAsk(c.m.Of(c.m.Caps), q.GetMethod(), params)
	switch {
	case refuse != nil:
	case len(c.talk.open) >= maxOpen, c.talk.round >= c.u.opt.Asking.opt.Rounds:
		refuse = proxy.Errf(proxy.Unanswered, "the call has asked more than questions.rounds, or %d questions at a time, allow", maxOpen)
		c.u.opt.Note("warn", "a question of the provider is refused", refuse)
	}
	if refuse != nil {
		return c.reply(&providerpb.Answer{Id: q.GetId(), Outcome: &providerpb.Answer_Failure{Failure: &providerpb.Failure{Code: int32(channel.Code(refuse)), Message: refuse.Message}}}) //nolint:gosec // there are 17 codes
	}
	if t := c.talk; t.given != nil {
		if at := wire.Get(t.given, wire.Whole(t.given), q.GetId()); at.IsObject(t.given) {
			return c.answer(q, at.Of(t.given))
		}
	}
	c.talk.drop(q.GetId()) // asked again
	c.talk.open = append(c.talk.open, q)
	if c.talk.last = time.Now(); c.talk.first.IsZero() {
		c.talk.first = c.talk.last
	}
	return nil
}

// answer answers a question with a result, raw JSON.
func (c *call) answer(q *providerpb.Question, result []byte) error {
	return c.reply(&providerpb.Answer{Id: q.GetId(), Outcome: &providerpb.Answer_Result{Result: string(result)}})
}

func (c *call) reply(a *providerpb.Answer) error {
	return c.stream.Send(&providerpb.InteractRequest{Message: &providerpb.InteractRequest_Answer{Answer: a}})
}

// ask ends the request with the open questions. The call waits for the client's retry.
func (c *call) ask() (*wire.Message, error) {
	t := c.talk
	t.round++
	t.first = time.Time{}
	requests := make([]wire.Change, 0, len(t.open))
	for _, q := range t.open {
		requests = append(requests, wire.Change{Key: q.GetId(), Value: wire.Object([]wire.Change{{Key: "method", Value: wire.AppendText(nil, q.GetMethod())}, {Key: "params", Value: []byte(q.GetParams())}})})
	}
	t.stream.Release()
	state, err := c.u.opt.Asking.add(t)
	if err != nil {
		return nil, err
	}
	c.stream, c.over = nil, true
	b := c.Begin(0)
	b.Add("resultType", []byte(`"input_required"`))
	b.Add("inputRequests", wire.Object(requests))
	b.Text("requestState", state)
	b.Add("_meta", c.Meta(nil))
	return c.End(b)
}

// resume continues a call whose client comes back with answers.
func (c *call) resume() error {
	m := &c.m
	if m.InputResponses.Present() && !m.InputResponses.IsObject(m.Raw) {
		return proxy.Errf(proxy.InvalidParams, "params.inputResponses must be an object")
	}
	t, err := c.u.opt.Asking.take(string(m.Text(m.ReqState)), func(t *talk) error {
		if t.u != c.u || t.caller != c.ex.Caller.Identity() || t.method != string(m.Text(m.Method)) || t.subject != c.subject() {
			return seal.BadState()
		}
		for _, q := range t.open {
			if at := wire.Get(m.Raw, m.InputResponses, q.GetId()); at.Present() && !at.IsObject(m.Raw) {
				return proxy.Errf(proxy.InvalidParams, "params.inputResponses[%q] must be an object", q.GetId())
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	t.stream.Follow(c.ex)
	c.stream, c.take, c.talk = t.stream, c.heard, t
	left := t.open[:0:0]
	for _, q := range t.open {
		at := wire.Get(m.Raw, m.InputResponses, q.GetId())
		if !at.Present() {
			left = append(left, q)
			continue
		}
		if err := c.answer(q, at.Of(m.Raw)); err != nil {
			return err
		}
	}
	if t.open = left; len(left) > 0 { // they are asked again
		t.last = time.Now()
		t.first = t.last
	}
	return nil
}

// Pending holds the calls whose clients are being asked, by their requestState. Each state serves once. All providers of a process share one, so that
// its bounds apply to the process. It is safe for concurrent use.
type Pending struct {
	opt Asking

	mu    sync.Mutex
	talks map[string]*talk
	of    map[string]int // by principal
}

// NewPending returns an empty Pending.
func NewPending(opt Asking) *Pending {
	return &Pending{opt: opt, talks: make(map[string]*talk), of: make(map[string]int)}
}

// add adds a call and returns its state. The call is given up if the client does not return within TTL.
func (p *Pending) add(t *talk) (string, error) {
	var secret [16]byte
	_, _ = rand.Read(secret[:]) // never fails: crypto/rand ends the process instead
	state := base64.RawURLEncoding.EncodeToString(secret[:])
	p.mu.Lock()
	defer p.mu.Unlock()
	switch who := t.caller.Principal; {
	case t.u.ended.Load():
		return "", proxy.Errf(proxy.ShuttingDown, "the provider is being removed")
	case len(p.talks) >= p.opt.Most:
		return "", full("%d calls wait for their clients' answers, as many as questions.max_parked allows", len(p.talks))
	case p.of[who] >= p.opt.MostOfPrincipal:
		return "", full("%d calls wait for this client's answers, as many as questions.max_parked_per_principal allows", p.of[who])
	default:
		p.talks[state] = t
		p.of[who]++
	}
	t.expiry = time.AfterFunc(p.opt.TTL, func() {
		if gone, _ := p.take(state, func(*talk) error { return nil }); gone != nil {
			gone.stream.Close()
		}
	})
	return state, nil
}

func full(format string, n int) *proxy.Error {
	e := proxy.Errf(proxy.TooManyParked, format, n)
	e.RetryAfter = 30
	return e
}

// take removes and returns a call that check allows to be taken.
func (p *Pending) take(state string, check func(*talk) error) (*talk, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.talks[state]
	if t == nil {
		return nil, seal.BadState()
	}
	if err := check(t); err != nil {
		return nil, err
	}
	p.remove(state, t)
	return t, nil
}

// remove removes a call. The caller holds p.mu.
func (p *Pending) remove(state string, t *talk) {
	delete(p.talks, state)
	if p.of[t.caller.Principal]--; p.of[t.caller.Principal] == 0 {
		delete(p.of, t.caller.Principal)
	}
	t.expiry.Stop()
}

// Waiting returns the number of calls.
func (p *Pending) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.talks)
}

// clear gives up the calls of one provider, and refuses further ones.
func (p *Pending) clear(u *Upstream) {
	p.mu.Lock()
	u.ended.Store(true)
	var all []*talk
	for state, t := range p.talks {
		if t.u == u {
			p.remove(state, t)
			all = append(all, t)
		}
	}
	p.mu.Unlock()
	for _, t := range all {
		t.stream.Close()
	}
}
