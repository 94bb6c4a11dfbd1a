package lexical

import (
	"slices"
	"strings"

	"github.com/goccy/go-json"
)

// Document holds the texts of one tool that a search looks at.
type Document struct {
	Server      string // its server, by the name under which it is found
	Name        string // what the server calls it
	Title       string
	Description string
	Parameters  []Parameter
	Outputs     []string // names of what it returns
	ServerText  string   // what is said of the server
	Categories  []string // names, the best first; see [Index.SetCategories]
}

// Parameter is a parameter of a tool, or a property of one that is an object.
type Parameter struct {
	Name, Description string
	Values            []string // the only ones that it may have, if that is so
}

// Bounds of what is read of a definition, since whoever writes one may want to fill memory.
const (
	maxDefinition = 4 << 20 // bytes of a definition; of a larger one the name counts only
	maxText       = 8 << 10 // bytes of one text
	maxProperties = 200     // parameters and outputs
	maxValues     = 50      // of one parameter
	maxDepth      = 4       // of objects in parameters
	maxModelText  = 2000    // bytes of what a model is given
)

// Parse returns the document of a tool by its definition, a JSON object. Members that are not of the type that MCP gives them are left out;
// what is no JSON object has its name only.
func Parse(server, name string, raw []byte) Document {
	d := Document{Server: server, Name: cut(name)}
	var def map[string]any
	if len(raw) > maxDefinition || json.Unmarshal(raw, &def) != nil {
		return d
	}
	d.Title, d.Description = textIn(def["title"]), textIn(def["description"])
	if d.Title == "" {
		annotations, _ := def["annotations"].(map[string]any)
		d.Title = textIn(annotations["title"])
	}
	d.properties(def["inputSchema"], 0, func(name string, schema map[string]any) {
		p := Parameter{Name: cut(name), Description: textIn(schema["description"])}
		if p.Description == "" {
			p.Description = textIn(schema["title"])
		}
		p.Values = values(schema)
		d.Parameters = append(d.Parameters, p)
	})
	d.properties(def["outputSchema"], 0, func(name string, schema map[string]any) {
		d.Outputs = append(d.Outputs, cut(name))
		if text := textIn(schema["description"]); text != "" {
			d.Outputs = append(d.Outputs, text)
		}
	})
	return d
}

// properties calls see with the properties of a schema and, as far as they are objects or arrays of them, those of theirs, in the order of
// their names.
func (d *Document) properties(schema any, depth int, see func(name string, schema map[string]any)) {
	of, _ := schema.(map[string]any)
	props, _ := of["properties"].(map[string]any)
	names := make([]string, 0, len(props))
	for name := range props {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if len(d.Parameters)+len(d.Outputs) >= maxProperties {
			return
		}
		prop, _ := props[name].(map[string]any)
		see(name, prop)
		if depth < maxDepth {
			d.properties(prop, depth+1, see)
			d.properties(prop["items"], depth+1, see)
		}
	}
}

// values returns the texts that a schema allows only.
func values(schema map[string]any) (all []string) {
	enum, _ := schema["enum"].([]any)
	if value, has := schema["const"]; has {
		enum = append(enum, value)
	}
	for _, value := range enum {
		if text := textIn(value); text != "" && len(all) < maxValues {
			all = append(all, text)
		}
	}
	return all
}

func textIn(value any) string {
	text, _ := value.(string)
	return cut(text)
}

func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText], "")
}

// Text returns what a model of meaning is given of the tool: its name in words, its title, its description and the names of its parameters.
func (d *Document) Text() string {
	var b strings.Builder
	b.WriteString(strings.Join(pieces(d.Name), " "))
	if d.Title != "" {
		b.WriteString(". " + d.Title)
	}
	if d.Description != "" {
		b.WriteString(". " + d.Description)
	}
	for i := range d.Parameters {
		if i == 0 {
			b.WriteString(". Takes ")
		} else {
			b.WriteString(", ")
		}
		b.WriteString(strings.Join(pieces(d.Parameters[i].Name), " "))
	}
	text := b.String()
	return strings.ToValidUTF8(text[:min(len(text), maxModelText)], "")
}
