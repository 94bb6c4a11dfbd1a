package upstream

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpcall"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// called returns the result of tools/call.
func (c *call) called(r *reply) (wire.Message, *step, error) {
	e, err := r.envelope()
	if err != nil {
		return wire.Message{}, nil, err
	}
	if !e.success {
		return c.failed(r, &e)
	}
	if m, asks, err := c.inputRequired(r, &e); asks || err != nil {
		return m, nil, err
	}
	if isToolResult(r.raw, e.data) {
		return c.inPlace(r, e.data, nil)
	}
	data := e.data.Of(r.raw)
	size := textSize(data)
	if e.data.IsObject(r.raw) {
		size += len(data)
	}
	b := c.result(size)
	addText(b, data)
	if e.data.IsObject(r.raw) { // some clients refuse anything else
		b.Add("structuredContent", data)
	}
	return c.completed(b)
}

// failed returns the answer to a tools/call without success. A tool that ran and failed has a result.
func (c *call) failed(r *reply, e *parsed) (wire.Message, *step, error) {
	if e.code != proxy.Failed {
		return c.refusal(r, e)
	}
	isError := wire.Change{Key: "isError", Value: []byte("true")}
	if result := wire.Get(r.raw, e.meta, "result"); isToolResult(r.raw, result) {
		return c.inPlace(r, result, &isError)
	}
	if m, ok := c.original(r, e); ok {
		return m, nil, nil
	}
	b := c.result(textSize([]byte(e.text)))
	addText(b, []byte(e.text))
	b.Add(isError.Key, isError.Value)
	return c.completed(b)
}

// addText adds a content array of one text block.
func addText(o *wire.Builder, text []byte) {
	o.Key("content")
	o.Raw = append(wire.AppendText(append(o.Raw, `[{"type":"text","text":`...), text), "}]"...)
}

// textSize estimates the bytes that addText appends.
func textSize(text []byte) int {
	size := len(text) + 64
	for _, b := range text {
		if b == '"' || b == '\\' || b == '\n' {
			size++
		}
	}
	return size
}

// isToolResult reports whether a value already is a result of tools/call: its content is an array of blocks, or empty with no
// members that are foreign to such a result.
func isToolResult(raw []byte, v wire.Span) bool {
	content := wire.Get(raw, v, "content")
	if !content.Present() || raw[content.From] != '[' {
		return false
	}
	blocks := 0
	for _, b := range wire.Items(raw, content) {
		if !slices.Contains([]string{"text", "image", "audio", "resource", "resource_link"}, string(wire.Get(raw, b, "type").Text(raw))) {
			return false
		}
		blocks++
	}
	if blocks > 0 {
		return true
	}
	for k := range wire.Members(raw, v) {
		if !slices.Contains([]string{"content", "structuredContent", "isError", "_meta", "resultType"}, string(k.Text(raw))) {
			return false
		}
	}
	return true
}

// inputRequired returns the result of a call in which the service asks for input (data.result_type, 2026-07-28 multi-round-trip
// requests). A modern client must have declared the capability; for a legacy client the upgrade checks that.
func (c *call) inputRequired(r *reply, e *parsed) (m wire.Message, asks bool, err error) {
	get := func(snake, camel string) wire.Span { return either(r.raw, e.data, snake, camel) }
	if !get("result_type", "resultType").Is(r.raw, "input_required") {
		return m, false, nil
	}
	requests, state := get("input_requests", "inputRequests"), get("request_state", "requestState")
	switch {
	case !isNull(requests.Of(r.raw)) && !requests.IsObject(r.raw):
		return m, true, c.unusable("data.input_requests is no object")
	case !isNull(state.Of(r.raw)) && !state.IsString(r.raw):
		return m, true, c.unusable("data.request_state is no string")
	case isNull(requests.Of(r.raw)) && isNull(state.Of(r.raw)):
		return m, true, c.unusable("it asks for input, and has neither data.input_requests nor data.request_state")
	}
	for k, q := range wire.Members(r.raw, requests) {
		method := wire.Get(r.raw, q, "method")
		if !method.IsString(r.raw) {
			return m, true, c.unusable("data.input_requests has a member " + httpcall.Printable(k.Text(r.raw)) + " without a method")
		}
		if c.ex.Client.Era != proxy.Modern {
			continue
		}
		if e := rules.MayAsk(c.ex.Client.Caps, string(method.Text(r.raw)), wire.Get(r.raw, q, "params").Of(r.raw)); e != nil {
			return m, true, e
		}
	}
	b := c.result(int(e.data.To - e.data.From))
	b.Add("resultType", []byte(`"input_required"`))
	b.Add("inputRequests", notNull(requests.Of(r.raw)))
	b.Add("requestState", notNull(state.Of(r.raw)))
	m, _, err = c.scanned(append(b.Done(), '}'))
	return m, true, err
}

// notNull returns a value, or nil for null.
func notNull(v []byte) []byte {
	if isNull(v) {
		return nil
	}
	return v
}

// unusable returns the error of a successful envelope whose data does not fit the request.
func (c *call) unusable(why string) *proxy.Error {
	return proxy.Errf(proxy.BadAnswer, "the service's answer to %s cannot be used: %s", c.step.what(), why)
}

// result begins the result of the request's response. About size bytes are expected to follow.
func (c *call) result(size int) *wire.Builder {
	return &wire.Builder{Raw: append(append(make([]byte, 0, len(c.opening)+size+resultRoom), c.opening...), '{')}
}

// completed adds the members of every modern result, and returns the response.
func (c *call) completed(b *wire.Builder) (wire.Message, *step, error) {
	b.Add("resultType", []byte(`"complete"`))
	if p := c.u.profile.Load(); p != nil {
		b.Key("_meta")
		about := wire.Builder{Raw: append(b.Raw, '{')}
		about.Add(wire.MetaPrefix+"serverInfo", p.info)
		b.Raw = about.Done()
	}
	return c.scanned(append(b.Done(), '}'))
}

// inPlace returns the response whose result is part of the service's answer, without a copy. It overwrites the rest of the answer.
// A result that has to be changed in the middle is copied. more is a further change; nil for none.
func (c *call) inPlace(r *reply, result wire.Span, more *wire.Change) (wire.Message, *step, error) {
	for _, key := range []string{"resultType", "_meta", "isError"} {
		if wire.Get(r.raw, result, key).Present() {
			return c.whole(result.Of(r.raw), more)
		}
	}
	from := int(result.From) - len(c.opening) // a head of the same length precedes the body
	copy(r.raw[from:], c.opening)
	b := &wire.Builder{Raw: bytes.TrimRight(r.raw[from:result.To-1], " \t\r\n")}
	if more != nil {
		b.Add(more.Key, more.Value)
	}
	return c.completed(b)
}

// whole returns the response with a result, raw JSON, of which it sets the members of every modern result.
func (c *call) whole(result []byte, more *wire.Change) (wire.Message, *step, error) {
	m := wire.Message{Raw: result}
	changes := []wire.Change{{Key: "resultType", Value: []byte(`"complete"`)}}
	if more != nil {
		changes = append(changes, *more)
	}
	if p := c.u.profile.Load(); p != nil {
		info := wire.Change{Key: wire.MetaPrefix + "serverInfo", Value: p.info}
		if at := wire.Get(result, m.Whole(), "_meta"); at.IsObject(result) {
			m.EditObject(at, []wire.Change{info})
		} else {
			changes = append(changes, wire.Change{Key: "_meta", Value: wire.Object([]wire.Change{info})})
		}
	}
	m.EditObject(m.Whole(), changes)
	raw := append(make([]byte, 0, len(c.opening)+m.Size()+1), c.opening...)
	return c.scanned(append(m.Append(raw), '}'))
}

// scanned reads the response.
func (c *call) scanned(raw []byte) (wire.Message, *step, error) {
	m, err := wire.Scan(raw)
	if err != nil {
		return wire.Message{}, nil, c.unusable("it makes no message")
	}
	return m, nil, nil
}

// payload returns the data of a successful envelope. With bare, an object that is no envelope is the data. Without data, the
// response is m or err.
func (c *call) payload(r *reply, bare bool) (data wire.Span, m wire.Message, err error) {
	if bare && r.status < 300 && r.body.IsObject(r.raw) && !wire.Get(r.raw, r.body, "success").Present() {
		return r.body, m, nil
	}
	e, err := r.envelope()
	if err != nil {
		return data, m, err
	}
	if !e.success {
		m, _, err = c.refusal(r, &e)
		return data, m, err
	}
	if !e.data.IsObject(r.raw) {
		return data, m, c.unusable("data is no object")
	}
	return e.data, m, nil
}

// missingEndpoint returns the error of an endpoint that the service does not have.
func (c *call) missingEndpoint(r *reply) error {
	if !r.isMissing() || r.step.verb == fasthttp.MethodPost && wire.Get(r.raw, r.body, "success").Present() { // the endpoint exists, its subject does not
		return nil
	}
	return proxy.Errf(proxy.MethodNotFound, "method %s is not offered: the service has no %s (HTTP %d)", c.m.Text(c.m.Method), c.step.what(), r.status)
}

// isMissing reports whether the status means that there is no such endpoint.
func (r *reply) isMissing() bool { return r.status == 404 || r.status == 405 || r.status == 501 }

// either returns the member in the envelope's spelling, or else in the protocol's.
func either(raw []byte, obj wire.Span, snake, camel string) wire.Span {
	if s := wire.Get(raw, obj, snake); s.Present() {
		return s
	}
	return wire.Get(raw, obj, camel)
}

// camel maps the envelope's spelling of members to the protocol's.
var camel = map[string]string{"input_schema": "inputSchema", "output_schema": "outputSchema", "mime_type": "mimeType", "uri_template": "uriTemplate"}

// protocolSpelling appends an object with the protocol's spelling of its members. It leaves out null, which frameworks write for absent
// members.
func protocolSpelling(dst, raw []byte, obj wire.Span) []byte {
	b := wire.Builder{Raw: append(dst, '{')}
	for k, v := range wire.Members(raw, obj) {
		if c, ok := camel[string(k.Text(raw))]; ok {
			if wire.Get(raw, obj, c).Present() {
				continue
			}
			b.Add(c, notNull(v.Of(raw)))
			continue
		}
		if v := notNull(v.Of(raw)); v != nil {
			b.AddRaw(k.Of(raw), v)
		}
	}
	return b.Done()
}

// items adds the list under a key of data as the member to, respelled. check returns what is wrong with an element, or "".
func (c *call) items(b *wire.Builder, to string, r *reply, data wire.Span, key string, check func(raw []byte, item wire.Span) string) error {
	list := wire.Get(r.raw, data, key)
	if !list.Present() || r.raw[list.From] != '[' {
		return c.unusable("it has no array " + key)
	}
	b.Key(to)
	b.Raw = append(b.Raw, '[')
	for i, item := range wire.Items(r.raw, list) {
		where := key + "[" + strconv.Itoa(i) + "]"
		if !item.IsObject(r.raw) {
			return c.unusable(where + " is no object")
		}
		if why := check(r.raw, item); why != "" {
			return c.unusable(where + " " + why)
		}
		if i > 0 {
			b.Raw = append(b.Raw, ',')
		}
		b.Raw = protocolSpelling(b.Raw, r.raw, item)
	}
	b.Raw = append(b.Raw, ']')
	return nil
}

// listed completes the result of a list that has its items.
func (c *call) listed(b *wire.Builder, r *reply, data wire.Span) (wire.Message, *step, error) {
	if cursor := either(r.raw, data, "next_cursor", "nextCursor"); cursor.IsString(r.raw) {
		b.Add("nextCursor", cursor.Of(r.raw))
	}
	forbidCaching(b)
	return c.completed(b)
}

// forbidCaching forbids caching the result: the envelope does not say how long it is valid, and for whom.
func forbidCaching(o *wire.Builder) {
	o.Add("ttlMs", []byte("0"))
	o.Add("cacheScope", []byte(`"private"`))
}

// tools turns a ToolsResponse (seed 000) into the result of tools/list.
func (c *call) tools(r *reply) (wire.Message, *step, error) {
	data, b, m, err := c.toolList(r)
	if b == nil {
		return m, nil, err
	}
	return c.listed(b, r, data)
}

// toolList reads a ToolsResponse and identifies the service by it. b is a result that has the tools. If it is nil, the response is m
// or err.
func (c *call) toolList(r *reply) (data wire.Span, b *wire.Builder, m wire.Message, err error) {
	if data, m, err = c.payload(r, true); err != nil || m.Kind != wire.Invalid {
		return data, nil, m, err
	}
	b = c.result(int(data.To - data.From))
	if err = c.items(b, "tools", r, data, "tools", checkTool); err != nil {
		return data, nil, m, err
	}
	c.u.identify(wire.Get(r.raw, data, "service").Text(r.raw), wire.Get(r.raw, data, "version").Text(r.raw))
	return data, b, m, nil
}

func checkTool(raw []byte, t wire.Span) string {
	name := wire.Get(raw, t, "name")
	schema := either(raw, t, "input_schema", "inputSchema")
	called := "(" + httpcall.Printable(name.Text(raw)) + ") "
	switch {
	case len(name.Text(raw)) == 0:
		return "has no name"
	case !schema.IsObject(raw):
		return called + "has no object input_schema"
	case !wire.Get(raw, schema, "type").Is(raw, "object"):
		return called + `has an input_schema whose type is not "object"`
	case !isNull(wire.Get(raw, t, "description").Of(raw)) && !wire.Get(raw, t, "description").IsString(raw):
		return called + "has a description that is no string"
	}
	return ""
}

// requireText returns a check that members are strings that are not empty.
func requireText(keys ...string) func(raw []byte, item wire.Span) string {
	return func(raw []byte, item wire.Span) string {
		for _, key := range keys {
			if len(wire.Get(raw, item, key).Text(raw)) == 0 {
				return "has no " + key
			}
		}
		return ""
	}
}
