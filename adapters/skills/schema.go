package skills

import (
	"slices"
	"strconv"
	"strings"

	"dragoman/proxy/wire"
)

// Bounds of what is read of a schema. Nobody but the server decides what a schema has in it.
const (
	maxSchema  = 256 << 10 // bytes: as many as adapters/rest/schema reads
	maxScanned = 64        // times that all its bytes are gone through for an example, and 64 KiB: some milliseconds
	maxApplied = 32        // subschemas that apply to one value
	maxWork    = 128 << 20 // bytes that are gone through for all schemas of a server: some tenths of a second
)

// reader reads a JSON Schema, within bounds. References lead to places in the same schema only.
type reader struct {
	raw  []byte
	left int  // bytes that may still be gone through
	all  *int // those that may be for all schemas of a server; nil: there are no others
}

// spend notes that bytes are gone through; false once that are too many.
func (r *reader) spend(bytes int) bool {
	r.left -= bytes
	if r.all != nil {
		if *r.all -= bytes; *r.all < 0 {
			r.left = min(r.left, -1)
		}
	}
	return r.left >= 0
}

// newReader returns a reader of a schema; ok is false if that is no JSON, or larger than maxSchema, or if nothing more of all may be gone through.
func newReader(schema []byte, all *int) (r *reader, whole wire.Span, ok bool) {
	if len(schema) > maxSchema || all != nil && *all < 0 {
		return nil, wire.Span{}, false
	}
	whole, err := wire.ScanValue(schema)
	if err != nil {
		return nil, wire.Span{}, false
	}
	r = &reader{raw: schema, left: (maxScanned+1)*len(schema) + 64<<10, all: all}
	return r, whole, r.spend(len(schema))
}

// get returns a member of an object; an absent one once the bounds are reached.
func (r *reader) get(at wire.Span, key string) wire.Span {
	if !r.spend(int(at.To-at.From) + 64) {
		return wire.Span{}
	}
	return wire.Get(r.raw, at, key)
}

func (r *reader) text(at wire.Span) string { return string(at.Text(r.raw)) }

// subschemas are the schemas that apply to one value: a schema, what it refers to, its allOf, and one of its anyOf and oneOf each.
type subschemas []wire.Span

// applied returns the schemas that apply to a value to which a schema applies.
func (r *reader) applied(at wire.Span) subschemas {
	all := subschemas{}
	next := []wire.Span{at}
	for len(next) > 0 && len(all) < maxApplied && r.left > 0 {
		at, next = next[0], next[1:]
		if slices.Contains(all, at) || !at.IsObject(r.raw) {
			continue
		}
		all = append(all, at)
		for _, key := range [...]string{"$ref", "$dynamicRef", "$recursiveRef"} {
			if to := r.refers(r.get(at, key)); to.Present() {
				next = append(next, to)
			}
		}
		for _, one := range wire.Items(r.raw, r.get(at, "allOf")) {
			if len(next) < maxApplied {
				next = append(next, one)
			}
		}
		for _, key := range [...]string{"anyOf", "oneOf"} {
			if one := r.choice(r.get(at, key)); one.Present() {
				next = append(next, one)
			}
		}
	}
	return all
}

// choice returns the first alternative that is not null, or the first.
func (r *reader) choice(list wire.Span) (first wire.Span) {
	n := 0
	for _, one := range wire.Items(r.raw, list) {
		if !first.Present() {
			first = one
		}
		if n++; n > maxApplied {
			break
		}
		if !r.get(one, "type").Is(r.raw, "null") {
			return one
		}
	}
	return first
}

// refers returns where a reference leads; absent if it is none, or leads out of the schema.
func (r *reader) refers(ref wire.Span) wire.Span {
	to, local := strings.CutPrefix(r.text(ref), "#")
	if !local {
		return wire.Span{}
	}
	at := wire.Whole(r.raw)
	if to == "" {
		return at
	}
	tokens := strings.Split(to, "/")
	if tokens[0] != "" || len(tokens) > maxApplied {
		return wire.Span{} // an anchor
	}
	for _, token := range tokens[1:] {
		token = strings.NewReplacer("~1", "/", "~0", "~", "%25", "%", "%20", " ").Replace(token)
		if at.IsObject(r.raw) {
			at = r.get(at, token)
			continue
		}
		index, err := strconv.Atoi(token)
		at = r.item(at, index)
		if err != nil {
			return wire.Span{}
		}
	}
	return at
}

// item returns an element of an array.
func (r *reader) item(at wire.Span, index int) wire.Span {
	r.spend(int(at.To - at.From))
	for i, one := range wire.Items(r.raw, at) {
		if i == index {
			return one
		}
	}
	return wire.Span{}
}

// keyword returns the first value of a keyword in the schemas.
func (r *reader) keyword(all subschemas, key string) wire.Span {
	for _, at := range all {
		if value := r.get(at, key); value.Present() {
			return value
		}
	}
	return wire.Span{}
}

// number returns the value of a keyword that is a number.
func (r *reader) number(all subschemas, key string) (n float64, ok bool) {
	for _, at := range all {
		if n, err := strconv.ParseFloat(string(r.get(at, key).Of(r.raw)), 64); err == nil {
			return n, true
		}
	}
	return 0, false
}

// count is number for a count, at most most.
func (r *reader) count(all subschemas, key string, most int) (n int, ok bool) {
	f, ok := r.number(all, key)
	return int(max(0, min(f, float64(most)))), ok
}

// types returns the types that a value may have, those of the first schema that names some.
func (r *reader) types(all subschemas) (names []string) {
	at := r.keyword(all, "type")
	if at.IsString(r.raw) {
		return []string{r.text(at)}
	}
	for _, one := range wire.Items(r.raw, at) {
		if len(names) < 7 { // JSON Schema has seven
			names = append(names, r.text(one))
		}
	}
	return names
}

// property is a member of an object that a schema describes.
type property struct {
	name     string
	schema   wire.Span
	required bool
}

// properties returns the properties that schemas describe or require, at most so many, each once.
func (r *reader) properties(all subschemas, most int) (list []property, more bool) {
	at := map[string]int{}
	for _, s := range all {
		props := r.get(s, "properties")
		r.spend(int(props.To - props.From))
		for key, value := range wire.Members(r.raw, props) {
			name := r.text(key)
			if _, known := at[name]; known {
				continue
			}
			if len(list) >= most || r.left < 0 {
				more = true
				break
			}
			at[name] = len(list)
			list = append(list, property{name: name, schema: value})
		}
	}
	for _, s := range all {
		for _, one := range wire.Items(r.raw, r.get(s, "required")) {
			name := r.text(one)
			i, known := at[name]
			switch {
			case !one.IsString(r.raw):
			case known:
				list[i].required = true
			case len(list) >= most:
				more = true
			default:
				at[name] = len(list)
				list = append(list, property{name: name, required: true})
			}
		}
	}
	return list, more
}
