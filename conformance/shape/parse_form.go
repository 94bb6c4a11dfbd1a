package shape

import (
	"fmt"
	"strconv"
	"strings"
)

// form reads alternatives, each with its range: one "|" two @2025-06-18.. "|" three.
func (p *parser) form() (*form, error) {
	whole := &form{kind: union, in: ever()}
	for more := true; more; more = p.skip("|") {
		one, err := p.repeated()
		if err != nil {
			return nil, err
		}
		if one.in, err = p.span(); err != nil {
			return nil, err
		}
		whole.of = append(whole.of, one)
	}
	if len(whole.of) == 1 {
		return whole.of[0], nil
	}
	for _, one := range whole.of {
		if one.kind == literal && one.in != ever() {
			return nil, fmt.Errorf("the range of %q would be that of this value alone: put the values in ( )", one.text)
		}
	}
	return whole, nil
}

// repeated reads a type and the brackets behind it.
func (p *parser) repeated() (*form, error) {
	f, err := p.primary()
	for err == nil && p.skip("[") {
		list := &form{kind: array, in: ever(), of: []*form{f}}
		if !p.is(0, "]") {
			if list.bounds, err = p.bounds(); err != nil {
				return nil, err
			}
		}
		if err = p.want("]"); err != nil {
			return nil, err
		}
		f = list
	}
	return f, err
}

func (p *parser) bounds() (*bounds, error) {
	pair, err := p.word()
	if err != nil {
		return nil, err
	}
	low, high, ok := strings.Cut(pair, "..")
	if !ok {
		return nil, fmt.Errorf("limits such as 0..1 are expected instead of %q", pair)
	}
	b := &bounds{}
	for _, end := range []struct {
		text string
		at   **float64
	}{{low, &b.low}, {high, &b.high}} {
		if end.text == "" {
			continue
		}
		n, err := strconv.ParseFloat(end.text, 64)
		if err != nil {
			return nil, err
		}
		*end.at = &n
	}
	return b, nil
}

// primary reads a literal, a name, an object, or what is in ( ).
func (p *parser) primary() (f *form, err error) {
	switch t := p.take(); {
	case t.sort == quoted:
		return &form{kind: literal, in: ever(), text: t.text}, nil
	case t.sort == mark && t.text == "{":
		return p.object()
	case t.sort == mark && t.text == "(":
		if f, err = p.form(); err != nil {
			return nil, err
		}
		return f, p.want(")")
	case t.sort == word:
		return p.named(t.text)
	default:
		return nil, fmt.Errorf("a type is expected instead of %q", t.text)
	}
}

// named gives what a name stands for: a primitive, a format of strings, or another definition.
func (p *parser) named(name string) (f *form, err error) {
	f = &form{kind: reference, in: ever(), text: name}
	if kind, ok := primitives[name]; ok {
		f.kind, f.text = kind, ""
	} else if _, ok := formats[name]; ok {
		f.kind = text
	}
	if (f.kind == number || f.kind == integer) && p.skip("(") {
		if f.bounds, err = p.bounds(); err != nil {
			return nil, err
		}
		return f, p.want(")")
	}
	return f, nil
}

// object reads the members behind "{".
func (p *parser) object() (*form, error) {
	f := &form{kind: object, in: ever()}
	for !p.skip("}") {
		var err error
		switch {
		case p.skip("*"):
			if err = p.want(":"); err == nil {
				f.rest, err = p.form()
			}
		case p.is(0, "needs") && !p.is(1, ":") && !p.is(1, "?"):
			p.take()
			err = p.clause(&f.needs)
		case p.is(0, "keys") && !p.is(1, ":") && !p.is(1, "?"):
			p.take()
			err = p.clause(&f.keys)
		default:
			err = p.member(f)
		}
		if err != nil {
			return nil, err
		}
	}
	return f, nil
}

// clause reads the names behind "needs" or "keys", and their range.
func (p *parser) clause(into *[]need) (err error) {
	n := need{}
	for more := true; more; more = p.skip("or") {
		name, err := p.word()
		if err != nil {
			return err
		}
		n.names = append(n.names, name)
	}
	n.in, err = p.span()
	*into = append(*into, n)
	return err
}

// member reads name: type, name?: type, or ...Name.
func (p *parser) member(of *form) (err error) {
	name, err := p.word()
	if err != nil {
		return err
	}
	if other, spread := strings.CutPrefix(name, "..."); spread {
		f := &form{kind: reference, text: other}
		f.in, err = p.span()
		of.members = append(of.members, member{spread: true, of: f})
		return err
	}
	m := member{name: name, must: !p.skip("?")}
	if err := p.want(":"); err != nil {
		return err
	}
	if m.of, err = p.form(); err != nil {
		return err
	}
	if p.peek().sort == aside {
		m.rule = p.take().text
	}
	of.members = append(of.members, m)
	return nil
}
