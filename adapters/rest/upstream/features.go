package upstream

import (
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Each feature besides tools has an endpoint of its own. The seed does not define them: data has the shapes of the protocol, in
// either spelling.

// resources returns the result of resources/list.
func (c *call) resources(r *reply) (wire.Message, *step, error) {
	return c.optionalList(r, "resources", "resources", requireText("uri", "name"))
}

// templates returns the result of resources/templates/list, which are part of GET /resources.
func (c *call) templates(r *reply) (wire.Message, *step, error) {
	check := func(raw []byte, item wire.Span) string {
		if len(wire.Get(raw, item, "uri_template").Text(raw)) == 0 && len(wire.Get(raw, item, "uriTemplate").Text(raw)) == 0 {
			return "has no uri_template"
		}
		return requireText("name")(raw, item)
	}
	for _, key := range []string{"resource_templates", "resourceTemplates", "templates"} {
		if wire.Get(r.raw, r.body, key).Present() || wire.Path(r.raw, r.body, "data", key).Present() {
			return c.optionalList(r, "resourceTemplates", key, check)
		}
	}
	return c.optionalList(r, "resourceTemplates", "", check)
}

// prompts returns the result of prompts/list.
func (c *call) prompts(r *reply) (wire.Message, *step, error) {
	return c.optionalList(r, "prompts", "prompts", requireText("name"))
}

// optionalList returns the result of a list that a service may lack. to is its name in the result, from its name in the data; an empty
// from stands for an empty list.
func (c *call) optionalList(r *reply, to, from string, check func(raw []byte, item wire.Span) string) (wire.Message, *step, error) {
	if err := c.missingEndpoint(r); err != nil {
		return wire.Message{}, nil, err
	}
	data, m, err := c.payload(r, true)
	if err != nil || m.Kind != wire.Invalid {
		return m, nil, err
	}
	b := c.result(int(data.To - data.From))
	if from == "" {
		b.Add(to, []byte("[]"))
	} else if err = c.items(b, to, r, data, from, check); err != nil {
		return m, nil, err
	}
	return c.listed(b, r, data)
}

// read returns the result of resources/read. Data without contents is the content itself.
func (c *call) read(r *reply) (wire.Message, *step, error) {
	data, m, done, err := c.answered(r)
	if done {
		return m, nil, err
	}
	if list := wire.Get(r.raw, data, "contents"); list.Present() {
		b := c.result(int(data.To - data.From))
		if err := c.items(b, "contents", r, data, "contents", requireText("uri")); err != nil {
			return m, nil, err
		}
		forbidCaching(b)
		if meta := wire.Get(r.raw, data, "_meta"); meta.Present() {
			b.Add("_meta", meta.Of(r.raw))
			return c.whole(b.Done()[len(c.opening):], nil)
		}
		return c.completed(b)
	}
	text := data.Of(r.raw)
	b := c.result(textSize(text) + len(c.m.Of(c.m.URI)))
	b.Key("contents")
	one := wire.Builder{Raw: append(b.Raw, "[{"...)}
	one.Add("uri", c.m.Of(c.m.URI))
	one.Add("mimeType", []byte(`"application/json"`))
	one.Key("text")
	one.Raw = wire.AppendText(one.Raw, text)
	b.Raw = append(one.Done(), ']')
	forbidCaching(b)
	return c.completed(b)
}

// prompted returns the result of prompts/get.
func (c *call) prompted(r *reply) (wire.Message, *step, error) {
	data, m, done, err := c.answered(r)
	if done {
		return m, nil, err
	}
	if list := wire.Get(r.raw, data, "messages"); !list.Present() || r.raw[list.From] != '[' {
		return m, nil, c.unusable("data has no array messages")
	}
	return c.whole(protocolSpelling(nil, r.raw, data), nil)
}

// completion returns the result of completion/complete. data has a member completion, or is the completion.
func (c *call) completion(r *reply) (wire.Message, *step, error) {
	data, m, done, err := c.answered(r)
	if done {
		return m, nil, err
	}
	completion := wire.Get(r.raw, data, "completion")
	if !completion.Present() {
		completion = data
	}
	if values := wire.Get(r.raw, completion, "values"); !values.Present() || r.raw[values.From] != '[' {
		return m, nil, c.unusable("data has no completion with an array values")
	}
	b := c.result(int(completion.To - completion.From))
	b.Add("completion", completion.Of(r.raw))
	return c.completed(b)
}

// answered returns the data of a POST to an endpoint that a service may lack. If done, m or err is the response: a question, or an
// error.
func (c *call) answered(r *reply) (data wire.Span, m wire.Message, done bool, err error) {
	if err = c.missingEndpoint(r); err != nil {
		return data, m, true, err
	}
	if data, m, err = c.payload(r, false); err != nil || m.Kind != wire.Invalid {
		return data, m, true, err
	}
	if !c.m.Is("completion/complete") {
		m, done, err = c.inputRequired(r, &parsed{success: true, data: data})
	}
	return data, m, done, err
}

var _ proxy.Replies = (*call)(nil)
