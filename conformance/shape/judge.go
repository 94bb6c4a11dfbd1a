package shape

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// judge turns what the library reports of one value into findings.
type judge struct {
	*schema
	value any
}

// finding is one thing that is wrong, as the schema sees it.
type finding struct {
	at       []string // the place in the message
	node     object   // the schema that is not satisfied
	def      string   // the definition that it belongs to
	expected string
	missing  string // the member that is missing at the place
	name     string // a member whose name is wrong
	wrong    sort
}

// sort tells findings apart when the alternatives of a union are compared.
type sort int

const (
	wrongValue sort = iota // none of those that the schema lists
	wrongType              // of JSON
	other
	absent
)

// owner is the object that a wrong value makes something else of, or the place itself.
func (f finding) owner() []string {
	if f.wrong == wrongValue && len(f.at) > 0 {
		return f.at[:len(f.at)-1]
	}
	return f.at
}

// findings flattens what the library reports. Of a union only the alternative counts that was meant.
func (s judge) findings(e *jsonschema.ValidationError) []finding {
	node, def := s.locate(e.SchemaURL)
	f := finding{at: e.InstanceLocation, node: node, def: def, wrong: other}
	switch k := e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.AllOf, *kind.Reference:
		return s.all(e.Causes)
	case *kind.AnyOf:
		return s.union(e, node, def)
	case *kind.Required:
		var out []finding
		for _, name := range k.Missing {
			one := f
			one.wrong, one.missing, one.expected = absent, name, name+" is required: "+s.describe(s.property(node, name))
			out = append(out, one)
		}
		return out
	case *kind.Format:
		if wrong, ok := errors.AsType[wrongName](k.Err); ok {
			f.name, f.at, f.expected = string(wrong), append(f.at, string(wrong)), wrong.Error()
			return []finding{f}
		}
	case *kind.FalseSchema:
		f.expected = "no " + f.at[len(f.at)-1] + " here"
		return []finding{f}
	case *kind.MaxItems:
		f.expected = fmt.Sprintf("at most %d elements", k.Want)
		return []finding{f}
	case *kind.Type:
		f.wrong = wrongType
	case *kind.Const, *kind.Enum:
		f.wrong = wrongValue
	}
	f.expected = s.describe(node)
	return []finding{f}
}

func (s judge) all(of []*jsonschema.ValidationError) (out []finding) {
	for _, one := range of {
		out = append(out, s.findings(one)...)
	}
	return out
}

// alternative is one of a union, with the findings if it was meant.
type alternative struct {
	node  object
	wrong []finding
}

// union takes the alternative that was meant: objects are told apart by their tags, members that have one of a few values in all of
// them, such as the type of content; else by the members that are there.
func (s judge) union(e *jsonschema.ValidationError, node object, def string) []finding {
	at := e.InstanceLocation
	of := s.alternatives(e, node)
	if names := requiredNames(of); names != "" {
		return []finding{{at: at, def: def, missing: names, wrong: absent, expected: names + " is required"}}
	}
	of = slices.DeleteFunc(of, func(a alternative) bool { return a.has(wrongType, at, "") })
	if len(of) == 0 {
		return []finding{{at: at, def: def, node: node, wrong: wrongType, expected: s.describe(node)}}
	}
	for _, tag := range s.tags(of) {
		left := slices.DeleteFunc(slices.Clone(of), func(a alternative) bool { return a.has(wrongValue, at, tag) })
		if len(left) == 0 {
			return []finding{{at: append(slices.Clone(at), tag), def: def, wrong: wrongValue, expected: s.values(of, tag)}}
		}
		of = left
		if len(of) > 1 && !slices.ContainsFunc(of, func(a alternative) bool { return !a.has(absent, at, tag) }) {
			return append([]finding{{at: at, def: def, missing: tag, wrong: absent, expected: tag + " is required: " + s.values(of, tag)}}, untagged(of, at, tag)...)
		}
	}
	value := s.value
	for _, token := range at {
		_, value = step(nil, value, token)
	}
	members, _ := value.(object)
	return slices.MaxFunc(of, func(a, b alternative) int { return cmp.Compare(a.likeness(at, members), b.likeness(at, members)) }).wrong
}

// alternatives are those of a union, of the unions among them too.
func (s judge) alternatives(e *jsonschema.ValidationError, node object) (out []alternative) {
	branches, _ := node["anyOf"].([]any)
	for i, cause := range e.Causes {
		var branch object
		if i < len(branches) {
			branch = s.follow(branches[i])
		}
		inner := cause
		for len(inner.Causes) == 1 {
			if _, ok := inner.ErrorKind.(*kind.Reference); !ok {
				break
			}
			inner = inner.Causes[0]
		}
		if _, ok := inner.ErrorKind.(*kind.AnyOf); ok && len(inner.InstanceLocation) == len(e.InstanceLocation) && branch["properties"] == nil {
			nested, _ := s.locate(inner.SchemaURL)
			out = append(out, s.alternatives(inner, nested)...)
			continue
		}
		out = append(out, alternative{branch, s.findings(cause)})
	}
	return out
}

// requiredNames joins the members of which one has to be there; empty: the union is about something else.
func requiredNames(of []alternative) string {
	var names []string
	for _, a := range of {
		if len(a.node) != 1 || a.node["required"] == nil {
			return ""
		}
		for _, f := range a.wrong {
			names = append(names, f.missing)
		}
	}
	return strings.Join(names, " or ")
}

// has reports whether there is a finding of a sort at a place, or for its member of that name.
func (a alternative) has(wrong sort, at []string, name string) bool {
	return slices.ContainsFunc(a.wrong, func(f finding) bool {
		if f.wrong != wrong {
			return false
		}
		if wrong == absent {
			return len(f.at) == len(at) && f.missing == name
		}
		if name == "" {
			return len(f.at) == len(at)
		}
		return len(f.at) == len(at)+1 && f.at[len(at)] == name
	})
}

// likeness counts how much of an alternative is there.
func (a alternative) likeness(at []string, members object) (n int) {
	properties, _ := a.node["properties"].(object)
	for name := range properties {
		if _, there := members[name]; there {
			n++
		}
	}
	for _, f := range a.wrong {
		if f.wrong == absent && len(f.at) == len(at) {
			n -= 2
		}
	}
	return n
}

// tags are the members that have one of a few values in all alternatives.
func (s *schema) tags(of []alternative) (out []string) {
	properties, _ := of[0].node["properties"].(object)
	for name := range properties {
		if !slices.ContainsFunc(of, func(a alternative) bool { return len(s.listed(s.property(a.node, name))) == 0 }) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// listed are the values that a schema lists; nil if it takes others.
func (s *schema) listed(node any) []any {
	of := s.follow(node)
	if value, ok := of["const"]; ok {
		return []any{value}
	}
	values, _ := of["enum"].([]any)
	return values
}

// values describes what a tag may be.
func (s *schema) values(of []alternative, tag string) string {
	var all []any
	for _, a := range of {
		for _, v := range s.listed(s.property(a.node, tag)) {
			if !slices.Contains(all, v) {
				all = append(all, v)
			}
		}
	}
	return oneOf(all)
}

// untagged goes on with an alternative that lacks nothing but its tag.
func untagged(of []alternative, at []string, tag string) []finding {
	for _, a := range of {
		more := slices.DeleteFunc(slices.Clone(a.wrong), func(f finding) bool { return len(f.at) == len(at) && f.missing == tag })
		if !slices.ContainsFunc(more, func(f finding) bool { return len(f.at) == len(at) }) {
			return more
		}
	}
	return nil
}

// locate finds the schema that a URL points to, and the name of its definition.
func (s *schema) locate(url string) (node object, def string) {
	_, pointer, _ := strings.Cut(url, "#/")
	var v any = object{s.at: s.defs}
	tokens := strings.Split(pointer, "/")
	for i, token := range tokens {
		token = strings.NewReplacer("~1", "/", "~0", "~", "%20", " ", "%24", "$").Replace(token)
		switch of := v.(type) {
		case object:
			v = of[token]
		case []any:
			if n, err := strconv.Atoi(token); err == nil && n < len(of) {
				v = of[n]
			}
		}
		if i == 1 {
			def = token
		}
	}
	node, _ = v.(object)
	return node, def
}
