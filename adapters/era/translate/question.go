package translate

import (
	"crypto/rand"
	"encoding/hex"

	"dragoman/adapters/rules"
	"dragoman/proxy/wire"
)

// LegacyQuestion translates the params of a modern server's question for a legacy client of the given revision; ok is
// false if the revision cannot express it. id is the elicitationId of a question in URL mode, "" for others.
func LegacyQuestion(method string, params []byte, version string) (out []byte, id string, ok bool) {
	if len(params) == 0 {
		params = []byte("{}")
	}
	m := wire.Message{Raw: params}
	switch method {
	case "elicitation/create":
		if wire.Get(params, m.Whole(), "mode").Is(params, "url") {
			if !rules.URLMode.In(version) {
				return nil, "", false
			}
			id = newElicitationID()
			m.EditObject(m.Whole(), []wire.Change{{Key: "elicitationId", Value: wire.AppendText(nil, id)}})
			return m.Append(nil), id, true
		}
		if rules.TitledChoices.In(version) {
			return params, "", true
		}
		changes := []wire.Change{{Key: "mode"}}
		if at := wire.Get(params, m.Whole(), "requestedSchema"); at.IsObject(params) {
			schema, ok := olderSchema(at.Of(params))
			if !ok {
				return nil, "", false
			}
			changes = append(changes, wire.Change{Key: "requestedSchema", Value: schema})
		}
		m.EditObject(m.Whole(), changes)
		return m.Append(nil), "", rules.Elicitation.In(version)
	case "sampling/createMessage":
		if rules.SamplingTools.In(version) {
			return params, "", true
		}
		changes := []wire.Change{{Key: "tools"}, {Key: "toolChoice"}}
		if at := wire.Get(params, m.Whole(), "messages"); at.Present() {
			changes = append(changes, wire.Change{Key: "messages", Value: singleContents(params, at)})
		}
		m.EditObject(m.Whole(), changes)
		return m.Append(nil), "", true
	}
	return params, "", true
}

// newElicitationID returns a random UUID, version 4 (RFC 9562).
func newElicitationID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	s := hex.EncodeToString(b[:])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
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
			for i, c := range wire.Items(schema, titled) {
				if i > 0 {
					values, names = append(values, ','), append(names, ',')
				}
				value, title := wire.Get(schema, c, "const"), wire.Get(schema, c, "title")
				if !value.Present() {
					return nil, false
				}
				values = append(values, value.Of(schema)...)
				if !title.Present() {
					title = value
				}
				names = append(names, title.Of(schema)...)
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
	add := func(b []byte) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, b...)
	}
	for _, s := range wire.Items(raw, messages) {
		content := wire.Get(raw, s, "content")
		if !s.IsObject(raw) || !content.Present() || raw[content.From] != '[' {
			add(s.Of(raw))
			continue
		}
		for _, block := range wire.Items(raw, content) {
			m := wire.Message{Raw: s.Of(raw)}
			m.EditObject(m.Whole(), []wire.Change{{Key: "content", Value: block.Of(raw)}})
			add(m.Append(nil))
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
