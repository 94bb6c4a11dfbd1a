package everything

import (
	"slices"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// inputRequired is the resultType of a result that asks for input (2026-07-28 multi-round-trip requests, SEP-2322).
const inputRequired = "input_required"

// script defines the questions of a tool or a prompt, round by round, and the outcome of the answers. interview runs it
// for clients of either era.
type script struct {
	rounds []func(*query) []question // the questions of a round are asked together; keys are unique in the script
	done   func(*query, answers) outcome
	sealed bool // answers are only accepted with the requestState of their round
}

// interview runs the script for a call.
func (s *Server) interview(ex *proxy.Exchange, q query, x *script) (proxy.Replies, error) {
	if q.client.Era == proxy.Modern {
		return proxy.Reply(q.message(q.askModern(x))), nil
	}
	return s.run(ex, q, len(levels), func(c *call) outcome { return c.askLegacy(x) })
}

// answers holds the results of questions, raw JSON, by key.
type answers map[string][]byte

// askModern returns the first unanswered round as a result, or finishes the script. It keeps no state: earlier answers
// are in the requestState. Of a partly answered round only the rest is asked again. Answers to other questions are
// ignored.
func (q *query) askModern(x *script) outcome {
	fresh, got, refusal := q.retry(x)
	if refusal != nil {
		return refuses(refusal)
	}
	for _, round := range x.rounds {
		asked := round(q)
		if q.args.wrong != "" {
			return invalid(&q.args)
		}
		open := slices.DeleteFunc(slices.Clone(asked), func(a question) bool { return got[a.key] != nil })
		if len(open) == 0 {
			continue
		}
		open = slices.DeleteFunc(open, func(a question) bool {
			v := wire.Get(q.msg.Raw, fresh, a.key)
			if !a.fits(v.Of(q.msg.Raw)) {
				return false
			}
			got[a.key] = v.Of(q.msg.Raw)
			return true
		})
		fresh = wire.Span{}
		if len(open) > 0 {
			return q.required(x, open, got)
		}
	}
	return x.done(q, got)
}

// retry returns the answers that a retry brings: fresh ones to the last round, and those of earlier rounds. A first
// request has neither.
func (q *query) retry(x *script) (fresh wire.Span, got answers, refusal *proxy.Error) {
	m, got := &q.msg, answers{}
	if m.InputResponses.Present() && !m.InputResponses.IsObject(m.Raw) {
		return fresh, nil, proxy.Errf(proxy.InvalidParams, "params.inputResponses must be an object")
	}
	fresh = m.InputResponses
	if !m.ReqState.Present() {
		if x.sealed {
			fresh = wire.Span{}
		}
		return fresh, got, nil
	}
	text, err := q.server.seal.open(string(m.Text(m.ReqState)), q.binding())
	if err != nil {
		return fresh, nil, proxy.Errf(proxy.InvalidParams, "%w", err)
	}
	for k, v := range wire.Members(text, whole(text)) {
		got[string(k.Text(text))] = v.Of(text)
	}
	return fresh, got, nil
}

// required returns the result that asks for input. It has a requestState if there are earlier answers, or the script is
// sealed.
func (q *query) required(x *script, open []question, got answers) outcome {
	if missing := q.undeclared(open); len(missing) > 0 {
		e := proxy.Errf(proxy.MissingCapability, "this needs the client capability %s", named(missing))
		e.Data = []byte(object("requiredCapabilities", capabilities(missing)))
		return refuses(e)
	}
	requests := make([]string, 0, 2*len(open))
	for _, a := range open {
		requests = append(requests, a.key, object("method", quote(a.method), "params", a.params(q, "")))
	}
	state := ""
	if x.sealed || len(got) > 0 {
		var earlier []string
		for k, v := range got {
			earlier = append(earlier, k, string(v))
		}
		if state = q.server.seal.close([]byte(object(earlier...)), q.binding()); len(state) > maxState {
			return q.fails("the answers are too large to be carried on")
		}
		state = `,"requestState":` + quote(state)
	}
	out := gives(`"inputRequests":` + object(requests...) + state)
	out.kind = inputRequired
	return out
}

// whole returns the span of all of raw.
func whole(raw []byte) wire.Span {
	return wire.Span{From: 0, To: uint32(len(raw))} //nolint:gosec // part of a message
}
