package rest

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"sync"

	"dragoman/adapters/rest/catalog"
	"dragoman/adapters/rest/mcpcall"
	"dragoman/adapters/rest/openapi"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// tools serves GET /tools: the bare ToolsResponse (seed 000), with all pages of the server's list.
func (r *request) tools() { r.describe("/tools", r.d.toolsResponse) }

// openapi serves GET /openapi.json.
func (r *request) openapi() { r.describe("/openapi.json", r.d.openapi) }

// describe answers with a document built from the current list of tools.
func (r *request) describe(path string, build func(l *catalog.List) ([]byte, error)) {
	l, err := r.d.catalog.Listed(&r.Origin)
	if err != nil {
		r.fail(err)
		return
	}
	doc, err := r.d.documents.of(path, l, build)
	if err != nil {
		r.fail(err)
		return
	}
	r.write(answer{status: 200, body: doc.body, tag: doc.tag})
}

func (d *Downstream) toolsResponse(l *catalog.List) ([]byte, error) {
	p := mcpcall.Members{}
	p.AddText("service", d.opt.Service)
	p.AddText("version", l.Version)
	list := make([]byte, 1, l.Bytes()+64)
	list[0] = '['
	for i := range l.Tools {
		t := &l.Tools[i]
		one := mcpcall.Members{}
		one.AddText("name", t.Name)
		one.AddText("description", t.Description)
		one.Add("input_schema", t.InputSchema)
		if i > 0 {
			list = append(list, ',')
		}
		list = append(append(append(list, '{'), one...), '}')
	}
	p.Add("tools", append(list, ']'))
	return p.Object(), nil
}

// openapi builds the OpenAPI document, and logs its omissions once.
func (d *Downstream) openapi(l *catalog.List) ([]byte, error) {
	notes := map[string][]string{}
	info := openapi.Info{Title: d.opt.Service, Version: l.Version, Note: func(tool, what string) { notes[tool] = append(notes[tool], what) }}
	if info.ServerURL = d.opt.Prefix; l.Server != "" {
		info.ServerURL += "/servers/" + l.Server
	}
	tools := make([]openapi.Tool, len(l.Tools))
	for i := range l.Tools {
		t := &l.Tools[i]
		tools[i] = openapi.Tool{Name: t.Name, Title: t.Title, Description: t.Description, InputSchema: t.InputSchema, OutputSchema: t.Output, Annotations: t.Annotations}
	}
	doc, err := openapi.Build(info, tools)
	if err != nil {
		return nil, proxy.Errf(proxy.Internal, "the description of the tools cannot be made: %w", err)
	}
	for i := range l.Tools {
		name := l.Tools[i].Name
		if all := notes[name]; len(all) > 0 && d.catalog.First(l, name, "openapi") {
			d.catalog.Note("debug", "openapi.json does not show all of tool "+strconv.Quote(wire.Shown(name)), all)
		}
	}
	return doc, nil
}

// resources serves GET /resources: all resources and resource templates.
func (r *request) resources() {
	p := mcpcall.Members{}
	for _, list := range []struct{ method, key string }{{"resources/list", "resources"}, {"resources/templates/list", "resourceTemplates"}} {
		all, err := r.gather(list.method, list.key)
		if err != nil {
			r.fail(err)
			return
		}
		p.Add(list.key, all)
	}
	r.give(p.Object())
}

// prompts serves GET /prompts.
func (r *request) prompts() {
	all, err := r.gather("prompts/list", "prompts")
	if err != nil {
		r.fail(err)
		return
	}
	p := mcpcall.Members{}
	p.Add("prompts", all)
	r.give(p.Object())
}

// gather merges the pages of a list into one JSON array of the elements under key.
func (r *request) gather(method, key string) ([]byte, error) {
	out := []byte{'['}
	_, err := r.Collect(method, func(m *wire.Message) {
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

// document is the answer of an endpoint for one state of a list of tools.
type document struct {
	body []byte
	tag  string // the ETag, quotes included (RFC 9110, 8.8.3)
}

// Bytes implements the values of a catalog.Sized.
func (d *document) Bytes() int { return len(d.body) }

// documentKey identifies a document. The service's name is the same for all.
type documentKey struct {
	path, server string
	list         catalog.Sum
}

const maxDocuments = 128

// documents caches documents.
type documents struct {
	mu   sync.Mutex // held while one is built, which may take seconds: concurrent requests mostly want the same one
	kept *catalog.Sized[documentKey, *document]
}

// of returns the document at a path for a list; build makes it if it is not cached.
func (c *documents) of(path string, l *catalog.List, build func(l *catalog.List) ([]byte, error)) (*document, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := documentKey{path, l.Server, l.Sum}
	if d, ok := c.kept.Get(key); ok {
		return d, nil
	}
	body, err := build(l)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	d := &document{body, `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`}
	c.kept.Put(key, d)
	return d, nil
}
