package translate

import (
	"bytes"

	"dragoman/adapters/rules"
	"dragoman/proxy/wire"
)

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
