package input

import (
	"strconv"
	"time"

	"dragoman/adapters/era/seal"
	"dragoman/adapters/era/translate"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// A server of 2025-11-25 may refuse a call until its user has visited some URLs, which error -32042 lists. No call waits meanwhile. A
// modern client receives them as questions in URL mode, and its retry is a new call.

// AskVisits translates a -32042 error to input_required, or to another error after too many rounds; nil if it lists no
// URL that can be asked for, or the client has not declared URL mode. rounds is the number of rounds before this one;
// info is the server's serverInfo.
func (x *Calls) AskVisits(ex *proxy.Exchange, m *wire.Message, rounds int, info []byte) *wire.Message {
	list := wire.Get(m.Raw, m.ErrorData, "elicitations")
	var requests []wire.Change
	for i, s := range wire.Items(m.Raw, list) {
		if !s.IsObject(m.Raw) || i >= MaxOpen {
			continue
		}
		page := wire.Message{Raw: wire.Without(s.Of(m.Raw), "elicitationId", "_meta", "task")}
		page.EditObject(page.Whole(), []wire.Change{{Key: "mode", Value: []byte(`"url"`)}}) // some servers omit the mode, which the error code implies
		params := page.Append(nil)
		whole := wire.Whole(params)
		if !wire.Get(params, whole, "url").IsString(params) || rules.Undeclared(ex.Client.Caps, "elicitation/create", params, whole) != "" {
			return nil
		}
		requests = append(requests, wire.Change{Key: "u" + strconv.Itoa(rounds+1) + "-" + strconv.Itoa(i+1), Value: wire.Object([]wire.Change{
			{Key: "method", Value: []byte(`"elicitation/create"`)}, {Key: "params", Value: params}})})
	}
	switch {
	case len(requests) == 0:
		return nil
	case rounds >= x.store.opt.Rounds:
		over := proxy.ErrorMessage(ex.Msg.Of(ex.Msg.ID), proxy.Errf(proxy.BadAnswer,
			"the upstream server has asked for visits in %d rounds, and asks for more than questions.rounds allows", rounds))
		return &over
	}
	again := x.visitsRequired(ex, wire.Object(requests), rounds+1, info)
	return &again
}

// visitsRequired returns the result that asks for visits. Its state carries the questions, since no call is suspended.
func (x *Calls) visitsRequired(ex *proxy.Exchange, requests []byte, round int, info []byte) wire.Message {
	body := append([]byte{byte(round)}, requests...) //nolint:gosec // at most questions.rounds, 100
	state := x.store.seal.Seal(seal.URLs, body, seal.Binding(ex, x.name), time.Now().Add(x.store.opt.TTL))
	return proxy.ResultMessage(ex.Msg.Of(ex.Msg.ID), translate.InputRequired(requests, state, info))
}

// visited handles the retry of a call that was refused until visits. The replies are nil once all visits are consented to.
// Otherwise they ask the unanswered questions again, or end the call of a user who refused.
func (x *Calls) visited(ex *proxy.Exchange, round int, requests []byte) (proxy.Replies, int, error) {
	m := &ex.Msg
	if m.InputResponses.Present() && !m.InputResponses.IsObject(m.Raw) {
		return nil, 0, proxy.Errf(proxy.InvalidParams, "params.inputResponses must be an object")
	}
	var missing []wire.Change
	refused := false
	for k, v := range wire.Members(requests, wire.Whole(requests)) {
		key := string(k.Text(requests))
		at := wire.Get(m.Raw, m.InputResponses, key)
		switch {
		case !at.Present():
			missing = append(missing, wire.Change{Key: key, Value: v.Of(requests)})
		case !at.IsObject(m.Raw):
			return nil, 0, proxy.Errf(proxy.InvalidParams, "params.inputResponses[%q] must be an object", key)
		default:
			refused = refused || !wire.Get(m.Raw, at, "action").Is(m.Raw, "accept")
		}
	}
	switch {
	case refused && !m.Is("tools/call"):
		return nil, 0, proxy.Errf(proxy.Unanswered, visitRefused)
	case refused:
		return proxy.Reply(proxy.ResultMessage(m.Of(m.ID), translate.ToolError(visitRefused))), 0, nil
	case len(missing) > 0:
		return proxy.Reply(x.visitsRequired(ex, wire.Object(missing), round, nil)), 0, nil
	}
	return nil, round, nil
}

// visitRefused ends a call whose user refused to open a page.
const visitRefused = "the user did not agree to open the page that the server asks for"
