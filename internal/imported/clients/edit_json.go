package clients

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/tailscale/hujson"

	"dragoman/internal/config/value"
)

// document is a JSON file with the places of its values.
type document struct {
	data []byte // with the byte order mark, if there is one
	root hujson.Value
}

const byteOrderMark = "\ufeff"

func openJSON(data []byte) (*document, error) {
	if _, err := parseJSON(data); err != nil { // the bounds
		return nil, err
	}
	body := bytes.TrimPrefix(data, []byte(byteOrderMark))
	if len(bytes.TrimSpace(body)) == 0 {
		body, data = []byte("{}\n"), []byte("{}\n")
	}
	root, err := hujson.Parse(body)
	if err != nil {
		return nil, err
	}
	d := &document{data: data, root: root}
	if skip := len(data) - len(body); skip > 0 {
		for v := range d.root.All() {
			v.StartOffset += skip
			v.EndOffset += skip
		}
	}
	return d, nil
}

// object returns the object at a path; nil if there is none.
func (d *document) object(path []string) *hujson.Value {
	at := &d.root
	for _, name := range path {
		m := memberOf(at, name)
		if m == nil {
			return nil
		}
		at = &m.Value
	}
	if at.Value.Kind() != '{' {
		return nil
	}
	return at
}

// memberOf returns the last member of a name of an object; nil if there is none.
func memberOf(v *hujson.Value, name string) *hujson.ObjectMember {
	obj, ok := v.Value.(*hujson.Object)
	if !ok {
		return nil
	}
	for i := len(obj.Members) - 1; i >= 0; i-- {
		if key, ok := obj.Members[i].Name.Value.(hujson.Literal); ok && key.String() == name {
			return &obj.Members[i]
		}
	}
	return nil
}

// jsonPut writes a member of the object at a path, which it makes if there is none. indent means that raw is indented by tabs from the margin.
func jsonPut(data []byte, path []string, name string, raw []byte, indent bool) ([]byte, error) {
	d, err := openJSON(data)
	if err != nil {
		return nil, err
	}
	if d.root.Value.Kind() != '{' {
		return nil, errors.New("is not a JSON object; fix: correct the file")
	}
	depth := len(path)
	obj := d.object(path)
	for obj == nil && depth > 0 { // the missing objects are written around the member
		depth--
		if memberOf(orNone(d.object(path[:depth])), path[depth]) != nil {
			return nil, errors.New(strings.Join(path[:depth+1], ".") + " is not an object of servers by name; fix: correct the file")
		}
		raw = []byte("{\n\t" + value.Quote(name) + ": " + strings.ReplaceAll(string(raw), "\n", "\n\t") + "\n}")
		name, obj = path[depth], d.object(path[:depth])
	}
	in := d.style(obj, depth)
	text := string(raw)
	if indent {
		text = strings.NewReplacer("\n", in.line+in.indent, "\t", in.unit).Replace(text)
	}
	if m := memberOf(obj, name); m != nil {
		return d.splice(m.Value.StartOffset, m.Value.EndOffset, text), nil
	}
	return d.insert(obj, in, value.Quote(name)+": "+text), nil
}

func orNone(v *hujson.Value) *hujson.Value {
	if v == nil {
		return &hujson.Value{}
	}
	return v
}

// style is how an object is written.
type style struct {
	line   string // end of a line
	unit   string // one step of indentation
	indent string // before a member
	close  string // before the closing brace
	flat   bool   // all members are on one line
}

// style returns how the members of an object at a depth are written.
func (d *document) style(obj *hujson.Value, depth int) style {
	s := style{line: newline(d.data), unit: "  "}
	if root, ok := d.root.Value.(*hujson.Object); ok && len(root.Members) > 0 {
		if lead, own := d.lead(root.Members[0].Name.StartOffset); own && lead != "" {
			s.unit = lead
		}
	}
	s.indent, s.close = strings.Repeat(s.unit, depth+1), strings.Repeat(s.unit, depth)
	in, _ := obj.Value.(*hujson.Object)
	if len(in.Members) == 0 {
		return s
	}
	lead, own := d.lead(in.Members[len(in.Members)-1].Name.StartOffset)
	if s.flat = !own; own {
		s.indent = lead
	}
	if lead, own := d.lead(obj.EndOffset - 1); own {
		s.close = lead
	}
	return s
}

// lead returns the blanks before a place, and whether it is the first on its line.
func (d *document) lead(at int) (string, bool) {
	begin := lineStart(d.data, at)
	text := strings.TrimPrefix(string(d.data[begin:at]), byteOrderMark)
	return text, strings.TrimLeft(text, " \t") == "" && begin > 0
}

func (d *document) splice(begin, end int, text string) []byte {
	return bytes.Join([][]byte{d.data[:begin], d.data[end:]}, []byte(text))
}

// insert writes a new member behind the others. A comment behind the last one stays on its line.
func (d *document) insert(obj *hujson.Value, in style, member string) []byte {
	closing := obj.EndOffset - 1
	all, _ := obj.Value.(*hujson.Object)
	if len(all.Members) == 0 {
		begin := obj.StartOffset + 1
		inside := strings.TrimRight(string(d.data[begin:closing]), " \t\r\n")
		return d.splice(begin, closing, inside+in.line+in.indent+member+in.line+in.close)
	}
	last := all.Members[len(all.Members)-1].Value.EndOffset
	if in.flat {
		return d.splice(last, last, ", "+member)
	}
	tail := string(d.data[last:closing])
	trailing := ""
	if at := comma(d.data[last:closing]); at >= 0 {
		tail, trailing = tail[:at]+tail[at+1:], ","
	}
	return d.splice(last, closing, ","+strings.TrimRight(tail, " \t\r\n")+in.line+in.indent+member+trailing+in.line+in.close)
}

// comma returns the place of the first comma outside of comments; -1 if there is none.
func comma(data []byte) int {
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case ',':
			return i
		case '/':
			i += comment(data[i:])
		}
	}
	return -1
}

// jsonRemove removes a member, its comma, and the line if nothing else is on it. Comments stay.
func jsonRemove(data []byte, path []string, name string) ([]byte, error) {
	for range maxDepth { // a name can be there several times
		d, err := openJSON(data)
		if err != nil {
			return nil, err
		}
		obj := d.object(path)
		if obj == nil {
			return data, nil
		}
		m := memberOf(obj, name)
		if m == nil {
			return data, nil
		}
		data = d.without(obj, m)
	}
	return nil, fmt.Errorf("has the server %s too often; fix: correct the file", shown(name))
}

func (d *document) without(obj *hujson.Value, m *hujson.ObjectMember) []byte {
	begin, end := m.Name.StartOffset, m.Value.EndOffset
	if at := comma(d.data[end : obj.EndOffset-1]); at >= 0 && blank(d.data[end:end+at]) {
		end += at + 1
	} else if at < 0 { // the last one: the comma before it goes
		all, _ := obj.Value.(*hujson.Object)
		for i := range all.Members[1:] {
			if all.Members[i+1].Name.StartOffset == begin {
				before := all.Members[i].Value.EndOffset
				if at := comma(d.data[before:begin]); at >= 0 {
					return (&document{data: d.splice(before+at, before+at+1, "")}).cut(begin-1, end-1)
				}
			}
		}
	} else { // a comment stands between the value and its comma
		return (&document{data: d.splice(end+at, end+at+1, "")}).cut(begin, end)
	}
	return d.cut(begin, end)
}

func blank(data []byte) bool { return len(bytes.TrimSpace(data)) == 0 }

// cut removes a piece, with its lines if nothing else is on them.
func (d *document) cut(begin, end int) []byte {
	lead, first := d.lead(begin)
	stop := end
	for stop < len(d.data) && (d.data[stop] == ' ' || d.data[stop] == '\t' || d.data[stop] == '\r') {
		stop++
	}
	if first && stop < len(d.data) && d.data[stop] == '\n' {
		return d.splice(begin-len(lead), stop+1, "")
	}
	return d.splice(begin, end, "")
}
