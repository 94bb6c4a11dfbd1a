package schema

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"

	"dragoman/proxy/wire"
)

const (
	maxSchema  = 256 << 10 // bytes of one schema
	maxClosure = 2_000     // types that one schema may need
	maxParts   = 50_000    // fields and names of enum values in a schema; more do not fit in maxSchema
	maxInline  = 5         // levels of messages that stand where they are used; those below stand under $defs
)

// generator makes one schema. A type that is used once stands where it is used, others stand under $defs: models read the former better,
// and the latter keeps the schema as large as the types are.
type generator struct {
	types    *Types
	input    bool
	comments bool
	root     protoreflect.FullName // the message that the whole schema describes; empty if an object is around it
	uses     map[protoreflect.FullName]int
	defs     map[protoreflect.FullName][]byte
	queue    []protoreflect.Descriptor // for defs
	parts    int
}

// room counts parts of a schema, and reports whether there is room for them.
func (g *generator) room(parts int) bool {
	g.parts += parts
	return g.parts <= maxParts
}

// schemaOf returns the schema of a message of a method: of its arguments, or of its results, which may be several. If it is too large
// with comments, it has none.
func schemaOf(md protoreflect.MessageDescriptor, types *Types, input, several bool) ([]byte, error) {
	g := &generator{types: types, input: input, comments: true}
	if err := g.survey(md); err != nil {
		return nil, err
	}
	if several {
		g.uses[md.FullName()]++
	}
	out := g.document(md, several)
	if g.parts > maxParts {
		return nil, fmt.Errorf("grpc: %s has, with the types in it, more than %d fields and enum values; fix: exclude the method", shown(md), maxParts)
	}
	if len(out) > maxSchema {
		g.comments = false
		out = g.document(md, several)
	}
	if len(out) > maxSchema {
		name, size := g.largest(md.FullName(), len(out))
		return nil, fmt.Errorf("grpc: the schema of %s has %d bytes, %d are allowed; the largest of the %d types in it is %s with %d bytes; fix: exclude methods that use this type",
			shown(md), len(out), maxSchema, len(g.uses), name, size)
	}
	return out, nil
}

// largest returns the type that needs most of a schema of the given size: one under $defs, or the root with what stands in it.
func (g *generator) largest(root protoreflect.FullName, whole int) (largest protoreflect.FullName, size int) {
	largest, size = root, whole
	for _, def := range g.defs {
		size -= len(def)
	}
	for _, name := range slices.Sorted(maps.Keys(g.defs)) {
		if n := len(g.defs[name]); n > size {
			largest, size = name, n
		}
	}
	return largest, size
}

// survey counts how often each type is used, and finds what no schema can describe.
func (g *generator) survey(root protoreflect.MessageDescriptor) error {
	g.uses = map[protoreflect.FullName]int{root.FullName(): 0}
	for todo := []protoreflect.MessageDescriptor{root}; len(todo) > 0; {
		md := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if k := wellKnown[md.FullName()]; k.schema != nil || k.scalar {
			continue
		}
		names := map[string]bool{}
		for _, fd := range g.fields(md) {
			if names[fd.JSONName()] {
				return fmt.Errorf("grpc: two fields of %s have the JSON name %s; fix: exclude methods that use it", shown(md), wire.Shown(fd.JSONName()))
			}
			names[fd.JSONName()] = true
			if fd.IsMap() {
				fd = fd.MapValue()
			}
			if ed := fd.Enum(); ed != nil {
				g.uses[ed.FullName()]++
			}
			if used := fd.Message(); used != nil {
				if _, seen := g.uses[used.FullName()]; !seen {
					todo = append(todo, used)
				}
				g.uses[used.FullName()]++
			}
		}
		if len(g.uses) > maxClosure {
			return fmt.Errorf("grpc: %s uses more than %d types; fix: exclude the method", shown(root), maxClosure)
		}
	}
	return nil
}

// fields returns the fields of a message, and then its extensions that are known.
func (g *generator) fields(md protoreflect.MessageDescriptor) []protoreflect.FieldDescriptor {
	out := make([]protoreflect.FieldDescriptor, 0, md.Fields().Len())
	for i := range md.Fields().Len() {
		out = append(out, md.Fields().Get(i))
	}
	return append(out, g.types.extensions[md.FullName()]...)
}

// document returns the schema of md, or of an object with it.
func (g *generator) document(md protoreflect.MessageDescriptor, several bool) []byte {
	g.root, g.defs, g.queue, g.parts = "", map[protoreflect.FullName][]byte{}, nil, 0
	around := func(name string, value *object) *object {
		o := (&object{}).text("type", "object").object("properties", (&object{}).object(name, value)).texts("required", []string{name})
		if g.input {
			o.no("additionalProperties")
		}
		return o
	}
	var o *object
	switch k := wellKnown[md.FullName()]; {
	case several:
		all := (&object{}).text("type", "array").note("The messages of the server, in their order").object("items", g.message(md, 0))
		o = around("messages", all)
	case k.wraps:
		o = around("value", g.message(md, 0))
	case k.schema != nil:
		o = k.schema()
	default:
		g.root = md.FullName()
		o = g.body(md, 0, g.input)
	}
	for len(g.queue) > 0 {
		next := g.queue[len(g.queue)-1]
		g.queue = g.queue[:len(g.queue)-1]
		switch d := next.(type) {
		case protoreflect.MessageDescriptor:
			g.defs[d.FullName()] = g.body(d, 0, false).json()
		case protoreflect.EnumDescriptor:
			if !g.room(d.Values().Len()) {
				continue
			}
			names, _ := enumNames(d, nil, false)
			g.defs[d.FullName()] = g.enum(d, names).json()
		}
	}
	if len(g.defs) > 0 {
		defs := &object{}
		for _, name := range slices.Sorted(maps.Keys(g.defs)) {
			defs.members = append(defs.members, member{string(name), g.defs[name]})
		}
		o.object("$defs", defs)
	}
	return o.json()
}

// reference returns a reference to a type under $defs, where it is put.
func (g *generator) reference(d protoreflect.Descriptor) *object {
	if _, there := g.defs[d.FullName()]; !there {
		g.defs[d.FullName()] = nil // in the queue
		g.queue = append(g.queue, d)
	}
	return (&object{}).text("$ref", "#/$defs/"+string(d.FullName()))
}

// message returns the schema of a value of md.
func (g *generator) message(md protoreflect.MessageDescriptor, depth int) *object {
	switch k := wellKnown[md.FullName()]; {
	case k.scalar:
		return scalar(md.Fields().ByNumber(1).Kind(), g.input)
	case k.schema != nil:
		return k.schema()
	case md.FullName() == g.root:
		return (&object{}).text("$ref", "#")
	case len(g.fields(md)) > 0 && (g.uses[md.FullName()] > 1 || depth >= maxInline):
		return g.reference(md)
	default:
		return g.body(md, depth, false)
	}
}

// body returns the schema of md itself. If nested is true, no keyword at its top combines schemas.
func (g *generator) body(md protoreflect.MessageDescriptor, depth int, nested bool) *object {
	o := (&object{}).text("type", "object")
	if depth > 0 || md.FullName() != g.root {
		g.describe(o, md)
	}
	properties, required := &object{}, []string(nil)
	for _, fd := range g.fields(md) {
		if !g.room(1) {
			break
		}
		property, needed := g.field(fd, depth)
		properties.members = append(properties.members, member{fd.JSONName(), property.json()})
		if needed {
			required = append(required, fd.JSONName())
		}
	}
	if len(properties.members) > 0 {
		o.object("properties", properties)
	}
	if len(required) > 0 {
		o.texts("required", required)
	}
	if g.input {
		o.no("additionalProperties")
	}
	addRules(o, g.oneofs(md), nested)
	return o
}

// addRules adds the rules of oneofs, each an object of one keyword.
func addRules(o *object, rules []*object, nested bool) {
	if len(rules) == 0 {
		return
	}
	all := rules[0]
	if len(rules) > 1 {
		var items [][]byte
		for _, rule := range rules {
			items = append(items, rule.json())
		}
		all = (&object{}).list("allOf", items)
	}
	if nested {
		o.yes("if").object("then", all)
		return
	}
	o.members = append(o.members, all.members...)
}

// oneofs returns a rule for each oneof of which not any members may be set.
func (g *generator) oneofs(md protoreflect.MessageDescriptor) (rules []*object) {
	for i := range md.Oneofs().Len() {
		od := md.Oneofs().Get(i)
		if od.IsSynthetic() {
			continue
		}
		must := g.input && options(od).message(validateOption).flag(oneofRequired)
		var each [][]byte
		var names []string
		for j := range od.Fields().Len() {
			name := od.Fields().Get(j).JSONName()
			names = append(names, name)
			each = append(each, (&object{}).texts("required", []string{name}).json())
		}
		switch {
		case must:
			rules = append(rules, (&object{}).list("oneOf", each))
		case len(names) == 2:
			rules = append(rules, (&object{}).object("not", (&object{}).texts("required", names)))
		case len(names) > 2:
			none := (&object{}).object("not", (&object{}).list("anyOf", each))
			rules = append(rules, (&object{}).list("oneOf", append(slices.Clone(each), none.json())))
		}
	}
	return rules
}
