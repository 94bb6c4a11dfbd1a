// Package openapi describes the REST face of a server in OpenAPI 3.1, made of its tools as they are, and has a page that shows
// the description without the network. Descriptions and schemas come from the server and are not trusted: of the schemas only
// what JSON Schema 2020-12 knows gets into the document, and references that lead out of them do not.
package openapi

import (
	_ "embed" // base.json
	"fmt"
	"strings"

	"github.com/goccy/go-json"

	"dragoman/proxy/wire"
)

// base.json has what does not depend on the tools: paths, components, the operation of a tool (tool), what may fail in any
// operation (failures; heads for HEAD), and how an answer looks as a stream (stream). A member "$failures", "$heads" or
// "$stream" stands for these.
//
//go:embed base.json
var base []byte

// Info says what the document is about.
type Info struct {
	Title       string // of the service
	Version     string // likewise
	Description string // may be empty
	ServerURL   string // what all paths are below, absolute or relative to the document's address; empty: "/"

	// Note is told of each thing of a tool that the document does not show, for people; nil: nobody is.
	Note func(tool, what string)
}

// Tool is one tool of the server. The schemas and annotations are raw JSON; what is no JSON object is left out.
type Tool struct {
	Name         string
	Title        string // may be empty
	Description  string // may be empty
	InputSchema  json.RawMessage
	OutputSchema json.RawMessage // may be nil
	Annotations  json.RawMessage // may be nil
}

// Build makes the document: the endpoints of every server, and for each tool POST /tools/{name} with the schema of its arguments
// and, if it has one, of its structured result. The same input gives the same bytes. Tools whose name cannot stand in a path
// ("", "." and "..") have no operation of their own. Build fails only if base.json is broken.
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
	doc = wire.AppendText(doc, or(info.Title, "MCP server"))
	doc = wire.AppendText(append(doc, `,"version":`...), or(info.Version, "0.0.0"))
	if info.Description != "" {
		doc = wire.AppendText(append(doc, `,"description":`...), info.Description)
	}
	doc = wire.AppendText(append(doc, `},"servers":[{"url":`...), or(info.ServerURL, "/"))
	doc = append(append(append(doc, `}],"paths":{`...), paths...), `},"components":{"schemas":{`...)
	doc = append(append(doc, schemas...), '}')
	for _, kind := range []string{"responses", "parameters", "headers"} {
		doc = wire.AppendText(append(doc, ','), kind)
		doc = append(append(doc, ':'), b.get("components", kind)...)
	}
	return append(doc, "}}"...), nil
}

func or(s, otherwise string) string {
	if s != "" {
		return s
	}
	return otherwise
}

// fixed is base.json without its white space, and with what stands for the same things everywhere filled in.
type fixed struct {
	raw  []byte
	work int // see maxWork
}

func load() (*fixed, error) {
	raw, err := scanned(base)
	if err != nil {
		return nil, fmt.Errorf("openapi: base.json: %w", err)
	}
	b := &fixed{raw: raw}
	fill := strings.NewReplacer(`"$failures":null`, b.inside("failures"), `"$heads":null`, b.inside("heads"), `"$stream":null`, b.inside("stream"))
	return &fixed{[]byte(fill.Replace(string(raw))), maxWork}, nil
}

// get gives the value at a path of members.
func (b *fixed) get(keys ...string) []byte { return wire.Path(b.raw, whole(b.raw), keys...).Of(b.raw) }

// inside gives the members of the object there.
func (b *fixed) inside(keys ...string) string {
	obj := b.get(keys...)
	return string(obj[1 : len(obj)-1])
}

// taken gives the names that components and operations have already.
func (b *fixed) taken() *namer {
	n := &namer{}
	for k := range wire.Members(b.raw, wire.Path(b.raw, whole(b.raw), "components", "schemas")) {
		n.take(string(k.Text(b.raw)))
	}
	for _, path := range wire.Members(b.raw, wire.Get(b.raw, whole(b.raw), "paths")) {
		for _, op := range wire.Members(b.raw, path) {
			n.take(string(wire.Get(b.raw, op, "operationId").Text(b.raw)))
		}
	}
	return n
}
