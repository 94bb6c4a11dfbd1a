package translate

import (
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// LegacyQuestion translates the params of a modern server's question for a legacy client of the given revision; ok is
// false if the revision cannot express it. id is the elicitationId of a question in URL mode, "" for others.
func LegacyQuestion(method string, params []byte, version string) (out []byte, id string, ok bool) {
	if len(params) == 0 {
		params = []byte("{}")
	}
	all := wire.Whole(params)
	switch method {
	case "elicitation/create":
		if wire.Get(params, all, "mode").Is(params, "url") {
			if !rules.URLMode.In(version) {
				return nil, "", false
			}
			id = proxy.NewRequestID()
			return wire.With(params, wire.Change{Key: "elicitationId", Value: wire.AppendText(nil, id)}), id, true
		}
		if rules.TitledChoices.In(version) {
			return params, "", true
		}
		changes := []wire.Change{{Key: "mode"}}
		if at := wire.Get(params, all, "requestedSchema"); at.IsObject(params) {
			schema, ok := olderSchema(at.Of(params))
			if !ok {
				return nil, "", false
			}
			changes = append(changes, wire.Change{Key: "requestedSchema", Value: schema})
		}
		return wire.With(params, changes...), "", rules.Elicitation.In(version)
	case "sampling/createMessage":
		if rules.SamplingTools.In(version) {
			return params, "", true
		}
		changes := []wire.Change{{Key: "tools"}, {Key: "toolChoice"}}
		if at := wire.Get(params, all, "messages"); at.Present() {
			changes = append(changes, wire.Change{Key: "messages", Value: singleContents(params, at)})
		}
		return wire.With(params, changes...), "", true
	}
	return params, "", true
}

// olderSchema translates a form of 2025-11-25 to 2025-06-18: titled choices become enum and enumNames, and only booleans
// keep defaults. ok is false for a multiple choice, which 2025-06-18 does not have.
func olderSchema(schema []byte) (out []byte, ok bool) {
	m := wire.Message{Raw: schema}
	for _, p := range wire.Members(schema, wire.Get(schema, m.Whole(), "properties")) {
		if !p.IsObject(schema) {
			continue
		}
		kind := wire.Get(schema, p, "type")
		if kind.Is(schema, "array") {
			return nil, false
		}
		var changes []wire.Change
		if !kind.Is(schema, "boolean") {
			changes = append(changes, wire.Change{Key: "default"})
		}
		if titled := wire.Get(schema, p, "oneOf"); titled.Present() {
			values, names := []byte{'['}, []byte{'['}
			for _, c := range wire.Items(schema, titled) {
				value, title := wire.Get(schema, c, "const"), wire.Get(schema, c, "title")
				if !value.Present() {
					return nil, false
				}
				values = wire.AppendItem(values, value.Of(schema))
				if !title.Present() {
					title = value
				}
				names = wire.AppendItem(names, title.Of(schema))
			}
			changes = append(changes, wire.Change{Key: "oneOf"}, wire.Change{Key: "enum", Value: append(values, ']')},
				wire.Change{Key: "enumNames", Value: append(names, ']')})
		}
		m.EditObject(p, changes)
	}
	return m.Append(nil), true
}

// singleContents splits sampling messages whose content is an array, which 2025-11-25 introduced, into messages of one
// block each with the same role.
func singleContents(raw []byte, messages wire.Span) []byte {
	out := []byte{'['}
	for _, s := range wire.Items(raw, messages) {
		content := wire.Get(raw, s, "content")
		if !s.IsObject(raw) || !content.Present() || raw[content.From] != '[' {
			out = wire.AppendItem(out, s.Of(raw))
			continue
		}
		for _, block := range wire.Items(raw, content) {
			out = wire.AppendItem(out, wire.With(s.Of(raw), wire.Change{Key: "content", Value: block.Of(raw)}))
		}
	}
	return append(out, ']')
}

// ModernQuestion returns the params of a question for a modern client, without the members that only legacy revisions
// have. They are never absent: one official client cannot read absent params.
func ModernQuestion(m *wire.Message) []byte {
	if !m.Params.IsObject(m.Raw) {
		return []byte("{}")
	}
	return wire.Without(m.Of(m.Params), "_meta", "task", "elicitationId")
}

// ToolError returns the modern result of a failed tool.
func ToolError(text string) []byte {
	return append(wire.AppendText([]byte(`{"resultType":"complete","content":[{"type":"text","text":`), text), `}],"isError":true}`...)
}

// InputRequired returns an InputRequiredResult (2026-07-28 schema).
func InputRequired(requests []byte, state string, info []byte) []byte {
	changes := []wire.Change{{Key: "resultType", Value: []byte(`"input_required"`)}, {Key: "inputRequests", Value: requests},
		{Key: "requestState", Value: wire.AppendText(nil, state)}}
	if info != nil {
		changes = append(changes, wire.Change{Key: "_meta", Value: wire.Object([]wire.Change{{Key: wire.MetaPrefix + "serverInfo", Value: info}})})
	}
	return wire.Object(changes)
}
