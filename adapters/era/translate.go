package era

import (
	"bytes"
	"slices"
	"strconv"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

const meta = wire.MetaPrefix

// The reserved members of _meta that say in whose name a request comes. Only Dragoman writes them.
var identityKeys = []string{meta + "protocolVersion", meta + "clientInfo", meta + "clientCapabilities", meta + "logLevel"}

// without copies an object, leaving the given members out.
func without(raw []byte, keys ...string) []byte {
	if len(raw) == 0 {
		return nil
	}
	m := wire.Message{Raw: raw}
	changes := make([]wire.Change, len(keys))
	for i, k := range keys {
		changes[i].Key = k
	}
	m.EditObject(m.Whole(), changes)
	return m.Append(nil)
}

// serverCaps maps server capabilities across the eras: tasks exist in one only, and change notices are promised only where
// they are carried across (notices).
func serverCaps(caps []byte, notices bool) []byte {
	if len(caps) == 0 {
		return []byte("{}")
	}
	out := withoutTasksExtension(without(caps, "tasks"))
	if notices {
		return out
	}
	m := wire.Message{Raw: out}
	for _, list := range []string{"tools", "prompts", "resources"} {
		if at := wire.Get(out, m.Whole(), list); at.IsObject(out) {
			m.EditObject(at, []wire.Change{{Key: "listChanged"}, {Key: "subscribe"}})
		}
	}
	return m.Append(nil)
}

// editParams edits the params of a request: members to set or drop. Missing params are made.
func editParams(m *wire.Message, changes []wire.Change) {
	if m.Params.Present() {
		m.EditObject(m.Params, changes)
		return
	}
	m.EditObject(m.Whole(), []wire.Change{{Key: "params", Value: object(changes)}})
}

// object writes an object of the members that have a value.
func object(changes []wire.Change) []byte {
	m := wire.Message{Raw: []byte("{}")}
	m.EditObject(m.Whole(), changes)
	return m.Append(nil)
}

// checkArguments makes sure that the arguments of a call are an object; absent ones count as empty.
func checkArguments(m *wire.Message) *proxy.Error {
	if m.Arguments.Present() && !m.Arguments.IsObject(m.Raw) {
		return proxy.Errf(proxy.InvalidParams, "params.arguments must be an object")
	}
	return nil
}

// fillArguments gives a tools/call without arguments empty ones, so that every server sees the same shape.
func fillArguments(m *wire.Message) []wire.Change {
	if m.Is("tools/call") && m.Params.Present() && !m.Arguments.Present() {
		return []wire.Change{{Key: "arguments", Value: []byte("{}")}}
	}
	return nil
}

// stampPlain is stampResult for a result that has none of what that looks at, with the members that it adds; false if it may have.
func stampPlain(m *wire.Message, method string, members []byte) bool {
	if members == nil || slices.Contains(cacheable, method) || m.Meta.Present() || m.ResultType.Present() || m.InputRequests.Present() ||
		m.ReqState.Present() || !m.Result.IsObject(m.Raw) {
		return false
	}
	extend(m, m.Result, members)
	return true
}

// stampResult makes a modern result of a legacy one: 2026-07-28 demands resultType, and lifetimes on the cacheable ones.
func stampResult(m *wire.Message, method string, serverInfo []byte) {
	changes := []wire.Change{{Key: "resultType", Value: []byte(`"complete"`)}, {Key: "inputRequests"}, {Key: "requestState"}}
	if slices.Contains(cacheable, method) {
		changes = append(changes, wire.Change{Key: "ttlMs", Value: []byte("0")}, wire.Change{Key: "cacheScope", Value: []byte(`"private"`)})
	}
	if serverInfo != nil {
		info := wire.Change{Key: meta + "serverInfo", Value: serverInfo}
		if m.Meta.IsObject(m.Raw) {
			m.EditObject(m.Meta, []wire.Change{info})
		} else {
			changes = append(changes, wire.Change{Key: "_meta", Value: object([]wire.Change{info})})
		}
	}
	m.EditObject(m.Result, changes)
}

// dropExecution takes the tool member that only 2025-11-25 has out of a list, and, unless tasks are driven, the tools that
// can only run as a task of that revision: nobody could call them.
func dropExecution(m *wire.Message, driven bool) {
	if !bytes.Contains(m.Of(m.Result), []byte(`"execution"`)) {
		return
	}
	editTools(m, func(raw []byte) []byte {
		all := wire.Message{Raw: raw}
		if !driven && wire.Path(raw, all.Whole(), "execution", "taskSupport").Is(raw, "required") {
			return nil
		}
		return without(raw, "execution")
	})
}

// editTools rewrites the tools of a tools/list result; f answers the new tool, or nil to leave it out.
func editTools(m *wire.Message, f func(tool []byte) []byte) {
	at := wire.Get(m.Raw, m.Result, "tools")
	if !at.Present() {
		return
	}
	out := []byte{'['}
	for _, s := range wire.Items(m.Raw, at) {
		tool := s.Of(m.Raw)
		if s.IsObject(m.Raw) {
			tool = f(tool)
		}
		if tool == nil {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, tool...)
	}
	m.Replace(at, append(out, ']'))
}

// legacyPlain is legacyResult for a result of which nothing but what the scan has found has to go; false if more may have to.
func legacyPlain(m *wire.Message, method, version string) bool {
	if method != "tools/call" || !hasLinks.has(version) || !hasAudio.has(version) || !m.Result.IsObject(m.Raw) {
		return false
	}
	if m.Structured.Present() && !(m.Structured.IsObject(m.Raw) && hasStructured.has(version)) {
		return false
	}
	var all wire.Span
	if m.Meta.IsObject(m.Raw) && m.Info.Present() {
		if members(m.Raw, m.Meta) != 1 {
			return false
		}
		all = m.Meta
	}
	return drop(m, known{"resultType", m.ResultType}, known{"inputRequests", m.InputRequests}, known{"requestState", m.ReqState}, known{"_meta", all})
}

// legacyResult makes a legacy result of a modern one, for clients that may be strict about what they do not know.
// version is the client's revision.
func legacyResult(m *wire.Message, method, version string) {
	if legacyPlain(m, method, version) {
		return
	}
	changes := []wire.Change{{Key: "resultType"}, {Key: "inputRequests"}, {Key: "requestState"}}
	if slices.Contains(cacheable, method) {
		changes = append(changes, wire.Change{Key: "ttlMs"}, wire.Change{Key: "cacheScope"})
	}
	if m.Meta.IsObject(m.Raw) && m.Info.Present() {
		if members(m.Raw, m.Meta) == 1 {
			changes = append(changes, wire.Change{Key: "_meta"})
		} else {
			m.EditObject(m.Meta, []wire.Change{{Key: meta + "serverInfo"}})
		}
	}
	switch {
	case method == "tools/call":
		changes = append(changes, olderContent(m, version)...)
	case method == "prompts/get":
		olderMessages(m, version)
	case method == "tools/list" && bytes.Contains(m.Of(m.Result), []byte(`"outputSchema"`)):
		editTools(m, func(tool []byte) []byte { return objectSchemaOnly(tool, version) })
	}
	m.EditObject(m.Result, changes)
}

func members(raw []byte, obj wire.Span) (n int) {
	for range wire.Members(raw, obj) {
		n++
	}
	return n
}

// objectSchemaOnly drops an outputSchema whose root is no object, for the same reason, and any that the revision does not
// know.
func objectSchemaOnly(tool []byte, version string) []byte {
	m := wire.Message{Raw: tool}
	schema := wire.Get(tool, m.Whole(), "outputSchema")
	if !schema.Present() || hasStructured.has(version) && wire.Get(tool, schema, "type").Is(tool, "object") {
		return tool
	}
	return without(tool, "outputSchema")
}

// modernError maps an error of a legacy server to one that a modern client may be sent (2026-07-28 basic, Error Codes).
func modernError(m *wire.Message, uri []byte) *proxy.Error {
	code := m.ErrorCode
	switch {
	case code == proxy.CodeResourceNotFound:
		e := proxy.Errf(proxy.InvalidParams, "%s", m.Text(m.ErrorText))
		e.Data = m.Of(m.ErrorData)
		if uri != nil && !wire.Get(m.Raw, m.ErrorData, "uri").Present() {
			e.Data = object([]wire.Change{{Key: "uri", Value: uri}})
			if m.ErrorData.IsObject(m.Raw) {
				data := wire.Message{Raw: m.Of(m.ErrorData)}
				data.EditObject(data.Whole(), []wire.Change{{Key: "uri", Value: uri}})
				e.Data = data.Append(nil)
			}
		}
		return e
	case code == proxy.CodeURLElicitation:
		e := proxy.Errf(proxy.MissingCapability, "%s", m.Text(m.ErrorText))
		e.Data = []byte(`{"requiredCapabilities":{"elicitation":{"url":{}}}}`)
		return e
	case code <= -32020 && code >= -32099:
		e := proxy.Errf(proxy.Translation, "%s", m.Text(m.ErrorText))
		e.Data = strconv.AppendInt([]byte(`{"code":"`+proxy.Translation.Name+`","retryable":false,"originalCode":`), int64(code), 10)
		e.Data = append(e.Data, '}')
		return e
	}
	return nil
}

// legacyError maps an error of a modern server to one that a legacy client understands.
func legacyError(m *wire.Message, method string, uri []byte) *proxy.Error {
	switch m.ErrorCode {
	case proxy.CodeInvalidParams:
		if method != "resources/read" || uri == nil || !bytes.Equal(wire.Get(m.Raw, m.ErrorData, "uri").Of(m.Raw), uri) {
			return nil
		}
		e := &proxy.Error{Fault: proxy.InvalidParams, Message: string(m.Text(m.ErrorText)), Data: m.Of(m.ErrorData)}
		e.Code = proxy.CodeResourceNotFound
		return e
	case proxy.CodeHeaderMismatch, proxy.CodeUnsupportedVersion:
		return proxy.Errf(proxy.BadAnswer, "the upstream server refused what Dragoman sent (code %d): %s", m.ErrorCode, m.Text(m.ErrorText))
	}
	return nil
}
