package reference

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-json"

	"dragoman/internal/config"
	"dragoman/internal/config/field"
)

// Schema returns a JSON Schema of the file, with which editors complete and check it. It covers tables, types and
// bounds of numbers. `dragoman config check` also checks the bounds of durations and rules about several keys.
func Schema() ([]byte, error) {
	root := table("")
	root.Schema, root.Title = "http://json-schema.org/draft-07/schema#", "Configuration of Dragoman"
	root.Properties["$schema"] = &field.Shape{Description: "The schema of this file, for editors.", Type: field.JsonTypes{"string"}}
	for _, d := range config.DescribeConfig() {
		if d.Kind == "table" {
			if at := place(root, d.Path()); at.Description == "" {
				at.Description = sentence(d.Doc)
			}
			continue
		}
		put(root, d)
	}
	text, err := json.MarshalIndentWithOption(root, "", "  ", json.DisableHTMLEscape())
	if err != nil {
		return nil, fmt.Errorf("config: schema: %w", err)
	}
	return append(text, '\n'), nil
}

// table returns the schema of a table of known keys.
func table(doc string) *field.Shape {
	return &field.Shape{Description: doc, Type: field.JsonTypes{"object"}, Properties: map[string]*field.Shape{}, Others: &field.Others{}}
}

// orNull returns a schema that also accepts null.
func orNull(s field.Shape) field.Shape {
	either := field.OrElse(s, field.Shape{Type: field.JsonTypes{"null"}})
	either.Description, either.Default = s.Description, s.Default
	for i := range either.AnyOf {
		either.AnyOf[i].Description, either.AnyOf[i].Default = "", nil
	}
	return either
}

// describe returns what an editor shows of a key.
func describe(d config.Described) string {
	text := sentence(d.Doc)
	for _, more := range [][2]string{{"Allowed: %s.", d.Bounds}, {"Only with %s.", d.Needs}, {"Variable: %s.", strings.Join(slices.DeleteFunc([]string{d.Env, d.Mcp}, isEmpty), ", ")}, {"Flag: %s.", d.Flag}} {
		if more[1] != "" {
			text += " " + fmt.Sprintf(more[0], more[1])
		}
	}
	if d.Fixed {
		text += " A change needs a restart."
	}
	return text
}

func isEmpty(text string) bool { return text == "" }

// sentence makes a sentence of text: with a capital, unless it begins with a key or a name, and a full stop.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	if first, _, _ := strings.Cut(text, " "); strings.ContainsAny(first, "._:/") && !strings.HasSuffix(first, ":") {
		return text // a key, or a name
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// put adds a key to the schema.
func put(s *field.Shape, d config.Described) {
	at, own := place(s, d.Table), d.Shape
	own.Description, own.Default = describe(d), json.RawMessage(d.Std)
	if d.Null {
		own = orNull(own)
	}
	if d.Key == config.AnyName {
		at.Others.Of = &own
		return
	}
	at.Properties[d.Key] = &own
}

// place returns the table of a path, which it makes if there is none.
func place(s *field.Shape, path []string) *field.Shape {
	here := s
	for i, name := range path {
		if name == config.AnyName {
			if here.Others.Of == nil {
				here.Others.Of = table(Tables[strings.Join(path[:i+1], ".")].Doc)
				here.Others.Of.Others.Any = path[0] == config.DependenciesKey // other keys are the user's
			}
			here = here.Others.Of
			continue
		}
		next := here.Properties[name]
		if next == nil {
			whole := strings.Join(path[:i+1], ".")
			next = table(Tables[whole].Doc)
			if pattern := Tables[whole].Names; pattern != "" {
				next.Names = &field.Shape{Pattern: pattern}
			}
			here.Properties[name] = next
		}
		here = next
	}
	return here
}
