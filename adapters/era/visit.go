package era

import (
	"strconv"
	"time"

	"dragoman/adapters/era/input"
	"dragoman/adapters/era/seal"
	"dragoman/adapters/era/translate"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// A server of 2025-11-25 may refuse a call until its user has visited some URLs, which error -32042 lists. No call waits meanwhile. A
// modern client receives them as questions in URL mode, and its retry is a new call.

// visit translates a -32042 error to input_required, or to another error after too many rounds; nil if it lists no URL
// that can be asked for, or the client has not declared URL mode.
func (c *downCall) visit(m *wire.Message) *wire.Message {
	list := wire.Get(m.Raw, m.ErrorData, "elicitations")
	var asked []wire.Change
	for i, s := range wire.Items(m.Raw, list) {
		if !s.IsObject(m.Raw) || i >= input.MaxOpen {
			continue
		}
		page := wire.Message{Raw: wire.Without(s.Of(m.Raw), "elicitationId", "_meta", "task")}
		page.EditObject(page.Whole(), []wire.Change{{Key: "mode", Value: []byte(`"url"`)}}) // some servers omit the mode, which the error code implies
		params := page.Append(nil)
		whole := wire.Whole(params)
		if !wire.Get(params, whole, "url").IsString(params) || rules.Undeclared(c.ex.Client.Caps, "elicitation/create", params, whole) != "" {
			return nil
		}
		asked = append(asked, wire.Change{Key: "u" + strconv.Itoa(c.visits+1) + "-" + strconv.Itoa(i+1), Value: wire.Object([]wire.Change{
			{Key: "method", Value: []byte(`"elicitation/create"`)}, {Key: "params", Value: params}})})
	}
	switch {
	case len(asked) == 0:
		return nil
	case c.visits >= c.u.store.Options().Rounds:
		over := proxy.ErrorMessage(c.ex.Msg.Of(c.ex.Msg.ID), proxy.Errf(proxy.BadAnswer,
			"the upstream server has asked for visits in %d rounds, and asks for more than questions.rounds allows", c.visits))
		return &over
	}
	again := c.askVisits(wire.Object(asked), c.visits+1)
	return &again
}

// askVisits returns the result that asks for visits. Its state carries the questions, since no call is suspended.
func (c *downCall) askVisits(requests []byte, round int) wire.Message {
	body := append([]byte{byte(round)}, requests...) //nolint:gosec // at most questions.rounds, 100
	state := c.u.store.Sealer().Seal(seal.URLs, body, seal.Binding(c.ex, c.u.opt.Name), time.Now().Add(c.u.store.Options().TTL))
	var info []byte
	if c.session != nil {
		info = c.session.Result().Info
	}
	return proxy.ResultMessage(c.ex.Msg.Of(c.ex.Msg.ID), translate.InputRequired(requests, state, info))
}

// resumeVisits handles the retry. Once all visits are consented to, the call is sent again; unanswered questions are
// asked again.
func (c *downCall) resumeVisits(body []byte) (proxy.Replies, error) {
	if len(body) == 0 {
		return nil, input.BadState()
	}
	m := &c.ex.Msg
	if m.InputResponses.Present() && !m.InputResponses.IsObject(m.Raw) {
		return nil, proxy.Errf(proxy.InvalidParams, "params.inputResponses must be an object")
	}
	round, requests := int(body[0]), body[1:]
	var missing []wire.Change
	refused := false
	whole := wire.Whole(requests)
	for k, v := range wire.Members(requests, whole) {
		key := string(k.Text(requests))
		at := wire.Get(m.Raw, m.InputResponses, key)
		switch {
		case !at.Present():
			missing = append(missing, wire.Change{Key: key, Value: v.Of(requests)})
		case !at.IsObject(m.Raw):
			return nil, proxy.Errf(proxy.InvalidParams, "params.inputResponses[%q] must be an object", key)
		default:
			refused = refused || !wire.Get(m.Raw, at, "action").Is(m.Raw, "accept")
		}
	}
	switch {
	case refused:
		return c.visitRefused()
	case len(missing) > 0:
		return proxy.Reply(c.askVisits(wire.Object(missing), round)), nil
	}
	c.visits = round
	if err := c.begin(); err != nil {
		return nil, err
	}
	return c, nil
}

// visitRefused ends a call whose user refused to open a page.
func (c *downCall) visitRefused() (proxy.Replies, error) {
	const text = "the user did not agree to open the page that the server asks for"
	if c.method != "tools/call" {
		return nil, proxy.Errf(proxy.Unanswered, text)
	}
	return proxy.Reply(proxy.ResultMessage(c.ex.Msg.Of(c.ex.Msg.ID), translate.ToolError(text))), nil
}
