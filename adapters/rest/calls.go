package rest

import (
	"net/url"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/adapters/mcphttp"
	"dragoman/adapters/rest/envelope"
	"dragoman/adapters/rest/mcpcall"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// common are the members that the body of every call may have.
var common = []string{"request_id", "input_responses", "request_state", "client_capabilities", "log_level", "server_id"}

// open reads the body of a call. It returns the members named by keys, and as params those common members that go to the server.
func (r *request) open(keys ...string) (b body, spans []wire.Span, params mcpcall.Members, err *proxy.Error) {
	if b, err = readBody(r.ctx, false); err != nil {
		return b, nil, nil, err
	}
	all, err := b.pick(append(common, keys...)...)
	if err != nil {
		return b, nil, nil, err
	}
	id, responses, state, caps, level, server := all[0], all[1], all[2], all[3], all[4], all[5]
	if !b.null(id) {
		if !id.IsString(b.raw) || !envelope.ValidRequestID(b.text(id)) {
			return b, nil, nil, wrong("request_id", "a UUID of version 4")
		}
		if r.ID = b.text(id); r.key == "" {
			r.key = r.ID
		}
	}
	if !b.null(responses) {
		if !responses.IsObject(b.raw) {
			return b, nil, nil, wrong("input_responses", "an object with the keys of input_requests")
		}
		params.Add("inputResponses", b.of(responses))
	}
	if !b.null(state) {
		if !state.IsString(b.raw) {
			return b, nil, nil, wrong("request_state", "the string that came with input_requests")
		}
		params.Add("requestState", b.of(state))
	}
	if !b.null(caps) {
		if !caps.IsObject(b.raw) {
			return b, nil, nil, wrong("client_capabilities", "an object")
		}
		r.Caps = b.of(caps)
	}
	if !b.null(level) && !level.IsString(b.raw) {
		return b, nil, nil, wrong("log_level", "a string")
	}
	if !b.null(server) {
		if !server.IsString(b.raw) {
			return b, nil, nil, wrong("server_id", "the name of a server")
		}
		r.server = b.text(server)
	}
	return b, all[len(common):], params, r.accept(b.text(level))
}

// accept decides whether the answer is a stream, and which log messages it has: those of level info and above, unless the body or
// the query gives another level.
func (r *request) accept(level string) *proxy.Error {
	if level == "" {
		level = string(r.ctx.QueryArgs().Peek("log_level"))
	}
	if r.server == "" {
		r.server = string(r.ctx.QueryArgs().Peek("server_id"))
	}
	if level != "" && !rules.ValidLevel(level) {
		return wrong("log_level", "one of debug, info, notice, warning, error, critical, alert, emergency")
	}
	if r.streams = acceptsStream(string(httpserver.FieldsOf(r.ctx).Peek("Accept"))); r.streams && level == "" {
		level = "info"
	}
	r.level = level
	return nil
}

// callTool serves POST /call-tool (seed 000, ToolRequest). The member name is accepted in place of tool. data is the unchanged
// result of tools/call: content, structuredContent and whatever else the server gave.
func (r *request) callTool() {
	b, at, params, err := r.open("tool", "name", "arguments")
	if err != nil {
		r.refused("tools/call", err)
		return
	}
	named, other, args := at[0], at[1], at[2]
	if b.null(named) {
		named, other = other, wire.Span{}
	}
	switch {
	case b.null(named):
		err = missing("tool", "name one of GET /tools")
	case !named.IsString(b.raw):
		err = wrong("tool", "a string")
	case !b.null(other) && b.text(other) != b.text(named):
		err = proxy.Errf(proxy.InvalidParams, `members "tool" and "name" differ; give one of them`)
	case b.null(args):
		err = missing("arguments", "give an object, {} for no arguments")
	case !args.IsObject(b.raw):
		err = wrong("arguments", "an object")
	}
	if err != nil {
		r.refused("tools/call", err)
		return
	}
	r.call(b.text(named), b.of(args), params, nil)
}

// callNamed serves POST /tools/{name}: the body is the arguments.
func (r *request) callNamed() {
	b, err := readBody(r.ctx, true)
	if err == nil {
		err = r.accept("")
	}
	if err != nil {
		r.refused("tools/call", err)
		return
	}
	r.call(r.pathTool(), b.of(b.all), nil, nil)
}

// pathTool returns the tool that the path names. It reads the path as it was sent, since the name of a tool may be anything.
func (r *request) pathTool() string {
	_, path := proxy.CutServer(string(httpserver.PathOf(r.ctx)))
	name := strings.TrimPrefix(path, "/tools/")
	if plain, err := url.PathUnescape(name); err == nil {
		return plain
	}
	return name
}

// call calls a tool.
func (r *request) call(name string, args []byte, params, meta mcpcall.Members) {
	r.forward("tools/call", mcpcall.ToolCall{Name: wire.AppendText(nil, name), Arguments: args}, params, meta, toolResult)
}

// readResource serves POST /read-resource.
func (r *request) readResource() {
	b, at, params, err := r.open("uri")
	switch {
	case err != nil:
	case b.null(at[0]):
		err = missing("uri", "name one of GET /resources")
	case !at[0].IsString(b.raw):
		err = wrong("uri", "a string")
	}
	if err != nil {
		r.refused("resources/read", err)
		return
	}
	params.Add("uri", b.of(at[0]))
	r.forward("resources/read", mcpcall.ToolCall{}, params, nil, plainResult)
}

// getPrompt serves POST /get-prompt.
func (r *request) getPrompt() {
	b, at, params, err := r.open("name", "arguments")
	if err == nil {
		err = b.named(at[0], at[1], "name one of GET /prompts", "an object of strings")
	}
	if err != nil {
		r.refused("prompts/get", err)
		return
	}
	params.Add("name", b.of(at[0]))
	if !b.null(at[1]) {
		params.Add("arguments", b.of(at[1]))
	}
	r.forward("prompts/get", mcpcall.ToolCall{}, params, nil, plainResult)
}

// complete serves POST /complete.
func (r *request) complete() {
	b, at, params, err := r.open("ref", "argument", "context")
	for i, key := range []string{"ref", "argument", "context"} {
		switch {
		case err != nil:
		case b.null(at[i]) && key == "context":
			continue
		case b.null(at[i]):
			err = missing(key, "give an object as completion/complete has it")
		case !at[i].IsObject(b.raw):
			err = wrong(key, "an object")
		default:
			params.Add(key, b.of(at[i]))
		}
	}
	if err != nil {
		r.refused("completion/complete", err)
		return
	}
	r.forward("completion/complete", mcpcall.ToolCall{}, params, nil, plainResult)
}

// method serves POST /mcp/{method} (seed 001, HTTP Implementation). The body is the params, a successful answer the bare result.
func (r *request) method() {
	method, _ := r.ctx.UserValue("method").(string)
	if method == "sse" { // served for GET; clients try POST first
		r.ctx.Response.Header.Set("Allow", fasthttp.MethodGet)
		mcphttp.MethodNotAllowed(r.ctx)
		return
	}
	r.bare = true
	b, err := readBody(r.ctx, true)
	if err == nil {
		err = r.accept("")
	}
	switch {
	case err != nil:
	case method == "" || strings.HasPrefix(method, "notifications/"):
		err = proxy.Errf(proxy.MethodNotFound, "no request is called %q; a path such as /mcp/tools/call names one", method)
	case rules.Removed(method):
		err = proxy.Errf(proxy.MethodNotFound, "%s belongs to sessions, and a REST caller has none", method)
	case method == "subscriptions/listen" && !r.streams:
		err = proxy.Errf(proxy.NotAcceptable, "%s lasts; send Accept: text/event-stream", method)
	}
	var params, meta mcpcall.Members
	var name string
	var args []byte
	if err == nil {
		params, meta, err = r.params(&b)
	}
	if err == nil && method == "tools/call" {
		if name, args, err = b.toolCall(); err == nil {
			params, err = b.without("name", "arguments", "_meta")
		}
	}
	switch {
	case err != nil:
		r.refused(method, err)
	case method == "tools/call":
		r.call(name, args, params, meta)
	default:
		r.forward(method, mcpcall.ToolCall{}, params, meta, plainResult)
	}
}

// toolCall returns the name and the arguments of a tools/call, which are {} if there are none.
func (b *body) toolCall() (name string, args []byte, err *proxy.Error) {
	at, err := b.pick("name", "arguments")
	if err == nil {
		err = b.named(at[0], at[1], "name one of GET /tools", "an object")
	}
	switch {
	case err != nil:
		return "", nil, err
	case b.null(at[1]):
		return b.text(at[0]), []byte("{}"), nil
	}
	return b.text(at[0]), b.of(at[1]), nil
}

// named checks the members name and arguments. fix and want are for the errors: how to find a name, and what arguments must be.
func (b *body) named(name, args wire.Span, fix, want string) *proxy.Error {
	switch {
	case b.null(name):
		return missing("name", fix)
	case !name.IsString(b.raw):
		return wrong("name", "a string")
	case !b.null(args) && !args.IsObject(b.raw):
		return wrong("arguments", want)
	}
	return nil
}

// without returns the members of the body except those named by keys.
func (b *body) without(keys ...string) (out mcpcall.Members, err *proxy.Error) {
	if _, err = b.pick(keys...); err != nil {
		return nil, err
	}
	for k, v := range wire.Members(b.raw, b.all) {
		if !slices.ContainsFunc(keys, func(key string) bool { return k.Is(b.raw, key) }) {
			out.AddRaw(b.of(k), b.of(v))
		}
	}
	return out, nil
}

// params splits a body that is the params of a request. The endpoint's own revision and name replace those in _meta.
func (r *request) params(b *body) (params, meta mcpcall.Members, err *proxy.Error) {
	at, err := b.pick("_meta")
	if err != nil {
		return nil, nil, err
	}
	if !b.null(at[0]) && !at[0].IsObject(b.raw) {
		return nil, nil, wrong("_meta", "an object")
	}
	for k, v := range wire.Members(b.raw, at[0]) {
		switch key := b.text(k); key {
		case wire.MetaPrefix + "protocolVersion", wire.MetaPrefix + "clientInfo":
		case wire.MetaPrefix + "clientCapabilities":
			if !v.IsObject(b.raw) {
				return nil, nil, wrong(key, "an object")
			}
			r.Caps = b.of(v)
		case wire.MetaPrefix + "logLevel":
			if !rules.ValidLevel(b.text(v)) {
				return nil, nil, wrong(key, "a log level")
			}
			r.level = b.text(v)
		case "progressToken":
			r.token = b.of(v)
		default:
			meta.AddRaw(b.of(k), b.of(v))
		}
	}
	params, err = b.without("_meta")
	return params, meta, err
}
