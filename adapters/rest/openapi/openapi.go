// Package openapi describes the REST endpoints of a server in OpenAPI 3.1, with an operation for each of its tools, and has a page
// that shows the description offline. Descriptions and schemas come from the server and are not trusted: of the schemas the
// document has only keywords of JSON Schema 2020-12, and no references that lead out of them.
package openapi

import (
	"cmp"
	_ "embed" // base.json
	"fmt"
	"strings"
	"sync"

	"github.com/goccy/go-json"

	"dragoman/proxy/wire"
)

// base.json is the part that does not depend on the tools: paths, components, the operation of a tool (tool), the errors of every
// operation (failures; heads for HEAD), and the answer as a stream (stream). A member "$failures", "$heads" or "$stream" stands
// for these.
//
//go:embed base.json
var base []byte

// Bounds of a document. Readers, generators and browsers fail at documents much larger.
const (
	MaxTools    = 1000    // that it describes
	maxDocument = 4 << 20 // bytes; with more it ends after the tool that exceeds them
)

// Info describes the service in the document.
type Info struct {
	Title       string // of the service
	Version     string // of the service
	Description string // may be empty
	ServerURL   string // base of all paths, absolute or relative to the document's address; empty: "/"
	Part        Part   // what the document describes
	// Note receives what the document omits of a tool, in words; nil: nothing is reported.
	Note func(tool, what string)
}

// Part is the place of a document's tools in a list of the service. The zero value says that they are the list.
type Part struct {
	Offset int  // tools of the list before them
	Total  int  // tools of the list
	Match  bool // the list has only tools that match a text
	// Next returns a reference to the document of the tools from offset on; nil if there are never more.
	Next func(offset int) string
}

// Tool is one tool of the server. The schemas and annotations are raw JSON; anything but an object is left out.
type Tool struct {
	Name         string
	Title        string // may be empty
	Description  string // may be empty
	InputSchema  json.RawMessage
	OutputSchema json.RawMessage // may be nil
	Annotations  json.RawMessage // may be nil
}

// Build returns the document: the endpoints of every server, and for each tool POST /tools/{name} with the schemas of its arguments
// and of its structured result. The same input gives the same bytes. Tools whose name cannot be part of a path ("", "." and "..")
// have no operation of their own.
//
// The document describes as many of the tools as its bounds allow, from the first on. If tools of the service are missing, its info
// says which, for readers in the description and for programs in x-tools; next is the reference to those that follow, or empty.
// Build fails only if base.json is invalid.
func Build(info Info, tools []Tool) (doc []byte, next string, err error) {
	f, err := load()
	if err != nil {
		return nil, "", err
	}
	b := &builder{fixed: f, work: maxWork}
	names := f.taken()
	paths, schemas := []byte(f.inside("paths")), []byte(f.inside("components", "schemas"))
	shown := 0
	for ; shown < min(len(tools), MaxTools) && len(paths)+len(schemas) < maxDocument; shown++ {
		t := &tools[shown]
		note := func(what string) {
			if info.Note != nil {
				info.Note(t.Name, what)
			}
		}
		if t.Name == "" || t.Name == "." || t.Name == ".." {
			note("it has no operation: its name cannot stand in a path")
			continue
		}
		paths, schemas = b.tool(paths, schemas, t, names, note)
	}
	doc = make([]byte, 0, len(paths)+len(schemas)+len(f.raw))
	doc, next = info.head(append(doc, `{"openapi":"3.1.0","info":`...), shown, len(tools))
	doc = wire.AppendText(append(doc, `,"servers":[{"url":`...), cmp.Or(info.ServerURL, "/"))
	doc = append(append(append(doc, `}],"paths":{`...), paths...), `},"components":{"schemas":{`...)
	doc = append(append(doc, schemas...), '}')
	for _, kind := range []string{"responses", "parameters", "headers", "examples"} {
		doc = wire.AppendText(append(doc, ','), kind)
		doc = append(append(doc, ':'), f.get("components", kind)...)
	}
	return append(doc, "}}"...), next, nil
}

// head appends the Info Object of a document that describes the first shown of some tools.
func (info *Info) head(doc []byte, shown, tools int) (_ []byte, next string) {
	p := &info.Part
	end, total := p.Offset+shown, max(p.Total, tools)
	about, place := info.Description, []byte(nil)
	if shown < total || p.Match {
		about = strings.TrimSpace(about + "\n\n" + p.words(shown, total))
		place = fmt.Appendf(nil, `,"x-tools":{"offset":%d,"count":%d,"total":%d`, p.Offset, shown, total)
		if end < total && p.Next != nil {
			next = p.Next(end)
			place = wire.AppendText(append(place, `,"next":`...), next)
			about += " The next are in " + next + "."
		}
		place = append(place, '}')
	}
	doc = wire.AppendText(append(doc, `{"title":`...), cmp.Or(info.Title, "MCP server"))
	doc = wire.AppendText(append(doc, `,"version":`...), cmp.Or(info.Version, "0.0.0"))
	if about != "" {
		doc = wire.AppendText(append(doc, `,"description":`...), about)
	}
	return append(append(doc, place...), '}'), next
}

// words says which tools are described.
func (p *Part) words(shown, total int) string {
	of := fmt.Sprintf("the %d tools of the server", total)
	if p.Match {
		of = fmt.Sprintf("the %d tools that match", total)
	}
	if shown == 0 {
		return "This document describes none of " + of + "."
	}
	return fmt.Sprintf("This document describes tools %d to %d of %s.", p.Offset+1, p.Offset+shown, of)
}

// fixed is base.json without white space, and with "$failures", "$heads" and "$stream" replaced. It is read only.
type fixed struct {
	raw []byte

	operation                string // the members of a tool's operation
	called, result, response string // the answer of tools without a schema of their results, and its schemas
}

// load reads base.json once.
var load = sync.OnceValues(func() (*fixed, error) {
	raw, err := object(base)
	if err != nil {
		return nil, fmt.Errorf("openapi: base.json: %w", err)
	}
	f := &fixed{raw: raw}
	fill := strings.NewReplacer(`"$failures":null`, f.inside("failures"), `"$heads":null`, f.inside("heads"), `"$stream":null`, f.inside("stream"))
	f.raw = []byte(fill.Replace(string(raw)))
	f.operation, f.called = f.inside("tool"), string(f.get("components", "responses", "ToolCalled"))
	f.result, f.response = string(f.get("components", "schemas", "ToolResult")), string(f.get("components", "schemas", "CallToolResponse"))
	return f, nil
})

// builder makes one document.
type builder struct {
	*fixed
	work int // see maxWork
}

// get returns the value at a path of members.
func (f *fixed) get(keys ...string) []byte {
	return wire.Path(f.raw, wire.Whole(f.raw), keys...).Of(f.raw)
}

// inside returns the members of the object at a path.
func (f *fixed) inside(keys ...string) string {
	obj := f.get(keys...)
	return string(obj[1 : len(obj)-1])
}

// taken returns the names of the components and operations of base.json.
func (f *fixed) taken() *namer {
	n := &namer{}
	for k := range wire.Members(f.raw, wire.Path(f.raw, wire.Whole(f.raw), "components", "schemas")) {
		n.take(string(k.Text(f.raw)))
	}
	for _, path := range wire.Members(f.raw, wire.Get(f.raw, wire.Whole(f.raw), "paths")) {
		for _, op := range wire.Members(f.raw, path) {
			n.take(string(wire.Get(f.raw, op, "operationId").Text(f.raw)))
		}
	}
	return n
}
