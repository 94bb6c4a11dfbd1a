// Package generate makes code from tools: for each server a folder of scripts, of a Python or TypeScript module, of a command, of a skill, or
// whatever templates of the user's make (seed 000, WrapperTemplate and ServiceRegistry). What it makes calls the tools through the REST endpoint of
// a Dragoman, or of any service that speaks the same envelope.
//
// Names, texts and schemas come from servers and are not trusted: no text of theirs becomes code, and no name of theirs a path.
package generate

import (
	"strings"

	"github.com/goccy/go-json"

	"dragoman/internal/generate/names"
	"dragoman/internal/generate/shape"
)

// Service is a server whose tools code is generated for (seed 000, ServiceRegistry).
type Service struct {
	Name         string // lower-case letters, digits and hyphens, a letter first
	URL          string // where the generated code calls, below which /call-tool is
	Version      string
	Title        string // may be empty
	Instructions string // for models, by the server; may be empty
	// TokenVariable is the environment variable from which generated code takes a bearer token; URLVariable replaces URL at run time.
	TokenVariable, URLVariable string
	Tools                      []*Tool
}

// Tool is a tool of a server (seed 000, ToolSchema).
type Tool struct {
	Name        string
	Title       string // may be empty
	Description string // may be empty
	Input       json.RawMessage
	Output      json.RawMessage // nil if there is none
	Annotations json.RawMessage // nil if there are none

	Arguments *shape.Type // an Object, or a Map without members that are named
	Result    *shape.Type // of the structured content; nil if it has no schema
}

// Prepare completes a service: it reads the schemas of its tools, and gives the variables their default names. A tool whose schema cannot be
// read takes any arguments.
func (s *Service) Prepare() {
	name := strings.ToUpper(strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			return c
		}
		return '_'
	}, s.Name))
	if s.TokenVariable == "" {
		s.TokenVariable = "MCP_TOKEN_" + name
	}
	s.URLVariable = "MCP_URL_" + name
	s.URL = strings.TrimRight(s.URL, "/")
	for _, t := range s.Tools {
		t.Arguments = arguments(t.Input)
		if len(t.Output) > 0 {
			if r, err := shape.Read(t.Output); err == nil {
				t.Result = r
			}
		}
	}
}

// arguments returns the type of a tool's arguments. Alternatives at the top become one object: what all of them need is required.
func arguments(schema []byte) *shape.Type {
	free := &shape.Type{Kind: shape.Map, Items: &shape.Type{}}
	t, err := shape.Read(schema)
	if err != nil {
		return free
	}
	switch t.Kind {
	case shape.Object, shape.Map:
		return t
	case shape.Union:
		if all := joined(t.Options); all != nil {
			return all
		}
	}
	return free
}

// joined returns one object that allows the members of all options; nil if one is no object.
func joined(options []*shape.Type) *shape.Type {
	t := &shape.Type{Kind: shape.Object, Label: "arguments"}
	places, needed := map[string]int{}, map[string]int{}
	for _, o := range options {
		if o.Kind != shape.Object && o.Kind != shape.Map {
			return nil
		}
		for _, f := range o.Fields {
			if f.Required {
				needed[f.Name]++
			}
			if i, twice := places[f.Name]; twice {
				if other := t.Fields[i].Type; other != f.Type {
					t.Fields[i].Type = shape.Either(other, f.Type)
				}
				continue
			}
			places[f.Name] = len(t.Fields)
			t.Fields = append(t.Fields, f)
		}
		if o.Extra != nil || o.Kind == shape.Map {
			t.Extra = &shape.Type{}
		}
	}
	for i := range t.Fields {
		t.Fields[i].Required = needed[t.Fields[i].Name] == len(options)
	}
	if len(t.Fields) == 0 {
		return &shape.Type{Kind: shape.Map, Items: &shape.Type{}}
	}
	return t
}

// Summary is the first line of what a tool is said to do: of its description, else its title or name.
func (t *Tool) Summary() string {
	for _, text := range []string{t.Description, t.Title} {
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" {
				return line
			}
		}
	}
	return t.Name
}

// Files returns the file names of the tools, without extension.
func (s *Service) Files(style names.Style) []string {
	all := make([]string, len(s.Tools))
	for i, t := range s.Tools {
		all[i] = t.Name
	}
	return style.Assign(all)
}

// FieldNames returns the names of an object's fields.
func FieldNames(t *shape.Type) []string {
	all := make([]string, len(t.Fields))
	for i, f := range t.Fields {
		all[i] = f.Name
	}
	return all
}
