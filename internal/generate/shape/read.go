package shape

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"dragoman/proxy/wire"
)

// Bounds of what is read of a schema. What is beyond them is of the kind Any.
const (
	maxDepth   = 48
	maxWork    = 50_000 // schemas, and fields that are merged
	maxOptions = 64     // of a union
	maxValues  = 1000   // of an enum
	maxValue   = 1 << 10
)

// reader reads one schema.
type reader struct {
	raw  []byte
	work int
	refs map[string]*target
	to   map[*Type]*target // by their at
}

// target is what a reference leads to.
type target struct {
	t    Type
	at   *Type // where the type is: &t, or the type of another reference
	open bool  // it is being read
	used bool  // it has referred to itself
}

// Read returns the type of a schema, whose draft does not matter. It fails if the schema is no JSON; one that makes no sense has the type Any.
func Read(schema []byte) (*Type, error) {
	at, err := wire.ScanValue(schema)
	if err != nil {
		return nil, fmt.Errorf("the schema is no JSON: %w", err)
	}
	r := &reader{raw: schema, work: maxWork, refs: map[string]*target{}, to: map[*Type]*target{}}
	t := r.read(at, "", 0)
	settle(t, map[*Type]bool{})
	return t, nil
}

func (r *reader) get(at wire.Span, key string) wire.Span { return wire.Get(r.raw, at, key) }

func (r *reader) text(at wire.Span, key string) string {
	if s := r.get(at, key); s.IsString(r.raw) {
		return string(s.Text(r.raw))
	}
	return ""
}

// read returns the type of the schema at a place. label names it if it is an object.
func (r *reader) read(at wire.Span, label string, depth int) *Type {
	if r.work--; r.work < 0 || depth > maxDepth || !at.IsObject(r.raw) {
		return &Type{}
	}
	if ref := r.get(at, "$ref"); ref.IsString(r.raw) {
		return r.refer(at, string(ref.Text(r.raw)), label, depth)
	}
	return r.annotate(r.combine(r.own(at, label, depth), at, label, depth), at)
}

// refer returns what a reference leads to, and what stands beside it.
func (r *reader) refer(at wire.Span, ref, label string, depth int) *Type {
	t := r.resolve(ref, depth)
	for key := range wire.Members(r.raw, at) {
		switch string(key.Text(r.raw)) {
		case "type", "properties", "additionalProperties", "items", "enum", "const", "allOf", "anyOf", "oneOf":
			return r.merge(t, r.combine(r.own(at, label, depth), at, label, depth), label)
		}
	}
	return t
}

// resolve returns the type that a reference leads to, which is read once. References to anywhere else allow everything.
func (r *reader) resolve(ref string, depth int) *Type {
	if to := r.refs[ref]; to != nil {
		to.used = to.used || to.open
		return to.at
	}
	at, label, found := r.find(ref)
	if !found {
		return &Type{}
	}
	to := &target{open: true}
	to.at = &to.t
	r.refs[ref], r.to[to.at] = to, to
	t := r.read(at, label, depth+1)
	to.open = false
	if t == to.at { // it leads to itself
		return t
	}
	if !to.used {
		if to.at = t; r.to[t] == nil {
			r.to[t] = to
		}
		return t
	}
	to.t = *t
	if to.t.Label == "" {
		to.t.Label = label
	}
	return to.at
}

// find returns the place that a reference of this schema leads to, and a label for it.
func (r *reader) find(ref string) (at wire.Span, label string, found bool) {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok || len(ref) > maxValue {
		return at, "", false
	}
	if pointer, err := url.PathUnescape(pointer); err == nil {
		at = wire.Whole(r.raw)
		if pointer == "" {
			return at, "arguments", true
		}
		steps := strings.Split(pointer, "/")
		if steps[0] != "" { // an anchor
			return r.anchored(steps[0])
		}
		for _, step := range steps[1:] {
			step = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
			if i, err := strconv.Atoi(step); err == nil && !at.IsObject(r.raw) {
				at = r.item(at, i)
			} else {
				at = r.get(at, step)
			}
			label = step
		}
	}
	return at, label, at.Present()
}

// anchored returns the definition that has an anchor.
func (r *reader) anchored(name string) (wire.Span, string, bool) {
	for _, in := range []string{"$defs", "definitions"} {
		for key, value := range wire.Members(r.raw, r.get(wire.Whole(r.raw), in)) {
			if r.text(value, "$anchor") == name {
				return value, string(key.Text(r.raw)), true
			}
		}
	}
	return wire.Span{}, "", false
}

func (r *reader) item(at wire.Span, i int) wire.Span {
	for n, value := range wire.Items(r.raw, at) {
		if n == i {
			return value
		}
	}
	return wire.Span{}
}

// own returns the type that the schema's own type, values and members say; Any if they say nothing.
func (r *reader) own(at wire.Span, label string, depth int) *Type {
	if c := r.get(at, "const"); c.Present() {
		return r.enum([]wire.Span{c})
	}
	if e := r.get(at, "enum"); e.Present() {
		var values []wire.Span
		for _, v := range wire.Items(r.raw, e) {
			values = append(values, v)
		}
		return r.enum(values)
	}
	kinds := r.get(at, "type")
	if kinds.IsString(r.raw) {
		return r.kind(string(kinds.Text(r.raw)), at, label, depth)
	}
	var options []*Type
	for n, k := range wire.Items(r.raw, kinds) {
		if n < maxOptions {
			options = append(options, r.kind(string(k.Text(r.raw)), at, label, depth))
		}
	}
	switch {
	case len(options) > 0:
		return union(options)
	case r.get(at, "properties").Present() || r.get(at, "additionalProperties").Present() || r.get(at, "patternProperties").Present():
		return r.object(at, label, depth)
	case r.get(at, "items").Present() || r.get(at, "prefixItems").Present():
		return r.array(at, label, depth)
	}
	return &Type{}
}

func (r *reader) kind(name string, at wire.Span, label string, depth int) *Type {
	switch name {
	case "null":
		return &Type{Kind: Null}
	case "boolean":
		return &Type{Kind: Boolean}
	case "integer":
		return &Type{Kind: Integer}
	case "number":
		return &Type{Kind: Number}
	case "string":
		return &Type{Kind: String, Format: r.text(at, "format")}
	case "array":
		return r.array(at, label, depth)
	case "object":
		return r.object(at, label, depth)
	}
	return &Type{}
}

// enum returns the type of some values. Of too many, or too large ones, it is their kind.
func (r *reader) enum(values []wire.Span) *Type {
	t := &Type{Kind: Enum}
	seen := map[string]bool{}
	size := 0
	for _, v := range values {
		compact := compacted(v.Of(r.raw))
		if size += len(compact); compact[0] == '{' || compact[0] == '[' || size > maxValues*maxValue || len(values) > maxValues || len(compact) > maxValue {
			return &Type{}
		}
		if !seen[string(compact)] {
			seen[string(compact)] = true
			t.Values = append(t.Values, compact)
		}
	}
	if r.work -= len(values); len(t.Values) == 0 {
		return &Type{}
	}
	return t
}

func (r *reader) array(at wire.Span, label string, depth int) *Type {
	items := r.get(at, "items")
	tuple := r.get(at, "prefixItems")
	if !tuple.Present() && !items.IsObject(r.raw) { // a list of schemas, until draft 2019-09
		tuple, items = items, r.get(at, "additionalItems")
	}
	var options []*Type
	for n, one := range wire.Items(r.raw, tuple) {
		if n < maxOptions {
			options = append(options, r.read(one, label+" item "+strconv.Itoa(n+1), depth+1))
		}
	}
	if items.IsObject(r.raw) || len(options) == 0 {
		options = append(options, r.read(items, label+" item", depth+1))
	}
	return &Type{Kind: Array, Items: union(options)}
}

func (r *reader) object(at wire.Span, label string, depth int) *Type {
	t := &Type{Kind: Object, Label: label}
	if label == "" {
		t.Label = "arguments"
	}
	var required []string
	for _, name := range wire.Items(r.raw, r.get(at, "required")) {
		if name.IsString(r.raw) {
			required = append(required, string(name.Text(r.raw)))
		}
	}
	slices.Sort(required)
	seen := map[string]bool{}
	for key, value := range wire.Members(r.raw, r.get(at, "properties")) {
		name := string(key.Text(r.raw))
		if seen[name] || r.isFalse(value) {
			continue
		}
		seen[name] = true
		_, need := slices.BinarySearch(required, name)
		below := name
		if label != "" {
			below = label + " " + name
		}
		t.Fields = append(t.Fields, r.field(name, value, need, below, depth))
	}
	t.Extra = r.extra(at, label, depth)
	if len(t.Fields) == 0 {
		items := t.Extra
		if items == nil {
			items = &Type{}
		}
		return &Type{Kind: Map, Items: items}
	}
	return t
}

func (r *reader) isFalse(at wire.Span) bool { return string(at.Of(r.raw)) == "false" }

func (r *reader) field(name string, at wire.Span, required bool, label string, depth int) Field {
	t := r.read(at, label, depth+1)
	f := Field{Name: name, Type: t, Required: required, Description: r.text(at, "description"), Bounds: r.bounds(at)}
	if f.Description == "" {
		f.Description = r.text(at, "title")
	}
	if f.Description == "" {
		f.Description = t.Description
	}
	if d := r.get(at, "default"); d.Present() {
		if c := compacted(d.Of(r.raw)); len(c) <= maxValue {
			f.Default = c
		}
	}
	return f
}

// extra returns the type of members that properties does not name, where the schema speaks of them.
func (r *reader) extra(at wire.Span, label string, depth int) *Type {
	var options []*Type
	for _, value := range wire.Members(r.raw, r.get(at, "patternProperties")) {
		if len(options) < maxOptions {
			options = append(options, r.read(value, label+" value", depth+1))
		}
	}
	if more := r.get(at, "additionalProperties"); more.Present() && !r.isFalse(more) {
		options = append(options, r.read(more, label+" value", depth+1))
	}
	if len(options) == 0 {
		return nil
	}
	return union(options)
}

// boundKeys are the keywords that a field's Bounds repeat.
var boundKeys = []string{"format", "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern", "minItems", "maxItems", "uniqueItems"}

func (r *reader) bounds(at wire.Span) string {
	var all []string
	for _, key := range boundKeys {
		v := r.get(at, key)
		if v.IsString(r.raw) && v.To-v.From <= 200 {
			all = append(all, key+" "+string(v.Text(r.raw)))
		} else if text := string(v.Of(r.raw)); v.Present() && len(text) <= 40 && !strings.ContainsAny(text, "{[") {
			all = append(all, key+" "+text)
		}
	}
	return strings.Join(all, ", ")
}

// annotate gives a type that is not shared the words of its schema.
func (r *reader) annotate(t *Type, at wire.Span) *Type {
	if t.Title == "" && t.Description == "" && r.to[t] == nil {
		t.Title, t.Description = r.text(at, "title"), r.text(at, "description")
	}
	return t
}
