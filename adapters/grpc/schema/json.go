package schema

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"dragoman/proxy/wire"
)

// object is a JSON object that is being built. Its members keep their order, so that a schema is the same at each start.
type object struct {
	members []member
	about   []string // paragraphs of its description, which is written last
}

type member struct {
	name  string
	value []byte // JSON
}

// set adds a member, or replaces it.
func (o *object) set(name string, value []byte) *object {
	if i := o.index(name); i >= 0 {
		o.members[i].value = value
		return o
	}
	o.members = append(o.members, member{name, value})
	return o
}

func (o *object) index(name string) int {
	return slices.IndexFunc(o.members, func(m member) bool { return m.name == name })
}

// get returns the JSON of a member; nil if there is none.
func (o *object) get(name string) []byte {
	if i := o.index(name); i >= 0 {
		return o.members[i].value
	}
	return nil
}

func (o *object) text(name, value string) *object       { return o.set(name, text(value)) }
func (o *object) texts(name string, v []string) *object { return o.set(name, texts(v)) }
func (o *object) count(name string, n uint64) *object {
	return o.set(name, strconv.AppendUint(nil, n, 10))
}
func (o *object) object(name string, of *object) *object { return o.set(name, of.json()) }
func (o *object) list(name string, v [][]byte) *object   { return o.set(name, list(v)) }
func (o *object) note(text ...string) *object            { o.about = append(text, o.about...); return o }
func (o *object) yes(name string) *object                { return o.set(name, []byte("true")) }
func (o *object) no(name string) *object                 { return o.set(name, []byte("false")) }

// json returns the object as JSON.
func (o *object) json() []byte {
	b := wire.NewBuilder(nil)
	for _, m := range o.members {
		b.AddRaw(text(m.name), m.value)
	}
	b.Some("description", strings.Join(o.about, "\n"))
	return b.Done()
}

func text(s string) []byte { return wire.AppendText(nil, s) }

func list(items [][]byte) []byte {
	out := []byte{'['}
	for _, item := range items {
		out = wire.AppendItem(out, item)
	}
	return append(out, ']')
}

func texts(values []string) []byte {
	items := make([][]byte, len(values))
	for i, v := range values {
		items[i] = text(v)
	}
	return list(items)
}

// compact removes the white space between tokens in place. protojson inserts some at random, against dependence on its output.
func compact(json []byte) []byte {
	out := json[:0]
	for i := 0; i < len(json); {
		switch json[i] {
		case ' ', '\n':
			i++
		case '"':
			end := i + quoted(json[i:])
			out = append(out, json[i:end]...)
			i = end
		default:
			out = append(out, json[i])
			i++
		}
	}
	return out
}

// quoted returns the length of the JSON string at the beginning of json, with its quotes.
func quoted(json []byte) int {
	for end := 1; ; end++ {
		n := bytes.IndexByte(json[end:], '"')
		if n < 0 {
			return len(json)
		}
		end += n
		escapes := 0
		for json[end-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return end + 1
		}
	}
}

func (o *object) drop(name string) {
	o.members = slices.DeleteFunc(o.members, func(m member) bool { return m.name == name })
}
