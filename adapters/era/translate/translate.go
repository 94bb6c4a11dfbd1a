package translate

import (
	"bytes"
	"strconv"

	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// identityKeys are the reserved members of _meta that identify the client. Only Dragoman writes them.
var identityKeys = []string{wire.MetaPrefix + "protocolVersion", wire.MetaPrefix + "clientInfo", wire.MetaPrefix + "clientCapabilities", wire.MetaPrefix + "logLevel"}

// ServerCaps translates server capabilities across the eras: tasks are dropped, since they exist in one era only, and so
// are change notices unless notices says that they are delivered.
func ServerCaps(caps []byte, notices bool) []byte {
	if len(caps) == 0 {
		return []byte("{}")
	}
	out := withoutTasksExtension(wire.Without(caps, "tasks"))
	if notices {
		return out
	}
	m := wire.Message{Raw: out}
	for _, list := range rules.NoticeLists {
		if at := wire.Get(out, m.Whole(), list); at.IsObject(out) {
			m.EditObject(at, []wire.Change{{Key: "listChanged"}, {Key: "subscribe"}})
		}
	}
	return m.Append(nil)
}

// CheckArguments checks that the arguments of a call are an object; absent ones count as empty.
func CheckArguments(m *wire.Message) *proxy.Error {
	if m.Arguments.Present() && !m.Arguments.IsObject(m.Raw) {
		return proxy.Errf(proxy.InvalidParams, "params.arguments must be an object")
	}
	return nil
}

// FillArguments adds empty arguments to a tools/call without any, so that every server sees the same shape.
func FillArguments(m *wire.Message) []wire.Change {
	if m.Is("tools/call") && m.Params.Present() && !m.Arguments.Present() {
		return []wire.Change{{Key: "arguments", Value: []byte("{}")}}
	}
	return nil
}

// StampPlain is the fast path of StampResult, for a result without any of the members concerned; it appends members.
// False: use StampResult.
func StampPlain(m *wire.Message, method string, members []byte) bool {
	if members == nil || rules.Cacheable(method) || m.Meta.Present() || m.ResultType.Present() || m.InputRequests.Present() ||
		m.ReqState.Present() || !m.Result.IsObject(m.Raw) {
		return false
	}
	Extend(m, m.Result, members)
	return true
}

// StampResult turns a legacy result into a modern one: 2026-07-28 requires resultType, and cache hints on cacheable
// results.
func StampResult(m *wire.Message, method string, serverInfo []byte) {
	changes := []wire.Change{{Key: "resultType", Value: []byte(`"complete"`)}, {Key: "inputRequests"}, {Key: "requestState"}}
	if rules.Cacheable(method) {
		changes = append(changes, wire.Change{Key: "ttlMs", Value: []byte("0")}, wire.Change{Key: "cacheScope", Value: []byte(`"private"`)})
	}
	if serverInfo != nil {
		info := wire.Change{Key: wire.MetaPrefix + "serverInfo", Value: serverInfo}
		if m.Meta.IsObject(m.Raw) {
			m.EditObject(m.Meta, []wire.Change{info})
		} else {
			changes = append(changes, wire.Change{Key: "_meta", Value: wire.Object([]wire.Change{info})})
		}
	}
	m.EditObject(m.Result, changes)
}

// DropExecution removes the tool member execution, which only 2025-11-25 has, from a list. Unless tasks are driven, it
// also removes tools that run only as a task of that revision, since nobody could call them.
func DropExecution(m *wire.Message, driven bool) {
	if !bytes.Contains(m.Of(m.Result), []byte(`"execution"`)) {
		return
	}
	editTools(m, func(raw []byte) []byte {
		if !driven && wire.Path(raw, wire.Whole(raw), "execution", "taskSupport").Is(raw, "required") {
			return nil
		}
		return wire.Without(raw, "execution")
	})
}

// editTools rewrites the tools of a tools/list result; f returns the new tool, or nil to remove it.
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
		if tool != nil {
			out = wire.AppendItem(out, tool)
		}
	}
	m.Replace(at, append(out, ']'))
}

// legacyPlain is the fast path of LegacyResult, for a result from which only members located by the scan must be
// dropped. False: use the slow path.
func legacyPlain(m *wire.Message, method, version string) bool {
	if method != "tools/call" || !rules.ResourceLinks.In(version) || !rules.AudioContent.In(version) || !m.Result.IsObject(m.Raw) {
		return false
	}
	if m.Structured.Present() && !(m.Structured.IsObject(m.Raw) && rules.StructuredContent.In(version)) {
		return false
	}
	var all wire.Span
	if m.Meta.IsObject(m.Raw) && m.Info.Present() {
		if wire.Count(m.Raw, m.Meta) != 1 {
			return false
		}
		all = m.Meta
	}
	return drop(m, knownMember{"resultType", m.ResultType}, knownMember{"inputRequests", m.InputRequests}, knownMember{"requestState", m.ReqState}, knownMember{"_meta", all})
}

// LegacyResult turns a modern result into a legacy one, without members that strict clients of the given revision might
// reject.
func LegacyResult(m *wire.Message, method, version string) {
	if legacyPlain(m, method, version) {
		return
	}
	changes := []wire.Change{{Key: "resultType"}, {Key: "inputRequests"}, {Key: "requestState"}}
	if rules.Cacheable(method) {
		changes = append(changes, wire.Change{Key: "ttlMs"}, wire.Change{Key: "cacheScope"})
	}
	if m.Meta.IsObject(m.Raw) && m.Info.Present() {
		if wire.Count(m.Raw, m.Meta) == 1 {
			changes = append(changes, wire.Change{Key: "_meta"})
		} else {
			m.EditObject(m.Meta, []wire.Change{{Key: wire.MetaPrefix + "serverInfo"}})
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

// objectSchemaOnly drops an outputSchema whose root is not an object, as olderContent drops such content, and any that
// the revision does not know.
func objectSchemaOnly(tool []byte, version string) []byte {
	schema := wire.Get(tool, wire.Whole(tool), "outputSchema")
	if !schema.Present() || rules.StructuredContent.In(version) && wire.Get(tool, schema, "type").Is(tool, "object") {
		return tool
	}
	return wire.Without(tool, "outputSchema")
}

// ModernError translates an error of a legacy server for a modern client (2026-07-28 basic, Error Codes); nil if it
// passes unchanged.
func ModernError(m *wire.Message, uri []byte) *proxy.Error {
	code := m.ErrorCode
	switch {
	case code == proxy.CodeResourceNotFound:
		e := proxy.NewError(proxy.InvalidParams, string(m.Text(m.ErrorText)))
		e.Data = m.Of(m.ErrorData)
		if uri != nil && !wire.Get(m.Raw, m.ErrorData, "uri").Present() {
			data := []byte("{}")
			if m.ErrorData.IsObject(m.Raw) {
				data = m.Of(m.ErrorData)
			}
			e.Data = wire.With(data, wire.Change{Key: "uri", Value: uri})
		}
		return e
	case code == proxy.CodeURLElicitation:
		e := proxy.NewError(proxy.MissingCapability, string(m.Text(m.ErrorText)))
		e.Data = []byte(`{"requiredCapabilities":{"elicitation":{"url":{}}}}`)
		return e
	case code <= -32020 && code >= -32099:
		e := proxy.NewError(proxy.Translation, string(m.Text(m.ErrorText)))
		e.Data = strconv.AppendInt([]byte(`{"code":"`+proxy.Translation.Name+`","retryable":false,"originalCode":`), int64(code), 10)
		e.Data = append(e.Data, '}')
		return e
	}
	return nil
}

// UnknownName changes "method not found" to "invalid params" for a method that the server offers (rules.Offers): it means the name, and
// over HTTP the status of the one would say that the server is none of this revision. Other errors stay.
func UnknownName(m *wire.Message, method string, caps []byte) {
	if m.ErrorCode == proxy.CodeMethodNotFound && rules.Offers(caps, method) {
		m.Replace(wire.Get(m.Raw, m.Error, "code"), strconv.AppendInt(nil, proxy.CodeInvalidParams, 10))
		m.ErrorCode = proxy.CodeInvalidParams
	}
}

// LegacyError translates an error of a modern server for a legacy client; nil if it passes unchanged.
func LegacyError(m *wire.Message, method string, uri []byte) *proxy.Error {
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

// olderContent returns the changes that make a tool result readable to a legacy client of the given revision. Structured
// content did not exist before 2025-06-18 and had to be an object before 2026-07-28: official clients otherwise reject
// the whole result (SEP-2106, Backward Compatibility). Dropped content is kept as a text block. Content blocks of later
// kinds become text.
func olderContent(m *wire.Message, version string) (changes []wire.Change) {
	structured := wire.Get(m.Raw, m.Result, "structuredContent")
	drop := structured.Present() && !(structured.IsObject(m.Raw) && rules.StructuredContent.In(version))
	if !drop && rules.ResourceLinks.In(version) && rules.AudioContent.In(version) {
		return nil // the revision supports everything
	}
	var text []byte
	if drop {
		text = wire.AppendText(nil, structured.Of(m.Raw))
	}
	present := false
	blocks := wire.Items(m.Raw, wire.Get(m.Raw, m.Result, "content"))
	var olders [][]byte
	edited := false
	for _, s := range blocks {
		present = present || drop && (bytes.Equal(wire.Get(m.Raw, s, "text").Of(m.Raw), text) ||
			structured.IsObject(m.Raw) && wire.Get(m.Raw, s, "type").Is(m.Raw, "text"))
		older := olderBlock(s.Of(m.Raw), version)
		olders, edited = append(olders, older), edited || older != nil
	}
	if drop {
		changes = append(changes, wire.Change{Key: "structuredContent"})
	}
	if !edited && (!drop || present) {
		return changes
	}
	out := []byte{'['}
	for i, s := range blocks {
		block := s.Of(m.Raw)
		if olders[i] != nil {
			block = olders[i]
		}
		out = append(append(out, block...), ',')
	}
	if drop && !present {
		out = append(append(append(out, `{"type":"text","text":`...), text...), "},"...)
	}
	out[len(out)-1] = ']'
	return append(changes, wire.Change{Key: "content", Value: out})
}

// olderMessages does the same for the messages of a prompt.
func olderMessages(m *wire.Message, version string) {
	for _, message := range wire.Items(m.Raw, wire.Get(m.Raw, m.Result, "messages")) {
		at := wire.Get(m.Raw, message, "content")
		if !at.IsObject(m.Raw) {
			continue
		}
		if block := olderBlock(at.Of(m.Raw), version); block != nil {
			m.Replace(at, block)
		}
	}
}

// olderBlock returns the text block that replaces a block unknown to the revision; nil if the revision knows it.
func olderBlock(raw []byte, version string) []byte {
	all := wire.Whole(raw)
	var out []byte
	switch kind := wire.Get(raw, all, "type"); {
	case kind.Is(raw, "resource_link") && !rules.ResourceLinks.In(version):
		out = append(bytes.Clone(wire.Get(raw, all, "name").Text(raw)), " ("...)
		out = append(append(out, wire.Get(raw, all, "uri").Text(raw)...), ')')
	case kind.Is(raw, "audio") && !rules.AudioContent.In(version):
		out = append([]byte("[audio, "), wire.Get(raw, all, "mimeType").Text(raw)...)
		out = append(out, ']')
	default:
		return nil
	}
	return wire.Object([]wire.Change{{Key: "type", Value: []byte(`"text"`)}, {Key: "text", Value: wire.AppendText(nil, out)}})
}
