package rest

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"sync"

	"dragoman/adapters/rest/openapi"
	"dragoman/proxy"
)

// document is what is made of a list of tools as a whole, and given out as long as that is the same.
type document struct {
	body []byte
	tag  string // the ETag, quotes included (RFC 9110, 8.8.3)
}

func (d *document) bytes() int { return len(d.body) }

func (d *document) answer() answer { return answer{status: 200, body: d.body, tag: d.tag} }

// documentKey is what a document is made of: the service's name is one for all.
type documentKey struct {
	path, server string
	list         [sha256.Size]byte
}

// documents keeps them.
type documents struct {
	mu   sync.Mutex // one is made at a time: it may cost seconds, and who asks meanwhile mostly wants the same
	kept *shelf[documentKey, *document]
}

// maxDocuments bounds how many are kept.
const maxDocuments = 128

// of gives the document at a path for a list, which build makes.
func (c *documents) of(path string, l *toolList, build func(l *toolList) ([]byte, error)) (*document, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := documentKey{path, l.server, l.sum}
	if d, ok := c.kept.Get(key); ok {
		return d, nil
	}
	body, err := build(l)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	d := &document{body, `"` + base64.RawURLEncoding.EncodeToString(sum[:16]) + `"`}
	c.kept.put(key, d)
	return d, nil
}

// described answers with a document made of the tools as they are now.
func (r *request) described(path string, build func(l *toolList) ([]byte, error)) {
	l, err := r.listed()
	if err != nil {
		r.fail(err)
		return
	}
	doc, err := r.d.documents.of(path, l, build)
	if err != nil {
		r.fail(err)
		return
	}
	r.write(doc.answer())
}

// tools serves GET /tools: the bare ToolsResponse (seed 000), all pages of the server's list.
func (r *request) tools() { r.described("/tools", r.d.toolsResponse) }

// openapi serves GET /openapi.json.
func (r *request) openapi() { r.described("/openapi.json", r.d.openapi) }

func (d *Downstream) toolsResponse(l *toolList) ([]byte, error) {
	p := members{}
	p.addText("service", d.opt.Service)
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
	return braced(p), nil
}

// openapi makes the description of the face, and tells once what of the tools it leaves out.
func (d *Downstream) openapi(l *toolList) ([]byte, error) {
	notes := map[string][]string{}
	info := openapi.Info{Title: d.opt.Service, Version: l.version, Note: func(tool, what string) { notes[tool] = append(notes[tool], what) }}
	if l.server != "" {
		info.ServerURL = "/servers/" + l.server
	}
	tools := make([]openapi.Tool, len(l.tools))
	for i := range l.tools {
		t := &l.tools[i]
		tools[i] = openapi.Tool{Name: t.Name, Title: t.Title, Description: t.Description, InputSchema: t.InputSchema, OutputSchema: t.Output, Annotations: t.Annotations}
	}
	doc, err := openapi.Build(info, tools)
	if err != nil {
		return nil, proxy.Errf(proxy.Internal, "the description of the tools cannot be made: %w", err)
	}
	for i := range l.tools {
		name := l.tools[i].Name
		if all := notes[name]; len(all) > 0 && d.first(l, name, "openapi") {
			d.note("debug", "openapi.json does not show all of tool "+strconv.Quote(name), all)
		}
	}
	return doc, nil
}
