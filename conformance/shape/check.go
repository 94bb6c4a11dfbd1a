package shape

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-json"
)

// checker compares values with forms and gathers what is wrong.
type checker struct {
	book     *book
	rule     string // of what is being checked
	most     int    // problems, then it stops
	problems []Problem
}

// under checks with the rule of a definition, and goes back to the one before.
func (c *checker) under(rule string, check func()) {
	if rule == "" {
		check()
		return
	}
	before := c.rule
	c.rule = rule
	check()
	c.rule = before
}

// check says what is wrong with a value.
func (c *checker) check(f *form, v any, at *place) {
	if c.full() {
		return
	}
	c.under(f.rule, func() {
		switch f.kind {
		case union:
			c.union(f, v, at)
		case object:
			c.object(f, v, at)
		case array:
			c.array(f, v, at)
		default:
			if !f.scalar(v) {
				c.say(at, f.String(), got(v))
			}
		}
	})
}

// scalar says whether a value is what a form without parts asks for.
func (f *form) scalar(v any) bool {
	switch f.kind {
	case anything:
		return true
	case null:
		return v == nil
	case boolean:
		_, ok := v.(bool)
		return ok
	case number, integer:
		n, ok := v.(json.Number)
		if !ok || f.kind == integer && !whole(n) {
			return false
		}
		value, _ := n.Float64() // what is too large is an infinity, which is compared rightly
		return f.bounds.hold(value)
	case text, literal:
		s, ok := v.(string)
		if !ok || f.kind == literal {
			return ok && s == f.text
		}
		return f.text == "" || formats[f.text].holds(s)
	}
	return false
}

func (c *checker) array(f *form, v any, at *place) {
	list, ok := v.([]any)
	if !ok {
		c.say(at, f.String(), got(v))
		return
	}
	if !f.bounds.hold(float64(len(list))) {
		c.say(at, "elements in a number"+f.bounds.String(), got(v))
	}
	for i, one := range list {
		if c.full() {
			return
		}
		c.check(f.of[0], one, at.item(i))
	}
}

func (c *checker) object(f *form, v any, at *place) {
	of, ok := v.(map[string]any)
	if !ok {
		c.say(at, f.String(), got(v))
		return
	}
	for _, m := range f.members {
		c.under(m.rule, func() { c.member(m, of, at) })
	}
	for _, n := range f.needs {
		if !slices.ContainsFunc(n.names, func(name string) bool { _, there := of[name]; return there }) {
			c.say(at, strings.Join(n.names, " or ")+" is required", "nothing")
		}
	}
	if f.rest == nil && len(f.keys) == 0 {
		return
	}
	for _, name := range names(of) {
		for _, n := range f.keys {
			if key := formats[n.names[0]]; !key.holds(name) {
				c.say(at.member(name), key.means, "the name "+shorten(name, 60))
			}
		}
		if f.rest != nil && !slices.ContainsFunc(f.members, func(m member) bool { return m.name == name }) {
			c.check(f.rest, of[name], at.member(name))
		}
	}
}

// member checks one member. What is missing is told of the object that lacks it, by the rule of the member.
func (c *checker) member(m member, of map[string]any, at *place) {
	v, there := of[m.name]
	switch {
	case m.of.kind == nothing:
		if there {
			c.say(at.member(m.name), "no "+m.name+" here", got(v))
		}
	case there:
		c.check(m.of, v, at.member(m.name))
	case m.must:
		c.say(at, fmt.Sprintf("%s is required: %s", m.name, m.of), "nothing")
	}
}

// union finds the alternative that a value fits, or the one that it was most probably meant to be, to say what is wrong
// with it. Objects that differ by a tag, such as content blocks by their type, are compared with one alternative only.
func (c *checker) union(f *form, v any, at *place) {
	var fit, objects []*form
	for _, one := range f.of {
		if one.kind == object {
			objects = append(objects, one)
		} else if one.suits(v) {
			fit = append(fit, one)
		}
	}
	of, isObject := v.(map[string]any)
	if isObject && len(objects) > 1 {
		if c.tags(objects, of, at) {
			return
		}
		fit = append(fit, tagged(objects, of)...)
	} else if isObject {
		fit = append(fit, objects...)
	}
	for _, one := range fit[:max(0, len(fit)-1)] { // the last needs no trial if it is the only one
		if c.fits(one, v) {
			return
		}
	}
	switch {
	case len(fit) == 0:
		c.say(at, f.String(), got(v))
	case len(fit) == 1 || !c.fits(fit[len(fit)-1], v):
		c.check(slices.MaxFunc(fit, func(a, b *form) int { return a.likeness(of) - b.likeness(of) }), v, at)
	}
}

func (c *checker) fits(f *form, v any) bool {
	try := &checker{book: c.book, most: 1}
	try.check(f, v, nil)
	return len(try.problems) == 0
}

// suits says whether a value can be meant by a form that is no object.
func (f *form) suits(v any) bool {
	if f.kind == array {
		_, ok := v.([]any)
		return ok
	}
	return f.scalar(v)
}

// isTag says whether a form is one or several literals.
func (f *form) isTag() bool {
	return f.kind == literal || f.kind == union && !slices.ContainsFunc(f.of, func(one *form) bool { return one.kind != literal })
}

func (f *form) takes(v any) bool {
	return f.scalar(v) || slices.ContainsFunc(f.of, func(one *form) bool { return one.scalar(v) })
}

// tag gives the form of a member if it is a tag.
func (f *form) tag(name string) (m member, ok bool) {
	i := slices.IndexFunc(f.members, func(m member) bool { return m.name == name })
	if i < 0 || !f.members[i].of.isTag() {
		return member{}, false
	}
	return f.members[i], true
}

// common lists the tags that all objects have: by them they are told apart.
func common(objects []*form) (out []member) {
	for _, m := range objects[0].members {
		if !slices.ContainsFunc(objects, func(one *form) bool { _, ok := one.tag(m.name); return !ok }) {
			out = append(out, m)
		}
	}
	return out
}

// tagged gives the objects whose tags are those that came, or all if no object has all of them.
func tagged(objects []*form, of map[string]any) (out []*form) {
	tags := common(objects)
	for _, one := range objects {
		if !slices.ContainsFunc(tags, func(m member) bool {
			tag, _ := one.tag(m.name)
			v, there := of[m.name]
			return there && !tag.of.takes(v)
		}) {
			out = append(out, one)
		}
	}
	if len(out) == 0 {
		return objects
	}
	return out
}

// tags tells of a tag that is missing though all objects want it, or has a value that none of them has.
func (c *checker) tags(objects []*form, of map[string]any, at *place) bool {
	for _, m := range common(objects) {
		v, there := of[m.name]
		possible := &form{kind: union}
		known := false
		for _, one := range objects {
			tag, _ := one.tag(m.name)
			known = known || there && tag.of.takes(v) || !there && !tag.must
			if tag.of.kind == literal {
				possible.of = append(possible.of, tag.of)
			} else {
				possible.of = append(possible.of, tag.of.of...)
			}
		}
		if known {
			continue
		}
		c.under(m.rule, func() {
			if there {
				c.say(at.member(m.name), possible.String(), got(v))
			} else {
				c.say(at, m.name+" is required: "+possible.String(), "nothing")
			}
		})
		if !there {
			c.untagged(objects, m.name, of, at)
		}
		return true
	}
	return false
}

// untagged goes on with an object that lacks nothing but its tag.
func (c *checker) untagged(objects []*form, name string, of map[string]any, at *place) {
	for _, one := range objects {
		if !slices.ContainsFunc(one.members, func(m member) bool { _, there := of[m.name]; return m.must && !there && m.name != name }) {
			whole := maps.Clone(of)
			tag, _ := one.tag(name)
			for ; tag.of.kind == union; tag.of = tag.of.of[0] {
			}
			whole[name] = tag.of.text
			c.check(one, whole, at)
			return
		}
	}
}

// likeness counts how much of a form is there.
func (f *form) likeness(of map[string]any) int {
	n := 0
	for _, m := range f.members {
		value, there := of[m.name]
		switch {
		case there && m.of.isTag() && m.of.takes(value):
			n += 10
		case there:
			n++
		case m.must:
			n -= 2
		}
	}
	return n
}
