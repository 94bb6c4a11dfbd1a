// Package shape reads JSON Schemas as the type systems of programming languages see them: which members an object has, what its lists hold,
// which texts are allowed. What a type cannot say (ranges, patterns, conditions) is left to the server, which checks all of it.
//
// Schemas come from servers and are not trusted. References lead nowhere but into the schema itself, and a schema that is larger or deeper than
// any that people write ends in types that allow everything.
package shape

import (
	"slices"

	"github.com/goccy/go-json"
)

// Kind is a kind of types.
type Kind uint8

// The kinds.
const (
	Any Kind = iota
	Null
	Boolean
	Integer
	Number
	String
	Array  // of Items
	Map    // of text to Items
	Object // with Fields
	Enum   // one of Values
	Union  // one of Options
)

// Type is the set of values that a schema allows, as far as types can say it. Types that refer to themselves are circles of pointers; each
// circle has a type with a Label.
type Type struct {
	Kind        Kind
	Label       string // of Objects, and of other types that refer to themselves: a name made from where they are
	Title       string
	Description string
	Format      string            // of a String, as the schema has it
	Items       *Type             // of an Array or a Map
	Fields      []Field           // of an Object, in the schema's order
	Extra       *Type             // of an Object: other members, where the schema speaks of them; nil: it does not
	Values      []json.RawMessage // of an Enum, distinct, compact
	Options     []*Type           // of a Union: none of them Any, or a Union without a Label
}

// Field is a member of an object.
type Field struct {
	Name        string
	Type        *Type
	Required    bool
	Description string
	Default     json.RawMessage // nil: none
	Bounds      string          // what the schema says besides the type, such as "at least 1, at most 10"; may be empty
}

// Named returns the types below t that have a label, each once, those first that others refer to. t itself is the last, if it has one.
func (t *Type) Named() []*Type {
	var all []*Type
	seen := map[*Type]bool{}
	var walk func(t *Type)
	walk = func(t *Type) {
		if t == nil || seen[t] {
			return
		}
		seen[t] = true
		walk(t.Items)
		for _, f := range t.Fields {
			walk(f.Type)
		}
		walk(t.Extra)
		for _, o := range t.Options {
			walk(o)
		}
		if t.Label != "" {
			all = append(all, t)
		}
	}
	walk(t)
	return all
}

// Nullable returns what t allows besides null, and whether it allows null.
func (t *Type) Nullable() (*Type, bool) {
	if t.Kind != Union || t.Label != "" {
		return t, t.Kind == Null
	}
	rest := slices.DeleteFunc(slices.Clone(t.Options), func(o *Type) bool { return o.Kind == Null })
	switch {
	case len(rest) == len(t.Options):
		return t, false
	case len(rest) == 1:
		return rest[0], true
	}
	other := *t
	other.Options = rest
	return &other, true
}

// Texts returns the values of an Enum, if all are texts.
func (t *Type) Texts() ([]string, bool) {
	if t.Kind != Enum {
		return nil, false
	}
	all := make([]string, len(t.Values))
	for i, v := range t.Values {
		if json.Unmarshal(v, &all[i]) != nil || v[0] != '"' {
			return nil, false
		}
	}
	return all, true
}
