// Package openapi describes the REST endpoints of a server in OpenAPI 3.1, with an operation for each of its tools, and has a page
// that shows the description offline. Descriptions and schemas come from the server and are not trusted: of the schemas the
// document has only keywords of JSON Schema 2020-12, and no references that lead out of them.
package openapi

import (
	"cmp"
	_ "embed" // base.json
	"fmt"
	"strings"

	"github.com/goccy/go-json"

	"dragoman/proxy/wire"
)

// base.json is the part that does not depend on the tools: paths, components, the operation of a tool (tool), the errors of every
// operation (failures; heads for HEAD), and the answer as a stream (stream). A member "$failures", "$heads" or "$stream" stands
// for these.
//
//go:embed base.json
var base []byte

// Info describes the service in the document.
type Info struct {
	Title       string // of the service
	Version     string // of the service
	Description string // may be empty
	ServerURL   string // base of all paths, absolute or relative to the document's address; empty: "/"

	// Note receives what the document omits of a tool, in words; nil: nothing is reported.
	Note func(tool, what string)
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
// have no operation of their own. Build fails only if base.json is invalid.
func Build(info Info, tools []Tool) ([]byte, error) {
	b, err := load()
	if err != nil {
		return nil, err
	}
	names := b.taken()
	paths, schemas := []byte(b.inside("paths")), []byte(b.inside("components", "schemas"))
	for i := range tools {
		t := &tools[i]
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
	doc := append([]byte(nil), `{"openapi":"3.1.0","info":{"title":`...)
	doc = wire.AppendText(doc, cmp.Or(info.Title, "MCP server"))
	doc = wire.AppendText(append(doc, `,"version":`...), cmp.Or(info.Version, "0.0.0"))
	if info.Description != "" {
		doc = wire.AppendText(append(doc, `,"description":`...), info.Description)
	}
	doc = wire.AppendText(append(doc, `},"servers":[{"url":`...), cmp.Or(info.ServerURL, "/"))
	doc = append(append(append(doc, `}],"paths":{`...), paths...), `},"components":{"schemas":{`...)
	doc = append(append(doc, schemas...), '}')
	for _, kind := range []string{"responses", "parameters", "headers"} {
		doc = wire.AppendText(append(doc, ','), kind)
		doc = append(append(doc, ':'), b.get("components", kind)...)
	}
	return append(doc, "}}"...), nil
}

// fixed is base.json without white space, and with "$failures", "$heads" and "$stream" replaced.
type fixed struct {
	raw  []byte
	work int // see maxWork
}

func load() (*fixed, error) {
	raw, err := object(base)
	if err != nil {
		return nil, fmt.Errorf("openapi: base.json: %w", err)
	}
	b := &fixed{raw: raw}
	fill := strings.NewReplacer(`"$failures":null`, b.inside("failures"), `"$heads":null`, b.inside("heads"), `"$stream":null`, b.inside("stream"))
	return &fixed{[]byte(fill.Replace(string(raw))), maxWork}, nil
}

// get returns the value at a path of members.
func (b *fixed) get(keys ...string) []byte {
	return wire.Path(b.raw, wire.Whole(b.raw), keys...).Of(b.raw)
}

// inside returns the members of the object at a path.
func (b *fixed) inside(keys ...string) string {
	obj := b.get(keys...)
	return string(obj[1 : len(obj)-1])
}

// taken returns the names of the components and operations of base.json.
func (b *fixed) taken() *namer {
	n := &namer{}
	for k := range wire.Members(b.raw, wire.Path(b.raw, wire.Whole(b.raw), "components", "schemas")) {
		n.take(string(k.Text(b.raw)))
	}
	for _, path := range wire.Members(b.raw, wire.Get(b.raw, wire.Whole(b.raw), "paths")) {
		for _, op := range wire.Members(b.raw, path) {
			n.take(string(wire.Get(b.raw, op, "operationId").Text(b.raw)))
		}
	}
	return n
}
