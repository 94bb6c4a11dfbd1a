package rest

import (
	"dragoman/adapters/rest/openapi"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// tools serves GET /tools: the bare ToolsResponse (seed 000), all pages of the server's list.
func (r *request) tools() {
	l, err := r.listed()
	if err != nil {
		r.fail(err)
		return
	}
	p := members{}
	p.addText("service", r.d.opt.Service)
	p.addText("version", l.version)
	list := make([]byte, 1, l.size+64)
	list[0] = '['
	for i := range l.tools {
		t := &l.tools[i]
		one := members{}
		one.addText("name", t.Name)
		one.addText("description", t.Description)
		one.add("input_schema", t.InputSchema)
		if i > 0 {
			list = append(list, ',')
		}
		list = append(append(append(list, '{'), one...), '}')
	}
	p.add("tools", append(list, ']'))
	r.write(answer{status: 200, body: braced(p)})
}

// resources serves GET /resources: all resources, and the templates of more.
func (r *request) resources() {
	p := members{}
	for _, list := range []struct{ method, key string }{{"resources/list", "resources"}, {"resources/templates/list", "resourceTemplates"}} {
		all, err := r.gather(list.method, list.key)
		if err != nil {
			r.fail(err)
			return
		}
		p.add(list.key, all)
	}
	r.give(braced(p))
}

// prompts serves GET /prompts.
func (r *request) prompts() {
	all, err := r.gather("prompts/list", "prompts")
	if err != nil {
		r.fail(err)
		return
	}
	p := members{}
	p.add("prompts", all)
	r.give(braced(p))
}

// gather merges the pages of a list: a JSON array of what they have under key.
func (r *request) gather(method, key string) ([]byte, error) {
	out := []byte{'['}
	err := r.collect(method, func(m *wire.Message) {
		for _, item := range wire.Items(m.Raw, wire.Get(m.Raw, m.Result, key)) {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, item.Of(m.Raw)...)
		}
	})
	if err != nil {
		return nil, err
	}
	return append(out, ']'), nil
}

// openapi serves GET /openapi.json, made of the tools as they are now.
func (r *request) openapi() {
	l, err := r.listed()
	if err != nil {
		r.fail(err)
		return
	}
	info := openapi.Info{Title: r.d.opt.Service, Version: l.version}
	if r.server != "" {
		info.ServerURL = "/servers/" + r.server
	}
	tools := make([]openapi.Tool, len(l.tools))
	for i := range l.tools {
		t := &l.tools[i]
		tools[i] = openapi.Tool{Name: t.Name, Title: t.Title, Description: t.Description, InputSchema: t.InputSchema, OutputSchema: t.Output, Annotations: t.Annotations}
	}
	doc, err := openapi.Build(info, tools)
	if err != nil {
		r.fail(proxy.Errf(proxy.Internal, "the description of the tools cannot be made: %w", err))
		return
	}
	r.write(answer{status: 200, body: doc})
}

// braced puts members into braces.
func braced(p members) []byte {
	return append(append(append(make([]byte, 0, len(p)+2), '{'), p...), '}')
}
