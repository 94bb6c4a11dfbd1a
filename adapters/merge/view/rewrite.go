package view

import "dragoman/proxy/wire"

// ResultURIs makes the URIs in the result at a place of a message lead to the server that has given it.
func (v *View) ResultURIs(m *wire.Message, result wire.Span, server string) {
	replace := func(at wire.Span) {
		if !at.IsString(m.Raw) {
			return
		}
		uri := string(at.Text(m.Raw))
		if public := v.PublicURI(server, uri); public != uri {
			m.Replace(at, wire.AppendText(nil, public))
		}
	}
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

// appURIs makes the references of a tool to the resources that show it lead to its server (MCP Apps, SEP-1865).
func (v *View) appURIs(m *wire.Message, server string) {
	meta := wire.Get(m.Raw, m.Whole(), "_meta")
	for _, at := range [...]wire.Span{wire.Path(m.Raw, meta, "ui", "resourceUri"), wire.Get(m.Raw, meta, "ui/resourceUri")} {
		if !at.IsString(m.Raw) {
			continue
		}
		uri := string(at.Text(m.Raw))
		if public := v.PublicURI(server, uri); public != uri {
			m.Replace(at, wire.AppendText(nil, public))
		}
	}
}
