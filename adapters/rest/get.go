package rest

import (
	"strconv"

	"dragoman/adapters/mcphttp"
	"dragoman/adapters/rest/catalog"
	"dragoman/adapters/rest/openapi"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// tools serves GET /tools: the bare ToolsResponse (seed 000), with all pages of the server's list or a part of them.
func (r *request) tools() { r.describe("tools", "", r.d.toolsResponse) }

// openapi serves GET /openapi.json.
func (r *request) openapi() { r.describe("openapi.json", mcphttp.PrefixOf(r.ctx), r.d.openapi) }

// describe answers with the document of that name, built from the current list of tools. prefix is the path under which clients see the
// listener, if the document has paths.
func (r *request) describe(name, prefix string, build func(l *catalog.List, s selection) (*document, error)) {
	s, err := selected(name, r.ctx.QueryArgs())
	s.prefix = prefix
	if err != nil {
		r.refused("tools/list", err)
		return
	}
	l, err := r.d.catalog.Listed(&r.Origin)
	if err != nil {
		r.fail(err)
		return
	}
	doc, err := r.d.documents.of(&r.Origin, documentKey{s, l.Server, l.Sum}, func() (*document, error) { return build(l, s) })
	if err != nil {
		r.fail(err)
		return
	}
	r.write(answer{status: 200, body: doc.body, tag: doc.tag, next: doc.next})
}

// toolsResponse builds the ToolsResponse.
func (d *Downstream) toolsResponse(l *catalog.List, s selection) (*document, error) {
	tools, next := l.Tools, ""
	if s.some {
		part, total := s.of(l)
		if tools = part; s.offset+len(tools) < total {
			next = s.next(s.offset + len(tools))
		}
	}
	size := 256
	for i := range tools {
		size += len(tools[i].Name) + len(tools[i].Description) + len(tools[i].InputSchema) + 64
	}
	body := wire.AppendText(append(make([]byte, 0, min(size, catalog.MaxBytes)), `{"service":`...), d.opt.Service)
	body = append(wire.AppendText(append(body, `,"version":`...), l.Version), `,"tools":[`...)
	for i := range tools {
		t := &tools[i]
		if i > 0 {
			body = append(body, ',')
		}
		body = wire.AppendText(append(body, `{"name":`...), t.Name)
		body = wire.AppendText(append(body, `,"description":`...), t.Description)
		body = append(append(append(body, `,"input_schema":`...), t.InputSchema...), '}')
		if len(body) > catalog.MaxBytes {
			return nil, proxy.Errf(proxy.ResponseTooLarge, "the server's tools take more than %d bytes in one answer; ask for /tools?offset=0 and follow its Link", catalog.MaxBytes)
		}
	}
	return &document{body: append(body, "]}"...), next: next}, nil
}

// openapi builds the OpenAPI document, and logs its omissions once.
func (d *Downstream) openapi(l *catalog.List, s selection) (*document, error) {
	notes := map[string][]string{}
	part, total := s.of(l)
	info := openapi.Info{Title: d.opt.Service, Version: l.Version, ServerURL: s.prefix + proxy.ServerPath(l.Server), Note: func(tool, what string) { notes[tool] = append(notes[tool], what) },
		Part: openapi.Part{Offset: s.offset, Total: total, Match: s.match != "", Next: s.next}}
	tools := make([]openapi.Tool, len(part))
	for i := range part {
		t := &part[i]
		tools[i] = openapi.Tool{Name: t.Name, Title: t.Title, Description: t.Description, InputSchema: t.InputSchema, OutputSchema: t.Output, Annotations: t.Annotations}
	}
	body, next, err := openapi.Build(info, tools)
	if err != nil {
		return nil, proxy.Errf(proxy.Internal, "the description of the tools cannot be made: %w", err)
	}
	for i := range part {
		name := part[i].Name
		if all := notes[name]; len(all) > 0 && d.catalog.First(l, name, "openapi") {
			d.catalog.Note("debug", "openapi.json does not show all of tool "+strconv.Quote(wire.Shown(name)), all)
		}
	}
	return &document{body: body, next: next}, nil
}

// resources serves GET /resources: all resources and resource templates.
func (r *request) resources() {
	r.lists([]list{{"resources/list", "resources"}, {"resources/templates/list", "resourceTemplates"}})
}

// prompts serves GET /prompts.
func (r *request) prompts() { r.lists([]list{{"prompts/list", "prompts"}}) }

// list is a list of MCP: the method that asks for it, and the member of the result that has its elements.
type list struct{ method, key string }

// lists answers with the elements of lists, each with all its pages as one array. The answer may be large, so it is put together in
// one piece of memory.
func (r *request) lists(all []list) {
	data := []byte{'{'}
	for i, l := range all {
		if i > 0 {
			data = append(data, ',')
		}
		data = append(wire.AppendText(data, l.key), ":["...)
		first := true
		_, err := r.Collect(l.method, func(m *wire.Message) error {
			for _, item := range wire.Items(m.Raw, wire.Get(m.Raw, m.Result, l.key)) {
				if !first {
					data = append(data, ',')
				}
				first = false
				data = append(data, item.Of(m.Raw)...)
			}
			return nil
		})
		if err != nil {
			r.fail(err)
			return
		}
		data = append(data, ']')
	}
	r.give(append(data, '}'))
}
