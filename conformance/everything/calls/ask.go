package calls

import (
	"slices"

	"dragoman/conformance/everything/content"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// inputRequired is the resultType of a result that asks for input (2026-07-28 multi-round-trip requests, SEP-2322).
const inputRequired = "input_required"

// Script defines the questions of a tool or a prompt, round by round, and the outcome of the answers. Interview runs it
// for clients of either era.
type Script struct {
	Rounds []Round
	Done   func(*Query, Answers) Outcome
	Sealed bool // answers are only accepted with the requestState of their round
}

// Round returns the questions of a round, which are asked together. Their keys are unique in the script.
type Round func(*Query) []Question

// askModern returns the first unanswered round as a result, or finishes the script. It keeps no state: earlier answers
// are in the requestState. Of a partly answered round only the rest is asked again. Answers to other questions are
// ignored.
func (q *Query) askModern(x *Script) Outcome {
	fresh, got, refusal := q.retry(x)
	if refusal != nil {
		return refuses(refusal)
	}
	for _, round := range x.Rounds {
		asked := round(q)
		if q.Args.Wrong != "" {
			return Outcome{}
		}
		open := slices.DeleteFunc(slices.Clone(asked), func(a Question) bool { return got[a.key] != nil })
		if len(open) == 0 {
			continue
		}
		open = slices.DeleteFunc(open, func(a Question) bool {
			v := wire.Get(q.Msg.Raw, fresh, a.key)
			if !a.fits(v.Of(q.Msg.Raw)) {
				return false
			}
			got[a.key] = v.Of(q.Msg.Raw)
			return true
		})
		fresh = wire.Span{}
		if len(open) > 0 {
			return q.required(x, open, got)
		}
	}
	return x.Done(q, got)
}

// retry returns the answers that a retry brings: fresh ones to the last round, and those of earlier rounds. A first
// request has neither.
func (q *Query) retry(x *Script) (fresh wire.Span, got Answers, refusal *proxy.Error) {
	m, got := &q.Msg, Answers{}
	if m.InputResponses.Present() && !m.InputResponses.IsObject(m.Raw) {
		return fresh, nil, proxy.Errf(proxy.InvalidParams, "params.inputResponses must be an object")
	}
	fresh = m.InputResponses
	if !m.ReqState.Present() {
		if x.Sealed {
			fresh = wire.Span{}
		}
		return fresh, got, nil
	}
	text, err := q.runner.seal.open(string(m.Text(m.ReqState)), q.binding())
	if err != nil {
		return fresh, nil, proxy.Errf(proxy.InvalidParams, "%w", err)
	}
	for k, v := range wire.Members(text, content.Whole(text)) {
		got[string(k.Text(text))] = v.Of(text)
	}
	return fresh, got, nil
}

// required returns the result that asks for input. It has a requestState if there are earlier answers, or the script is
// sealed.
func (q *Query) required(x *Script, open []Question, got Answers) Outcome {
	if missing := q.undeclared(open); len(missing) > 0 {
		e := proxy.Errf(proxy.MissingCapability, "this needs the client capability %s", named(missing))
		e.Data = []byte(content.Object("requiredCapabilities", capabilities(missing)))
		return refuses(e)
	}
	requests := make([]string, 0, 2*len(open))
	for _, a := range open {
		requests = append(requests, a.key, content.Object("method", content.Quote(a.method), "params", a.params(q, "")))
	}
	state := ""
	if x.Sealed || len(got) > 0 {
		var earlier []string
		for k, v := range got {
			earlier = append(earlier, k, string(v))
		}
		if state = q.runner.seal.close([]byte(content.Object(earlier...)), q.binding()); len(state) > MaxState {
			return q.fails("the answers are too large to be carried on")
		}
		state = `,"requestState":` + content.Quote(state)
	}
	out := Gives(`"inputRequests":` + content.Object(requests...) + state)
	out.kind = inputRequired
	return out
}
