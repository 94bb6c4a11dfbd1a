package schema

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// field returns the schema of a field, and whether the field is always there: by its rules in arguments, by protojson in results.
func (g *generator) field(fd protoreflect.FieldDescriptor, depth int) (o *object, needed bool) {
	opts := options(fd)
	behaviour := opts.numbers(behaviourOption, protowire.VarintType)
	var rules encoded
	if g.input {
		rules = fieldRules(opts)
	}
	must := rules.flag(ruleRequired)
	var zeroBroken bool
	switch {
	case fd.IsMap():
		o, zeroBroken = g.mapOf(fd, rules.message(rulesMap), depth)
	case fd.IsList():
		o, zeroBroken = g.listOf(fd, rules.message(rulesList), depth)
	default:
		o, zeroBroken = g.value(fd, rules, must && !fd.HasPresence(), depth)
	}
	if must {
		demand(o, fd)
	}
	switch {
	case fd.Cardinality() == protoreflect.Required:
		needed = true
	case g.input:
		needed = must || zeroBroken && !fd.HasPresence() || slices.Contains(behaviour, behaviourRequired)
	default:
		needed = !fd.HasPresence() && fd.ContainingOneof() == nil && !fd.IsExtension()
	}
	g.describe(o, fd)
	if v := defaultOf(fd); v != nil {
		o.set("default", v)
	}
	if slices.Contains(behaviour, behaviourOutputOnly) {
		o.yes("readOnly")
	}
	if slices.Contains(behaviour, behaviourInputOnly) {
		o.yes("writeOnly")
	}
	return o, needed
}

// value returns the schema of one value of fd, and whether its zero value breaks the rules.
func (g *generator) value(fd protoreflect.FieldDescriptor, rules encoded, withoutZero bool, depth int) (*object, bool) {
	var o *object
	switch {
	case fd.Message() != nil:
		o = g.message(fd.Message(), depth+1)
	case fd.Enum() != nil && fd.Enum().FullName() == nullValue:
		return (&object{}).text("type", "null"), false
	case fd.Enum() != nil:
		ed := fd.Enum()
		if of := rules.message(rulesEnum); len(of) == 0 && !withoutZero && g.uses[ed.FullName()] > 1 && ed.Values().Len() > 3 {
			return g.reference(ed), false
		}
		if !g.room(ed.Values().Len()) {
			return &object{}, false
		}
		names, zeroBroken := enumNames(ed, rules, withoutZero)
		return g.enum(ed, names), zeroBroken
	default:
		o = scalar(fd.Kind(), g.input)
	}
	return o, constrain(o, fd, rules)
}

// enum returns the schema of an enum with the given names. Results may have numbers that are newer than the descriptors.
func (g *generator) enum(ed protoreflect.EnumDescriptor, names []string) *object {
	o := (&object{}).text("type", "string").texts("enum", names)
	if len(names) == 0 { // rules exclude all; an enum of no values is invalid in older drafts
		o = (&object{}).object("not", &object{})
	}
	if !g.input {
		o = (&object{}).list("anyOf", [][]byte{o.json(), integer().json()})
	}
	g.describe(o, ed)
	return o
}

func (g *generator) listOf(fd protoreflect.FieldDescriptor, rules encoded, depth int) (o *object, zeroBroken bool) {
	item, _ := g.value(fd, fieldRulesOf(rules, listItems), false, depth)
	o = (&object{}).text("type", "array").object("items", item)
	if n, ok := rules.number(listMin); ok {
		o.count("minItems", n)
		zeroBroken = n > 0
	}
	if n, ok := rules.number(listMax); ok {
		o.count("maxItems", n)
	}
	if rules.flag(listUnique) {
		o.yes("uniqueItems")
	}
	return o, zeroBroken
}

func (g *generator) mapOf(fd protoreflect.FieldDescriptor, rules encoded, depth int) (o *object, zeroBroken bool) {
	value, _ := g.value(fd.MapValue(), fieldRulesOf(rules, mapValues), false, depth)
	o = (&object{}).text("type", "object")
	names := keys(fd.MapKey().Kind())
	if of := fieldRulesOf(rules, mapKeys); fd.MapKey().Kind() == protoreflect.StringKind && len(of) > 0 {
		names = &object{}
		constrain(names, fd.MapKey(), of)
	}
	if names != nil {
		o.object("propertyNames", names)
	}
	o.object("additionalProperties", value)
	if n, ok := rules.number(mapMin); ok {
		o.count("minProperties", n)
		zeroBroken = n > 0
	}
	if n, ok := rules.number(mapMax); ok {
		o.count("maxProperties", n)
	}
	return o, zeroBroken
}

// fieldRulesOf returns the rules of elements, keys or values.
func fieldRulesOf(rules encoded, number protowire.Number) encoded {
	of := rules.message(number)
	if of.flag(ruleIgnore) {
		return nil
	}
	return of
}
