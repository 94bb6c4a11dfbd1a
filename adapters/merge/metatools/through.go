package metatools

import (
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Through returns the policy that makes a call through call_tool or call_read_only_tool the call of the tool that it names. It must be the
// outermost policy. rules returns the rules of the endpoint that is named as proxy.Exchange.Server has it; nil: it has none.
//
// A call whose arguments do not name a tool stays as it is; the endpoint says what is wrong with it.
func Through(rules func(server string) *Rules) proxy.Policy {
	return func(next proxy.Handler) proxy.Handler {
		return func(ex *proxy.Exchange) (proxy.Replies, error) {
			if m := &ex.Msg; m.Kind == wire.Request && m.Is("tools/call") && passes(m) && rules(ex.Server).For(ex) != nil {
				through(ex)
			}
			return next(ex)
		}
	}
}

// passes reports whether a call is one through which another tool is called.
func passes(m *wire.Message) bool { return m.At(m.Name, Call) || m.At(m.Name, CallReadOnly) }

// through makes the exchange that of the tool that its arguments name. Parameters that the client has mirrored into headers are those of the
// meta-tool, which has none: whoever sends the call on makes the headers of the real one (2026-07-28 streamable HTTP, custom headers).
func through(ex *proxy.Exchange) {
	m := &ex.Msg
	named, arguments, ok := target(m)
	if !ok {
		return
	}
	by := Call
	if m.At(m.Name, CallReadOnly) {
		by = CallReadOnly
	}
	direct := *m
	direct.Edits = nil
	direct.Replace(m.Name, m.Of(named))
	direct.Replace(m.Arguments, arguments)
	if _, err := direct.Settle(nil); err != nil {
		return
	}
	ex.Msg, ex.Through, ex.Headers, ex.Mirrors = direct, by, nil, false
}

// target returns where a call names the tool, and the arguments for that. Models write arguments as the text of an object at times: it is
// taken for the object.
func target(m *wire.Message) (named wire.Span, arguments []byte, ok bool) {
	if !m.Arguments.IsObject(m.Raw) {
		return named, nil, false
	}
	named = wire.Get(m.Raw, m.Arguments, "name")
	if !named.IsString(m.Raw) || Is(named.Text(m.Raw)) {
		return named, nil, false
	}
	given := wire.Get(m.Raw, m.Arguments, "arguments")
	switch {
	case !given.Present() || string(given.Of(m.Raw)) == "null":
		return named, []byte("{}"), true
	case given.IsObject(m.Raw):
		return named, given.Of(m.Raw), true
	case given.IsString(m.Raw):
		text := given.Text(m.Raw)
		if len(text) == 0 {
			return named, []byte("{}"), true
		}
		at, err := wire.ScanValue(text)
		return named, at.Of(text), err == nil && at.IsObject(text)
	}
	return named, nil, false
}

// Wrong says what is wrong with a call through call_tool or call_read_only_tool that names no tool.
func Wrong(m *wire.Message) string {
	named := wire.Get(m.Raw, m.Arguments, "name")
	switch {
	case !m.Arguments.IsObject(m.Raw) || !named.Present():
		return `arguments must have "name", the name of the tool to call as find_tools returned it, and "arguments", an object with what that tool takes`
	case !named.IsString(m.Raw):
		return `arguments.name must be a string: the name of the tool to call, as find_tools returned it`
	case Is(named.Text(m.Raw)):
		return "call " + string(named.Text(m.Raw)) + " by itself: it cannot be called through another tool"
	}
	return `arguments.arguments must be an object with what the tool "` + wire.Shown(named.Text(m.Raw)) + `" takes; describe_tools shows its input schema`
}
