package view

import (
	"bytes"

	"dragoman/proxy/wire"
)

// MayHaveURIs reports whether ResultURIs may have to change a message. Most results have no such member, and are not looked into.
func MayHaveURIs(raw []byte) bool {
	for {
		at := bytes.IndexByte(raw, 'u')
		if at < 0 {
			return false
		}
		raw = raw[at+1:]
		if begins(raw, `ri"`) || begins(raw, `rceUri"`) || begins(raw, `tputTemplate"`) { // uri, resourceUri, outputTemplate
			return true
		}
	}
}

func begins(raw []byte, with string) bool {
	return len(raw) >= len(with) && string(raw[:len(with)]) == with
}

// ResultURIs makes the URIs in the result at a place of a message lead to the server that has given it.
func (v *View) ResultURIs(m *wire.Message, result wire.Span, server string) {
	if !MayHaveURIs(m.Raw) {
		return
	}
	replace := func(at wire.Span) {
		if !at.IsString(m.Raw) {
			return
		}
		uri := string(at.Text(m.Raw))
		if public := v.PublicURI(server, uri); public != uri {
			m.Replace(at, wire.AppendText(nil, public))
		}
	}
	v.appURIs(m, wire.Get(m.Raw, result, "_meta"), server)
	block := func(at wire.Span) { // a resource link, or an embedded resource
		if wire.Get(m.Raw, at, "type").Is(m.Raw, "resource_link") {
			replace(wire.Get(m.Raw, at, "uri"))
		}
		replace(wire.Path(m.Raw, at, "resource", "uri"))
	}
	for _, item := range wire.Items(m.Raw, wire.Get(m.Raw, result, "contents")) {
		replace(wire.Get(m.Raw, item, "uri"))
	}
	for _, item := range wire.Items(m.Raw, wire.Get(m.Raw, result, "content")) {
		block(item)
	}
	for _, item := range wire.Items(m.Raw, wire.Get(m.Raw, result, "messages")) {
		content := wire.Get(m.Raw, item, "content")
		if content.IsObject(m.Raw) {
			block(content)
			continue
		}
		for _, part := range wire.Items(m.Raw, content) {
			block(part)
		}
	}
}

// appPlaces returns where the _meta of a tool, or of its result, refers to a resource that shows it: as SEP-1865 has it, as its drafts
// had it, and as ChatGPT's apps do.
func appPlaces(raw []byte, meta wire.Span) (all [3]wire.Span) {
	for key, value := range wire.Members(raw, meta) {
		switch {
		case key.Is(raw, "ui"):
			all[0] = wire.Get(raw, value, "resourceUri")
		case key.Is(raw, "ui/resourceUri"):
			all[1] = value
		case key.Is(raw, "openai/outputTemplate"):
			all[2] = value
		}
	}
	return all
}

// appURIs makes the references in the _meta of a tool, or of its result, to the resources that show it lead to its server (MCP Apps).
func (v *View) appURIs(m *wire.Message, meta wire.Span, server string) {
	for _, at := range appPlaces(m.Raw, meta) {
		if !at.IsString(m.Raw) {
			continue
		}
		uri := string(at.Text(m.Raw))
		if public := v.PublicURI(server, uri); public != uri {
			m.Replace(at, wire.AppendText(nil, public))
		}
	}
}
