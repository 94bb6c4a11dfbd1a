package openapi

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"dragoman/proxy/wire"
)

var errNoObject = errors.New("no JSON object")

const (
	maxDepth  = 128       // of nested schemas
	maxSchema = 256 << 10 // bytes of a schema that is shown
	maxParts  = 500       // components of one schema
	maxGrowth = 4         // the components of a schema may have this many times its size, since parts are copied,
	slack     = 16 << 10  // and this many bytes more
	maxWork   = 256 << 20 // bytes that are read for a document; schemas beyond are not shown
	maxNotes  = 100       // notes of one schema
)

// converter writes one schema into the document. Every subschema that a reference names becomes a component, which generators
// understand. Only known keywords with values of the right type remain, so that a server's mistake does not make the whole document
// invalid. Drafts before 2020-12 are rewritten.
type converter struct {
	raw      []byte
	root     string
	names    *namer
	parts    map[string]string // names of the components, by place in the schema
	todo     []string          // places of components that are not written yet
	anchors  map[string]string // places by anchor; nil: not searched yet
	work     *int              // the rest of maxWork
	notes    []string          // the omissions
	overflow bool
}

// leaveOut notes an omission.
func (c *converter) leaveOut(format string, args ...any) {
	if len(c.notes) < maxNotes {
		c.notes = append(c.notes, fmt.Sprintf(format, args...))
	}
}

// embed appends a schema as a component, and the components that it refers to. With request, the schema is that of arguments, which
// are always an object. A schema that cannot be read becomes that of any object. note receives the omissions.
func (b *builder) embed(dst, schema []byte, name string, names *namer, request bool, note func(string)) []byte {
	raw, err := object(schema)
	if err != nil {
		if len(schema) > 0 {
			note("the schema is " + err.Error())
		}
		return component(dst, name, `{"type":"object"}`)
	}
	c := converter{raw: raw, root: name, names: names, parts: map[string]string{"": name}, todo: []string{""}, work: &b.work,
		overflow: len(raw) > maxSchema}
	out := dst
	for len(c.todo) > 0 && !c.overflow {
		at := c.todo[0]
		c.todo = c.todo[1:]
		text := c.schema(nil, c.find(at), true, 0)
		if at == "" && request {
			text = typed(text)
		}
		out = component(out, c.parts[at], string(text))
		c.overflow = c.overflow || len(out)-len(dst) > maxGrowth*len(raw)+slack || len(c.parts) > maxParts
	}
	if c.overflow {
		note("the schema is too large")
		return component(dst, name, `{"type":"object","description":"The schema is too large to be shown; GET /tools has it."}`)
	}
	for _, what := range c.notes {
		note(what)
	}
	return out
}

// typed adds the type object to a schema that has none.
func typed(schema []byte) []byte {
	switch {
	case wire.Get(schema, wire.Whole(schema), "type").Present(), wire.Get(schema, wire.Whole(schema), "$ref").Present():
		return schema
	case len(schema) == len("{}"):
		return []byte(`{"type":"object"}`)
	}
	return append([]byte(`{"type":"object",`), schema[1:]...)
}

// member is one member of an object.
type member struct {
	key   string
	value wire.Span
}

// members lists the members of an object; of several with one name, the last.
func (c *converter) members(obj wire.Span) []member {
	var out []member
	at := map[string]int{}
	for k, v := range wire.Members(c.raw, obj) {
		key := string(k.Text(c.raw))
		if i, twice := at[key]; twice {
			out[i].value = v
			continue
		}
		at[key] = len(out)
		out = append(out, member{key, v})
	}
	return out
}

// schema writes a subschema. With top it becomes a component, without its title: generators would use that as a name, and it may
// occur twice.
func (c *converter) schema(dst []byte, s wire.Span, top bool, depth int) []byte {
	c.spend(int(s.To - s.From))
	c.overflow = c.overflow || depth > maxDepth
	if c.overflow || !s.IsObject(c.raw) {
		if string(s.Of(c.raw)) == "false" {
			return append(dst, `{"not":{}}`...)
		}
		return append(dst, "{}"...)
	}
	start := len(dst)
	dst = append(dst, '{')
	all := c.members(s)
	for _, m := range all {
		if m.key == "title" && top {
			continue
		}
		before := len(dst)
		if before > start+1 {
			dst = append(dst, ',')
		}
		mark := len(dst)
		if dst = c.keyword(dst, m, all, depth); len(dst) == mark {
			dst = dst[:before]
		}
	}
	return append(dst, '}')
}

// spend counts the bytes that are read.
func (c *converter) spend(bytes int) {
	if *c.work -= bytes; *c.work < 0 {
		c.overflow = true
	}
}

// keyword writes a keyword with its value, or nothing if the keyword is unknown.
func (c *converter) keyword(dst []byte, m member, all []member, depth int) []byte {
	name := m.key
	switch {
	case name == "$ref" || name == "$dynamicRef" || name == "$recursiveRef":
		if name != "$ref" && lookup(all, "$ref").Present() {
			return dst
		}
		return c.reference(dst, m.value)
	case name == "items" && c.raw[m.value.From] == '[':
		if lookup(all, "prefixItems").Present() {
			return dst
		}
		name = "prefixItems"
	case name == "additionalItems":
		if items := lookup(all, "items"); !items.Present() || c.raw[items.From] != '[' {
			return dst
		}
		name = "items"
	case name == "dependencies":
		return c.dependencies(dst, m.value, all, depth)
	case (name == "exclusiveMaximum" || name == "exclusiveMinimum") && string(m.value.Of(c.raw)) == "true": // draft-04
		bound := lookup(all, strings.ToLower(name[len("exclusive"):]))
		if !bound.Present() || !c.fits(number, bound) {
			return dst
		}
		return c.plain(dst, name, bound)
	case name == "maximum" && string(lookup(all, "exclusiveMaximum").Of(c.raw)) == "true",
		name == "minimum" && string(lookup(all, "exclusiveMinimum").Of(c.raw)) == "true":
		return dst
	}
	return c.value(dst, name, m.value, all, depth)
}

// lookup returns the value of the member named key; the zero Span if there is none.
func lookup(all []member, key string) wire.Span {
	for _, m := range all {
		if m.key == key {
			return m.value
		}
	}
	return wire.Span{}
}

func (c *converter) plain(dst []byte, name string, v wire.Span) []byte {
	return append(append(wire.AppendText(dst, name), ':'), v.Of(c.raw)...)
}

// reference writes a $ref to the component that it names, or nothing if that is not in the schema.
func (c *converter) reference(dst []byte, v wire.Span) []byte {
	at, ok := c.resolve(string(v.Text(c.raw)))
	for n := 0; ok; n++ { // a place with nothing but a reference stands for its target
		only := c.members(c.find(at))
		if len(only) != 1 || only[0].key != "$ref" {
			break
		}
		if at, ok = c.resolve(string(only[0].value.Text(c.raw))); n > maxDepth {
			ok = false
		}
	}
	if !ok {
		c.leaveOut("$ref %s, which is not in the schema", shown(v.Of(c.raw)))
		return dst
	}
	name, known := c.parts[at]
	if !known {
		stem := at[strings.LastIndexByte(at, '/')+1:]
		name = c.names.free(cut(c.root + camel(stem)))
		c.parts[at] = name
		c.todo = append(c.todo, at)
	}
	return append(dst, `"$ref":"#/components/schemas/`+name+`"`...)
}

// resolve returns the place that a reference names: a JSON pointer without percent-encoding.
func (c *converter) resolve(ref string) (place string, ok bool) {
	before, fragment, _ := strings.Cut(ref, "#")
	if before != "" {
		if place, ok = c.anchored(before); !ok {
			return "", false
		}
	}
	fragment, err := url.PathUnescape(fragment)
	switch {
	case err != nil:
		return "", false
	case fragment == "":
	case fragment[0] == '/':
		place += fragment
	default:
		return c.anchored("#" + fragment)
	}
	return place, c.find(place).Present()
}

// find returns the value at a place.
func (c *converter) find(place string) wire.Span {
	s := wire.Whole(c.raw)
	if place == "" {
		return s
	}
	if c.spend(len(c.raw)); c.overflow {
		return wire.Span{}
	}
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for token := range strings.SplitSeq(place[1:], "/") {
		var next wire.Span
		key := unescape.Replace(token)
		for k, v := range wire.Members(c.raw, s) {
			if string(k.Text(c.raw)) == key {
				next = v // of several the last
			}
		}
		for i, item := range wire.Items(c.raw, s) {
			if strconv.Itoa(i) == token {
				next = item
				break
			}
		}
		if s = next; !s.Present() {
			break
		}
	}
	return s
}

// anchored returns the place with an $anchor ("#name") or an $id.
func (c *converter) anchored(name string) (place string, ok bool) {
	if c.anchors == nil {
		c.anchors = map[string]string{}
		c.anchor(wire.Whole(c.raw), "")
	}
	place, ok = c.anchors[name]
	return place, ok
}

func (c *converter) anchor(s wire.Span, place string) {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	for _, m := range c.members(s) {
		text := string(m.value.Text(c.raw))
		switch {
		case text == "":
		case m.key == "$anchor" || m.key == "$dynamicAnchor":
			c.anchors["#"+text] = place
		case m.key == "$id" || m.key == "id":
			c.anchors[text] = place
		}
		c.anchor(m.value, place+"/"+escape.Replace(m.key))
	}
	for i, item := range wire.Items(c.raw, s) {
		c.anchor(item, place+"/"+strconv.Itoa(i))
	}
}
