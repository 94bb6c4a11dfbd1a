package shape

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/goccy/go-json"

	"dragoman/proxy/wire"
)

// compacted returns JSON without insignificant space.
func compacted(raw []byte) []byte {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return []byte("null")
	}
	return b.Bytes()
}

// combine adds allOf, anyOf and oneOf to what a schema says itself.
func (r *reader) combine(base *Type, at wire.Span, label string, depth int) *Type {
	for n, part := range wire.Items(r.raw, r.get(at, "allOf")) {
		if n < maxOptions {
			base = r.merge(base, r.read(part, label, depth+1), label)
		}
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		if some := r.get(at, key); some.Present() {
			base = r.choose(base, some, label, depth)
		}
	}
	return base
}

// choose combines what a schema says itself with its options. Options that say nothing about types, such as a choice of required members, change
// nothing.
func (r *reader) choose(base *Type, some wire.Span, label string, depth int) *Type {
	var options []*Type
	for n, one := range wire.Items(r.raw, some) {
		if n >= maxOptions {
			return base
		}
		if r.isFalse(one) {
			continue
		}
		t := r.read(one, optionLabel(label, n), depth+1)
		if t.Kind == Any && !r.open(t) {
			return base
		}
		options = append(options, t)
	}
	if base.Kind == Any {
		if len(options) == 0 {
			return base
		}
		return union(options)
	}
	if base.Kind != Object && base.Kind != Map || slices.ContainsFunc(options, func(t *Type) bool { return t.Kind != Object && t.Kind != Map }) || len(options) == 0 {
		return base
	}
	for i, t := range options {
		options[i] = r.merge(base, t, optionLabel(label, i))
	}
	return union(options)
}

func optionLabel(label string, n int) string {
	if label == "" {
		return "option " + strconv.Itoa(n+1)
	}
	return label + " option " + strconv.Itoa(n+1)
}

// open reports whether t is still being read, so that its kind is not known yet.
func (r *reader) open(t *Type) bool { return r.to[t] != nil && r.to[t].open }

// merge returns what both types allow, about: of two objects the members of both, otherwise the first that says something.
func (r *reader) merge(a, b *Type, label string) *Type {
	switch {
	case b.Kind == Any:
		return a
	case a.Kind == Any && !r.open(a):
		return b
	case a.Kind == Map && b.Kind == Object:
		a, b = b, a
	case a.Kind != Object || b.Kind != Object && b.Kind != Map:
		return a
	}
	t := &Type{Kind: Object, Label: label, Title: a.Title, Description: a.Description, Fields: slices.Clone(a.Fields), Extra: a.Extra}
	if label == "" {
		t.Label = "arguments"
	}
	if t.Extra == nil {
		if t.Extra = b.Extra; b.Kind == Map && b.Items.Kind != Any {
			t.Extra = b.Items
		}
	}
	places := make(map[string]int, len(t.Fields))
	for i, f := range t.Fields {
		places[f.Name] = i
	}
	for _, f := range b.Fields {
		if i, both := places[f.Name]; both {
			t.Fields[i] = joined(t.Fields[i], f)
			continue
		}
		t.Fields = append(t.Fields, f)
	}
	r.work -= len(t.Fields)
	return t
}

// joined returns a field that two schemas describe.
func joined(a, b Field) Field {
	a.Required = a.Required || b.Required
	if a.Type.Kind == Any {
		a.Type = b.Type
	}
	if a.Description == "" {
		a.Description = b.Description
	}
	if a.Default == nil {
		a.Default = b.Default
	}
	if a.Bounds == "" {
		a.Bounds = b.Bounds
	}
	return a
}

// union returns the type of some options; of one, that one.
func union(options []*Type) *Type {
	if len(options) == 1 {
		return options[0]
	}
	return &Type{Kind: Union, Options: options}
}

// Either returns the type of what a or b allows.
func Either(a, b *Type) *Type {
	t := union([]*Type{a, b})
	settle(t, map[*Type]bool{})
	return t
}

// settle makes the unions below t simple, once all kinds are known: nested ones become one, enums too, and one that allows everything does.
func settle(t *Type, seen map[*Type]bool) {
	if t == nil || seen[t] {
		return
	}
	seen[t] = true
	settle(t.Items, seen)
	for _, f := range t.Fields {
		settle(f.Type, seen)
	}
	settle(t.Extra, seen)
	for _, o := range t.Options {
		settle(o, seen)
	}
	if t.Kind != Union {
		return
	}
	all := flat(t)
	switch {
	case slices.ContainsFunc(all, func(o *Type) bool { return o.Kind == Any }) || len(all) == 0:
		t.Kind, t.Options = Any, nil
	case len(all) == 1 && t.Label == "":
		title, description := t.Title, t.Description
		if *t = *all[0]; t.Label != "" { // it is a copy: the label stays with one of them
			*t = Type{Kind: Union, Options: all, Title: title, Description: description}
		}
	default:
		t.Options = all
	}
}

// flat returns the options of a union without repetitions, and those of unions without a label in their place.
func flat(t *Type) (all []*Type) {
	seen := map[*Type]bool{t: true}
	var enum *Type
	plain := map[string]bool{}
	var add func(options []*Type)
	add = func(options []*Type) {
		for _, o := range options {
			switch {
			case seen[o]:
			case o.Kind == Union && o.Label == "":
				seen[o] = true
				add(o.Options)
			case o.Kind == Enum && o.Label == "" && enum != nil:
				for _, v := range o.Values {
					if !slices.ContainsFunc(enum.Values, func(other json.RawMessage) bool { return bytes.Equal(v, other) }) {
						enum.Values = append(enum.Values, v)
					}
				}
			case o.Kind == Enum && o.Label == "":
				one := *o
				one.Values = slices.Clone(o.Values)
				enum = &one
				all = append(all, enum)
			case o.Kind <= String && o.Label == "":
				if kind := strconv.Itoa(int(o.Kind)) + o.Format; !plain[kind] {
					plain[kind] = true
					all = append(all, o)
				}
			default:
				seen[o] = true
				all = append(all, o)
			}
		}
	}
	add(t.Options)
	return all
}
