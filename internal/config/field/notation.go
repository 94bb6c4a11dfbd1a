package field

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/goccy/go-json"
)

// Notation describes the valid values of a key. Errors, the reference and the schema are made from it.
type Notation struct {
	Kind    string // the type, in a word or two
	Bounds  string // which values of that type; "" if all
	Allowed string // what an error says to write; "" if that is Bounds
	Shape   Shape
}

// Allowed says what may be written for a field, for errors and help.
func Allowed(f Field) string {
	n := f.Notation()
	return cmp.Or(n.Allowed, n.Bounds)
}

// Shape is the part of JSON Schema that the configuration needs, in draft-07, which editors support.
type Shape struct {
	Schema      string            `json:"$schema,omitempty"`
	Title       string            `json:"title,omitempty"`
	Description string            `json:"description,omitempty"`
	Type        JsonTypes         `json:"type,omitempty"`
	Default     json.RawMessage   `json:"default,omitempty"`
	Enum        []string          `json:"enum,omitempty"`
	Pattern     string            `json:"pattern,omitempty"`
	MinLength   int               `json:"minLength,omitempty"`
	MaxLength   int               `json:"maxLength,omitempty"`
	Minimum     *int64            `json:"minimum,omitempty"`
	Maximum     *int64            `json:"maximum,omitempty"`
	AnyOf       []Shape           `json:"anyOf,omitempty"`
	Items       *Shape            `json:"items,omitempty"`
	MinItems    int               `json:"minItems,omitempty"`
	MaxItems    int               `json:"maxItems,omitempty"`
	Properties  map[string]*Shape `json:"properties,omitempty"`
	Names       *Shape            `json:"propertyNames,omitempty"`
	Others      *Others           `json:"additionalProperties,omitempty"`
}

// Others describes the keys of a table that have no fixed name.
type Others struct {
	Of  *Shape // schema of their values; nil: Any says whether they are allowed
	Any bool
}

// MarshalJSON implements json.Marshaler. Without Of it writes a boolean schema.
func (o *Others) MarshalJSON() ([]byte, error) {
	if o.Of == nil {
		return strconv.AppendBool(nil, o.Any), nil
	}
	return json.MarshalWithOption(o.Of, json.DisableHTMLEscape())
}

// JsonTypes lists JSON types, of which a value must have one.
type JsonTypes []string

// MarshalJSON implements json.Marshaler. It writes a single type as a string.
func (k JsonTypes) MarshalJSON() ([]byte, error) {
	if len(k) == 1 {
		return strconv.AppendQuote(nil, k[0]), nil
	}
	return json.Marshal([]string(k))
}

// The JSON types of values.
var (
	StringType  = JsonTypes{"string"}
	integerType = JsonTypes{"integer"}
	scalarTypes = JsonTypes{"string", "integer", "number", "boolean"}
)

// between returns the shape of an integer from least to most, or of 0 as well if zero is true.
func between(least, most int64, zero bool) Shape {
	s := Shape{Type: integerType, Minimum: &least, Maximum: &most}
	switch {
	case !zero || least <= 0:
		return s
	case least == 1:
		s.Minimum = new(int64)
		return s
	}
	return Shape{AnyOf: []Shape{s, {Type: integerType, Minimum: new(int64), Maximum: new(int64)}}}
}

// OrElse returns the shape that accepts what a or b accepts.
func OrElse(a, b Shape) Shape {
	if len(a.AnyOf) > 0 {
		return Shape{AnyOf: append(slices.Clone(a.AnyOf), b)}
	}
	return Shape{AnyOf: []Shape{a, b}}
}
