package generate

import (
	"strings"

	"dragoman/internal/generate/names"
	"dragoman/internal/generate/shape"
)

// Option is an argument of a tool as an option on a command line.
type Option struct {
	Name     string // without the hyphens
	Member   string // of the arguments
	Kind     string // how its text becomes JSON: string, integer, number, boolean, json, or list: and one of the first three, for an option that may be repeated
	Value    string // what stands for the value in a help text; empty: there need be none
	Required bool

	field *shape.Field
}

var optionNames = names.Style{Join: "-", Empty: "value", Reserved: names.Set("help h")}

// Options returns the options for a tool's arguments, in their order.
func Options(t *Tool) []Option {
	all := make([]Option, len(t.Arguments.Fields))
	for i, name := range optionNames.Assign(FieldNames(t.Arguments)) {
		f := &t.Arguments.Fields[i]
		kind, value := kindOf(f.Type)
		all[i] = Option{Name: name, Member: f.Name, Kind: kind, Value: value, Required: f.Required, field: f}
	}
	return all
}

// kindOf returns how the text of an option becomes JSON, and the word for it in help texts.
func kindOf(t *shape.Type) (kind, value string) {
	t, _ = t.Nullable()
	switch t.Kind {
	case shape.String:
		return "string", "TEXT"
	case shape.Integer:
		return "integer", "N"
	case shape.Number:
		return "number", "N"
	case shape.Boolean:
		return "boolean", ""
	case shape.Enum:
		if _, texts := t.Texts(); texts {
			return "string", "TEXT"
		}
	case shape.Array:
		if item, value := kindOf(t.Items); item == "string" || item == "integer" || item == "number" {
			return "list:" + item, value
		}
	}
	return "json", "JSON"
}

// About says what the option means, and what its values are.
func (o *Option) About() string {
	var notes []string
	if o.Required {
		notes = append(notes, "required")
	}
	if strings.HasPrefix(o.Kind, "list:") {
		notes = append(notes, "may be repeated")
	}
	text := o.field.Description
	if notes = append(notes, Notes(o.field)...); len(notes) > 0 {
		text = strings.TrimSpace(text+"\n("+strings.Join(notes, "; ")) + ")"
	}
	return Plain(text)
}

// Values returns the texts that the option may have, if they are few; nil: others too.
func (o *Option) Values() []string {
	t, _ := o.field.Type.Nullable()
	if t.Kind == shape.Array {
		t = t.Items
	}
	all, _ := t.Texts()
	return all
}
