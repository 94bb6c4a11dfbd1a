package skills

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"dragoman/proxy/wire"
)

// Bounds of an example.
const (
	maxExample = 16 << 10 // bytes
	maxLevels  = 12       // of nested values; recursion ends there
	maxItems   = 16       // of an array
	maxMembers = 64       // of an object
	maxText    = 4 << 10  // characters that minLength can ask for
	placed     = 32       // characters of a property's name in a placeholder
)

// Example returns arguments that are valid against the JSON Schema of a tool, as far as can be told without a search: members that are
// required only, with the value of const, examples, default or enum where the schema has one, else one made from type, format,
// pattern and bounds. A text that may be anything is the name of its member between angle brackets. References within the schema are
// followed; of anyOf and oneOf the first that is not null counts, and not, if and the like do not. The result is {} for a
// schema that is no JSON, larger than 256 KiB, or too complicated, and never larger than 16 KiB.
func Example(schema []byte) []byte { return example(schema, nil) }

// example is Example within the bound of all schemas of a server; nil: there are no others.
func example(schema []byte, all *int) []byte {
	r, whole, ok := newReader(schema, all)
	if !ok {
		return []byte("{}")
	}
	m := maker{r: r}
	dst, ok := m.value(nil, r.applied(whole), "", 0, 0)
	if !ok || len(dst) > maxExample || dst[0] != '{' {
		return []byte("{}")
	}
	return dst
}

// maker makes an example. Its functions report false once a bound is reached.
type maker struct{ r *reader }

// value appends a value for schemas: nth of several that should differ, for the member of a name.
func (m *maker) value(dst []byte, all subschemas, name string, nth, depth int) (_ []byte, ok bool) {
	if depth > maxLevels || len(dst) > maxExample || m.r.left < 0 {
		return dst, false
	}
	if given := m.given(all, nth); given.Present() {
		return append(dst, given.Of(m.r.raw)...), true
	}
	switch m.kind(all) {
	case "object":
		return m.object(dst, all, depth)
	case "array":
		return m.array(dst, all, name, depth)
	case "integer", "number":
		return m.number(dst, all, nth), true
	case "boolean":
		return strconv.AppendBool(dst, nth == 0), true
	case "null":
		return append(dst, "null"...), true
	}
	return m.text(dst, all, name, nth)
}

// given returns the nth value that schemas give themselves, if it has the type that they name.
func (m *maker) given(all subschemas, nth int) wire.Span {
	r := m.r
	enum := r.keyword(all, "enum")
	allowed := func(at wire.Span) bool {
		if at.To-at.From > maxText || !m.fits(all, at) {
			return false
		}
		if !enum.Present() {
			return true
		}
		for i, one := range wire.Items(r.raw, enum) {
			if i > maxApplied {
				break
			}
			if string(one.Of(r.raw)) == string(at.Of(r.raw)) {
				return true
			}
		}
		return false
	}
	if at := r.keyword(all, "const"); at.Present() {
		return at
	}
	for i, one := range wire.Items(r.raw, r.keyword(all, "examples")) {
		if i == nth && allowed(one) {
			return one
		}
	}
	for _, key := range [...]string{"default", "example"} {
		if at := r.keyword(all, key); nth == 0 && at.Present() && allowed(at) {
			return at
		}
	}
	i := 0
	for _, one := range wire.Items(r.raw, enum) {
		if !m.fits(all, one) {
			continue
		}
		if i == nth {
			return one
		}
		if i++; i > maxItems {
			break
		}
	}
	return wire.Span{}
}

// fits reports whether a value has a type and the bounds that schemas name. An object or array is not looked into, and must be one that
// needs no look.
func (m *maker) fits(all subschemas, at wire.Span) bool {
	raw := at.Of(m.r.raw)
	kind := kindOf(raw)
	types := m.r.types(all)
	ok := len(types) == 0
	for _, t := range types {
		ok = ok || t == kind || t == "number" && kind == "integer"
	}
	switch {
	case !ok:
		return false
	case kind == "string":
		n := utf8.RuneCountInString(m.r.text(at))
		least, _ := m.r.count(all, "minLength", math.MaxInt32)
		most, has := m.r.count(all, "maxLength", math.MaxInt32)
		return n >= least && (!has || n <= most) && m.matches(all, m.r.text(at))
	case kind == "integer" || kind == "number":
		f, err := strconv.ParseFloat(string(raw), 64)
		low, high := m.bounds(all)
		return err == nil && f >= low && f <= high
	case kind == "object" || kind == "array":
		required := m.r.keyword(all, "required")
		least, _ := m.r.count(all, "minItems", math.MaxInt32)
		return wire.Count(m.r.raw, at) > 0 || kind == "array" && least == 0 || kind == "object" && !required.Present()
	}
	return true
}

// kindOf returns the JSON Schema type of a value.
func kindOf(raw []byte) string {
	switch {
	case len(raw) == 0:
		return ""
	case raw[0] == '{':
		return "object"
	case raw[0] == '[':
		return "array"
	case raw[0] == '"':
		return "string"
	case raw[0] == 't' || raw[0] == 'f':
		return "boolean"
	case raw[0] == 'n':
		return "null"
	}
	if f, err := strconv.ParseFloat(string(raw), 64); err == nil && f == math.Trunc(f) {
		return "integer"
	}
	return "number"
}

// keywordsOf tells the type of a schema that does not name it.
var keywordsOf = []struct{ key, kind string }{
	{"properties", "object"}, {"required", "object"}, {"additionalProperties", "object"}, {"minProperties", "object"}, {"items", "array"}, {"prefixItems", "array"},
	{"minItems", "array"}, {"minimum", "number"}, {"maximum", "number"}, {"exclusiveMinimum", "number"}, {"exclusiveMaximum", "number"}, {"multipleOf", "number"},
}

func (m *maker) kind(all subschemas) string {
	types := m.r.types(all)
	for _, t := range types {
		if t != "null" {
			return t
		}
	}
	if len(types) > 0 {
		return types[0]
	}
	for _, k := range keywordsOf {
		if m.r.keyword(all, k.key).Present() {
			return k.kind
		}
	}
	return "string"
}

func (m *maker) object(dst []byte, all subschemas, depth int) (_ []byte, ok bool) {
	list, _ := m.r.properties(all, maxMembers)
	least, _ := m.r.count(all, "minProperties", maxMembers)
	n := 0
	for _, p := range list {
		if p.required {
			n++
		}
	}
	dst, first := append(dst, '{'), true
	for _, p := range list {
		if !p.required {
			if n >= least {
				continue
			}
			n++
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(wire.AppendText(dst, p.name), ':')
		schema := p.schema
		if !schema.Present() {
			schema = m.r.keyword(all, "additionalProperties")
		}
		if dst, ok = m.value(dst, m.r.applied(schema), p.name, 0, depth+1); !ok {
			return dst, false
		}
	}
	for ; n < least; n++ {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		name := "key" + strconv.Itoa(n+1)
		dst = append(wire.AppendText(dst, name), ':')
		if dst, ok = m.value(dst, m.r.applied(m.r.keyword(all, "additionalProperties")), name, 0, depth+1); !ok {
			return dst, false
		}
	}
	return append(dst, '}'), true
}

func (m *maker) array(dst []byte, all subschemas, name string, depth int) (_ []byte, ok bool) {
	least, _ := m.r.count(all, "minItems", maxItems)
	most, has := m.r.count(all, "maxItems", maxItems)
	items, first := m.r.keyword(all, "items"), m.r.keyword(all, "prefixItems")
	if !first.Present() && items.Present() && m.r.raw[items.From] == '[' { // before 2020-12
		items, first = m.r.keyword(all, "additionalItems"), items
	}
	n := max(least, 1) // an empty array shows nothing
	if has {
		n = min(n, max(most, least))
	}
	dst = append(dst, '[')
	begin := len(dst)
	for i := range n {
		at := len(dst)
		if i > 0 {
			dst = append(dst, ',')
		}
		schema := m.r.item(first, i)
		if !schema.Present() {
			schema = items
		}
		if dst, ok = m.value(dst, m.r.applied(schema), name, i, depth+1); ok {
			continue
		}
		if i < least {
			return dst, false
		}
		dst = dst[:max(begin, at)] // recursion ends with an empty array
		break
	}
	return append(dst, ']'), true
}

// bounds returns the least and the greatest number that schemas allow.
func (m *maker) bounds(all subschemas) (low, high float64) {
	low, high = math.Inf(-1), math.Inf(1)
	excluded := func(s wire.Span, key string) bool { return string(m.r.get(s, key).Of(m.r.raw)) == "true" } // draft-04
	for _, s := range all {
		one := subschemas{s}
		if f, ok := m.r.number(one, "minimum"); ok {
			if excluded(s, "exclusiveMinimum") {
				f = above(f)
			}
			low = max(low, f)
		}
		if f, ok := m.r.number(one, "exclusiveMinimum"); ok {
			low = max(low, above(f))
		}
		if f, ok := m.r.number(one, "maximum"); ok {
			if excluded(s, "exclusiveMaximum") {
				f = below(f)
			}
			high = min(high, f)
		}
		if f, ok := m.r.number(one, "exclusiveMaximum"); ok {
			high = min(high, below(f))
		}
	}
	return low, high
}

func above(f float64) float64 { return math.Nextafter(f, math.Inf(1)) }
func below(f float64) float64 { return math.Nextafter(f, math.Inf(-1)) }

// number appends the nth of the numbers that schemas allow: those from the unit, or the least above it, to the greatest, then those below.
func (m *maker) number(dst []byte, all subschemas, nth int) []byte {
	low, high := m.bounds(all)
	unit, has := m.r.number(all, "multipleOf")
	if !has || unit <= 0 {
		unit = 1
	}
	last := math.Floor(high/unit) * unit
	first := min(max(unit, math.Ceil(low/unit)*unit), last)
	n := first + unit*float64(nth)
	if n > last {
		n = first - (n - last)
	}
	if n < low {
		n = last // there are no more
	}
	if n < low && !has { // between two whole numbers
		n = (max(low, -1e300) + high) / 2
		if short, err := strconv.ParseFloat(strconv.FormatFloat(n, 'g', 6, 64), 64); err == nil && short >= low && short <= high {
			n = short
		}
	}
	if math.IsInf(n, 0) || math.IsNaN(n) {
		n = 0
	}
	format := byte('f')
	if a := math.Abs(n); a >= 1e15 || a > 0 && a < 1e-6 {
		format = 'g'
	}
	return strconv.AppendFloat(dst, n, format, -1, 64)
}

// placeholder returns a text for a member that may be anything.
func placeholder(name string) string {
	kept := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-', r == '.':
			return r
		}
		return -1
	}, name)
	if kept == "" {
		kept = "text"
	}
	return "<" + kept[:min(len(kept), placed)] + ">"
}
