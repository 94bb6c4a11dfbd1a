package shape

import (
	"encoding/base64"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/goccy/go-json"
)

// maker makes values that are sound by the definitions.
type maker struct{ r *rand.Rand }

func (m maker) make(f *form, depth int) any {
	switch f.kind {
	case anything:
		return m.whatever(depth)
	case null:
		return nil
	case boolean:
		return m.r.IntN(2) == 0
	case number, integer:
		return m.number(f)
	case text:
		return m.text(f.text)
	case literal:
		return f.text
	case array:
		return m.array(f, depth)
	case union:
		return m.make(f.of[m.r.IntN(len(f.of))], depth)
	}
	return m.object(f, depth)
}

func (m maker) number(f *form) any {
	choices := []json.Number{"0", "1", "2", "7.0", "1e2", "-3", "9007199254740993"}
	if f.kind == number {
		choices = append(choices, "0.5", "0.25", "-1.5", "1e-3")
	}
	choices = slices.DeleteFunc(choices, func(n json.Number) bool { v, _ := n.Float64(); return !f.bounds.hold(v) })
	return choices[m.r.IntN(len(choices))]
}

func (m maker) text(format string) any {
	choices := map[string][]string{
		"":             {"", "a", "sunny", "日本", "line\nbreak", "2026-07-28"},
		"uri":          {"file:///a/b", "https://example.com/x?y=z#w", "urn:isbn:1", "data:,a"},
		"file-uri":     {"file:///home/a", "file://host/b"},
		"uri-template": {"file:///{path}", "x://host/{a}/{b}", "https://example.com/plain"},
		"base64":       {"", base64.StdEncoding.EncodeToString([]byte("picture")), "AAAA"},
		"traceparent":  {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
		"timestamp":    {"2025-11-25T10:30:00Z", "2025-11-25T10:30:00.5+02:00"},
	}[format]
	return choices[m.r.IntN(len(choices))]
}

func (m maker) whatever(depth int) any {
	if depth > 5 {
		return "deep"
	}
	switch m.r.IntN(6) {
	case 0:
		return []any{m.whatever(depth + 1), json.Number("1")}
	case 1:
		return map[string]any{"inner": m.whatever(depth + 1)}
	case 2:
		return json.Number("12")
	case 3:
		return true
	}
	return "anything"
}

func (m maker) array(f *form, depth int) any {
	out := []any{}
	for range m.r.IntN(max(1, 4-depth/3)) {
		out = append(out, m.make(f.of[0], depth+1))
	}
	return out
}

func (m maker) object(f *form, depth int) any {
	out := map[string]any{}
	for _, member := range f.members {
		if member.of.kind != nothing && (member.must || m.r.IntN(100) < max(60-6*depth, 35)) {
			out[member.name] = m.make(member.of, depth+1)
		}
	}
	for _, n := range f.needs {
		if !slices.ContainsFunc(n.names, func(name string) bool { _, there := out[name]; return there }) {
			name := n.names[m.r.IntN(len(n.names))]
			i := slices.IndexFunc(f.members, func(other member) bool { return other.name == name })
			out[name] = m.make(f.members[i].of, depth+1)
		}
	}
	if f.rest != nil {
		for _, name := range []string{"one", "two"}[:m.r.IntN(3)] {
			out[name] = m.make(f.rest, depth+1)
		}
	}
	if len(f.members) == 0 && f.rest == nil && m.r.IntN(3) == 0 {
		out["com.example/free"] = "x"
	}
	return out
}

// spot is a place in a tree of values, and how to put something else there.
type spot struct {
	path  string
	value any
	put   func(any)
	drop  func()
	of    map[string]any // if it is a member
	name  string
}

// spots lists all places below a value.
func spots(v any, path string) (out []spot) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range names(v) {
			here := path + "/" + strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
			out = append(out, spot{here, v[name], func(x any) { v[name] = x }, func() { delete(v, name) }, v, name})
			out = append(out, spots(v[name], here)...)
		}
	case []any:
		for i := range v {
			here := (&place{index: i, list: true}).String()
			out = append(out, spot{path + here, v[i], func(x any) { v[i] = x }, nil, nil, ""})
			out = append(out, spots(v[i], path+here)...)
		}
	}
	return out
}

// strangers are values of every kind, to be put where they do not belong.
var strangers = []any{
	nil, true, "bogus", "", "-32020", json.Number("12"), json.Number("1.5"), json.Number("-1"), json.Number("2.0"),
	json.Number("123456789012345678901234567890"), map[string]any{}, []any{}, []any{"a"}, map[string]any{"a": json.Number("1")},
	json.Number("-32050"), json.Number("-32002"), json.Number("-32042"), json.Number("-32021"), "https://example.com/a", "input_required",
	[]any{nil}, map[string]any{"type": "object"}, map[string]any{"type": "text"},
}

// mutate changes one thing in a message, and says what.
func (m maker) mutate(message map[string]any) string {
	all := spots(message, "")
	s := all[m.r.IntN(len(all))]
	switch m.r.IntN(8) {
	case 0, 1:
		if s.drop != nil {
			s.drop()
			return "dropped " + s.path
		}
	case 2:
		if s.of != nil {
			name := []string{"x-new", "-odd-", "id", "jsonrpc", "error", "type", "text"}[m.r.IntN(7)]
			if _, there := s.of[name]; !there {
				s.of[name] = clone(strangers[m.r.IntN(len(strangers))])
				return "added " + name + " beside " + s.path
			}
		}
	case 3:
		if s.of != nil && s.name != "" {
			s.drop()
			s.of[strings.ToUpper(s.name[:1])+s.name[1:]] = s.value
			return "capitalised " + s.path
		}
	case 4:
		other := all[m.r.IntN(len(all))]
		if !strings.HasPrefix(s.path, other.path) {
			s.put(clone(other.value))
			return "copied " + other.path + " to " + s.path
		}
	case 5:
		if list, ok := s.value.([]any); ok {
			long := slices.Clone(list)
			for range []int{1, 101}[m.r.IntN(2)] {
				long = append(long, strangers[m.r.IntN(len(strangers))])
			}
			s.put(long)
			return "lengthened " + s.path
		}
	}
	stranger := strangers[m.r.IntN(len(strangers))]
	s.put(clone(stranger))
	return "put " + got(stranger) + " at " + s.path
}

// clone copies a tree.
func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, one := range v {
			out[name] = clone(one)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, one := range v {
			out[i] = clone(one)
		}
		return out
	}
	return v
}
