package shape

import (
	"embed"
	"fmt"
	"slices"
	"sync"
)

//go:embed definitions/*.shape
var files embed.FS

// library is all definitions, and what they are in each revision.
type library struct {
	said  *notation
	books []*book // by revision, as in revisions
}

// book is what one revision prescribes, without ranges and references.
type book struct {
	number   int
	revision string
	types    map[string]*form
	requests [2]map[string]*entry // by Side
	notices  [2]map[string]*entry
	results  map[string]*entry // by the method of the request
	faults   []fault
	said     *notation
}

// entry is the params of a message, or the result of a request, within a revision.
type entry struct {
	form *form
	must bool // params have to be there
	rule string
}

// load reads the definitions once.
var load = sync.OnceValues(func() (*library, error) {
	said := &notation{types: map[string]*form{}}
	entries, err := files.ReadDir("definitions")
	if err != nil {
		return nil, fmt.Errorf("shape: %w", err)
	}
	for _, e := range entries {
		raw, err := files.ReadFile("definitions/" + e.Name())
		if err != nil {
			return nil, fmt.Errorf("shape: %w", err)
		}
		if err := parse(e.Name(), string(raw), said); err != nil {
			return nil, err
		}
	}
	return assemble(said)
})

// assemble makes a book for each revision.
func assemble(said *notation) (*library, error) {
	l := &library{said: said}
	for i := range revisions {
		b, err := write(said, i)
		if err != nil {
			return nil, err
		}
		l.books = append(l.books, b)
	}
	for name := range said.types {
		if !slices.ContainsFunc(l.books, func(b *book) bool { return b.types[name] != nil }) {
			return nil, fmt.Errorf("shape: %s belongs to no revision, or is defined by itself", name)
		}
	}
	return l, nil
}

// open gives the book of a revision.
func open(revision string) (*book, error) {
	l, err := load()
	if err != nil {
		return nil, err
	}
	i := slices.Index(revisions, revision)
	if i < 0 {
		return nil, fmt.Errorf("shape: no revision %q; known are %v", revision, revisions)
	}
	return l.books[i], nil
}

// builder makes the forms of one revision. What it meets while it is still being made is in open.
type builder struct {
	said     *notation
	revision int
	made     map[string]*form
	open     map[string]bool
}

func write(said *notation, revision int) (*book, error) {
	b := builder{said: said, revision: revision, made: map[string]*form{}, open: map[string]bool{}}
	k := &book{
		number: revision, revision: revisions[revision], types: b.made, results: map[string]*entry{}, said: said,
		requests: [2]map[string]*entry{{}, {}}, notices: [2]map[string]*entry{{}, {}},
	}
	for name, f := range said.types {
		if b.alive(f, 0) {
			if _, err := b.named(name); err != nil {
				return nil, err
			}
		}
	}
	for _, m := range said.messages {
		if err := b.message(k, m); err != nil {
			return nil, fmt.Errorf("%w, in %s", err, m.method)
		}
	}
	for _, f := range said.faults {
		if !f.in.has(revision) {
			continue
		}
		if f.data != nil {
			data, err := b.form(f.data)
			if err != nil {
				return nil, err
			}
			f.data = data
		}
		k.faults = append(k.faults, f)
	}
	return k, nil
}

// message enters a message for those who send it in this revision.
func (b *builder) message(k *book, m message) error {
	for side, in := range m.from {
		if !in.has(b.revision) {
			continue
		}
		params, err := b.form(m.params)
		if err != nil {
			return err
		}
		e := &entry{form: params, must: m.needs || required(params), rule: m.rule}
		if m.notice {
			k.notices[side][m.method] = e
			continue
		}
		k.requests[side][m.method] = e
		result, err := b.form(m.result)
		if err != nil {
			return err
		}
		k.results[m.method] = &entry{form: result, rule: m.rule}
	}
	return nil
}

// required says whether something within the params has to be there, so that they have to be there themselves.
func required(f *form) bool {
	if f.kind == union {
		return !slices.ContainsFunc(f.of, func(one *form) bool { return !required(one) })
	}
	return slices.ContainsFunc(f.members, func(m member) bool { return m.must })
}

// alive says whether a form belongs to the revision. A member, an array, a union, a name is what it is made of.
func (b *builder) alive(f *form, depth int) bool {
	if !f.in.has(b.revision) || depth > 50 {
		return false
	}
	switch f.kind {
	case reference:
		other := b.said.types[f.text]
		return other == nil || b.alive(other, depth+1) // what is not defined is an error of named
	case array:
		return b.alive(f.of[0], depth+1)
	case union:
		return slices.ContainsFunc(f.of, func(one *form) bool { return b.alive(one, depth+1) })
	}
	return true
}

// named gives the form of a definition; one that is still being made may be referred to, but is not complete.
func (b *builder) named(name string) (*form, error) {
	if f := b.made[name]; f != nil {
		return f, nil
	}
	source := b.said.types[name]
	if source == nil {
		return nil, fmt.Errorf("shape: %s is not defined", name)
	}
	f := &form{}
	b.made[name], b.open[name] = f, true
	defer delete(b.open, name)
	only := b.only(source)
	if only.kind != reference {
		return f, b.fill(f, only)
	}
	other, err := b.named(only.text)
	if err != nil || b.open[only.text] {
		return nil, fmt.Errorf("shape: %s is defined by itself (%w)", name, err)
	}
	*f = *other
	return f, nil
}

// form gives what a form is in this revision; it has to be alive.
func (b *builder) form(source *form) (*form, error) {
	source = b.only(source)
	if source.kind == reference {
		return b.named(source.text)
	}
	f := &form{}
	return f, b.fill(f, source)
}

// only gives the alternative if this revision has but one, else the form itself.
func (b *builder) only(source *form) *form {
	if source.kind != union {
		return source
	}
	var last *form
	for _, one := range source.of {
		if b.alive(one, 0) {
			if last != nil {
				return source
			}
			last = one
		}
	}
	return b.only(last)
}

// fill builds a form in its place.
func (b *builder) fill(f, source *form) error {
	*f = form{kind: source.kind, text: source.text, bounds: source.bounds, rule: source.rule, in: ever()}
	for _, one := range source.of {
		if !b.alive(one, 0) {
			continue
		}
		made, err := b.form(one)
		if err != nil {
			return err
		}
		if f.kind == union && made.kind == union { // alternatives of an alternative; a checker sees them all at once
			f.of = append(f.of, made.of...)
			continue
		}
		f.of = append(f.of, made)
	}
	if source.rest != nil {
		rest, err := b.form(source.rest)
		if err != nil {
			return err
		}
		f.rest = rest
	}
	f.needs = b.clauses(source.needs)
	f.keys = b.clauses(source.keys)
	for _, m := range source.members {
		if err := b.member(f, m); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) clauses(all []need) (out []need) {
	for _, n := range all {
		if n.in.has(b.revision) {
			out = append(out, n)
		}
	}
	return out
}

// member adds a member, or those of another object.
func (b *builder) member(f *form, m member) error {
	if !b.alive(m.of, 0) {
		return nil
	}
	made, err := b.form(m.of)
	if err != nil {
		return err
	}
	if !m.spread {
		return f.add(member{name: m.name, must: m.must, of: made, rule: m.rule})
	}
	if made.kind != object || made.rest != nil || b.open[m.of.text] {
		return fmt.Errorf("shape: ...%s is no object that is complete", m.of.text)
	}
	for _, other := range made.members {
		if other.rule == "" {
			other.rule = made.rule
		}
		if err := f.add(other); err != nil {
			return err
		}
	}
	f.needs, f.keys = append(f.needs, made.needs...), append(f.keys, made.keys...)
	return nil
}

// add refuses a second member of one name within a revision.
func (f *form) add(m member) error {
	if slices.ContainsFunc(f.members, func(other member) bool { return other.name == m.name }) {
		return fmt.Errorf("shape: the member %s is defined twice", m.name)
	}
	f.members = append(f.members, m)
	return nil
}
