package openapi

import (
	"strings"

	"dragoman/proxy/wire"
)

// shape is the type of a keyword's value.
type shape int

const (
	anything shape = iota
	text
	number
	positive // number
	count
	truth
	values  // array
	strs    // array of different strings
	types   // one of the types, or some
	schema  // or a boolean
	limit   // schema; a boolean remains a boolean
	schemas // array, not empty
	table   // object of schemas
	needs   // object of arrays of strings
)

// keywords are the keywords of JSON Schema 2020-12 that are copied.
var keywords = map[string]shape{
	"title": text, "description": text, "$comment": text, "format": text, "pattern": text, "contentEncoding": text,
	"contentMediaType": text,
	"default":          anything, "const": anything, "enum": values, "examples": values, "type": types,
	"maximum": number, "minimum": number, "exclusiveMaximum": number, "exclusiveMinimum": number, "multipleOf": positive,
	"maxLength": count, "minLength": count, "maxItems": count, "minItems": count, "maxProperties": count, "minProperties": count,
	"maxContains": count, "minContains": count, "uniqueItems": truth, "deprecated": truth, "readOnly": truth, "writeOnly": truth,
	"required": strs, "dependentRequired": needs,
	"not": schema, "if": schema, "then": schema, "else": schema, "contains": schema, "propertyNames": schema, "items": schema,
	"contentSchema":        schema,
	"additionalProperties": limit, "unevaluatedProperties": limit, "unevaluatedItems": limit,
	"allOf": schemas, "anyOf": schemas, "oneOf": schemas, "prefixItems": schemas,
	"properties": table, "patternProperties": table, "dependentSchemas": table,
}

// value writes a keyword of 2020-12 if its value fits.
func (c *converter) value(dst []byte, name string, v wire.Span, all []member, depth int) []byte {
	kind, known := keywords[name]
	if !known {
		return dst
	}
	if !c.fits(kind, v) || name == "enum" && string(v.Of(c.raw)) == "[]" || name == "default" && !c.defaults(v, all) {
		c.leaveOut("%s, which cannot be %s", name, shown(v.Of(c.raw)))
		return dst
	}
	switch kind {
	case limit:
		if c.raw[v.From] != '{' {
			return c.plain(dst, name, v)
		}
		fallthrough
	case schema:
		return c.schema(append(wire.AppendText(dst, name), ':'), v, false, depth+1)
	case schemas:
		dst = append(wire.AppendText(dst, name), `:[`...)
		for i, item := range wire.Items(c.raw, v) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = c.schema(dst, item, false, depth+1)
		}
		return append(dst, ']')
	case table:
		return c.table(append(wire.AppendText(dst, name), ':'), c.members(v), depth)
	}
	return c.plain(dst, name, v)
}

func (c *converter) table(dst []byte, all []member, depth int) []byte {
	dst = append(dst, '{')
	for i, m := range all {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = c.schema(append(wire.AppendText(dst, m.key), ':'), m.value, false, depth+1)
	}
	return append(dst, '}')
}

// dependencies writes the keyword of draft-07 as dependentRequired and dependentSchemas.
func (c *converter) dependencies(dst []byte, v wire.Span, all []member, depth int) []byte {
	var names, subs []member
	for _, m := range c.members(v) {
		if c.fits(strs, m.value) {
			names = append(names, m)
		} else if c.fits(schema, m.value) {
			subs = append(subs, m)
		}
	}
	if lookup(all, "dependentRequired").Present() {
		names = nil
	}
	if lookup(all, "dependentSchemas").Present() {
		subs = nil
	}
	if len(names) > 0 {
		dst = append(dst, `"dependentRequired":{`...)
		for i, m := range names {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = c.plain(dst, m.key, m.value)
		}
		dst = append(dst, '}')
	}
	if len(subs) > 0 {
		if len(names) > 0 {
			dst = append(dst, ',')
		}
		dst = c.table(append(dst, `"dependentSchemas":`...), subs, depth)
	}
	return dst
}

// fits reports whether a value has the shape of its keyword.
func (c *converter) fits(kind shape, v wire.Span) bool {
	first := c.raw[v.From]
	digits := first == '-' || first >= '0' && first <= '9'
	switch kind {
	case text:
		return first == '"'
	case number:
		return digits
	case positive:
		return digits && first != '-' && strings.Trim(string(v.Of(c.raw)), "0.eE+-") != ""
	case count:
		return digits && strings.Trim(string(v.Of(c.raw)), "0123456789") == ""
	case truth:
		return first == 't' || first == 'f'
	case values:
		return first == '['
	case strs:
		return c.strings(v)
	case types:
		return c.types(v)
	case schema, limit:
		return first == '{' || first == 't' || first == 'f'
	case schemas:
		return first == '[' && string(v.Of(c.raw)) != "[]"
	case table:
		return first == '{'
	case needs:
		for _, m := range c.members(v) {
			if !c.strings(m.value) {
				return false
			}
		}
		return first == '{'
	}
	return true
}

// strings reports whether a value is an array of different strings.
func (c *converter) strings(v wire.Span) bool {
	seen := map[string]bool{}
	for _, item := range wire.Items(c.raw, v) {
		name := string(item.Text(c.raw))
		if !item.IsString(c.raw) || seen[name] {
			return false
		}
		seen[name] = true
	}
	return c.raw[v.From] == '['
}

func (c *converter) types(v wire.Span) bool {
	if v.IsString(c.raw) {
		return typeFirst[string(v.Text(c.raw))] != ""
	}
	for _, item := range wire.Items(c.raw, v) {
		if typeFirst[string(item.Text(c.raw))] == "" {
			return false
		}
	}
	return c.strings(v) && string(v.Of(c.raw)) != "[]"
}

// typeFirst maps the types to the bytes with which their values begin.
var typeFirst = map[string]string{"null": "n", "boolean": "tf", "number": "-0123456789", "integer": "-0123456789", "string": `"`,
	"array": "[", "object": "{"}

// defaults reports whether a default is of the schema's type. Some servers write null for none, which validators of documents
// reject.
func (c *converter) defaults(v wire.Span, all []member) bool {
	t := lookup(all, "type")
	if !t.Present() || !c.types(t) {
		return true
	}
	of := func(t wire.Span) bool { return strings.IndexByte(typeFirst[string(t.Text(c.raw))], c.raw[v.From]) >= 0 }
	ok := of(t)
	for _, item := range wire.Items(c.raw, t) {
		ok = ok || of(item)
	}
	return ok
}

// shown returns the beginning of a value for a note.
func shown(raw []byte) string {
	const most = 60
	if len(raw) > most {
		return strings.ToValidUTF8(string(raw[:most]), "") + "…"
	}
	return string(raw)
}
