package registry

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"dragoman/adapters/httpd/http1"
	"dragoman/internal/config/value"
	"dragoman/internal/imported"
	"dragoman/proxy/wire"
)

// piece is a part of a template: text as it is, or the value of a variable.
type piece struct{ literal, variable string }

// template is a value with variables in it.
type template []piece

// braces matches a variable in a template.
var braces = regexp.MustCompile(`\{([a-zA-Z_][a-zA-Z0-9_.-]*)\}`)

// inputs collects the variables of one way to use a server, and what is wrong with it.
type inputs struct {
	variables []imported.Variable
	notes     []string
	problem   error // the first one
}

func (in *inputs) fail(format string, args ...any) {
	if in.problem == nil {
		in.problem = fmt.Errorf(format, args...)
	}
}

func (in *inputs) note(format string, args ...any) {
	in.notes = append(in.notes, fmt.Sprintf(format, args...))
}

// of returns a variable by its name.
func (in *inputs) of(name string) *imported.Variable {
	at := slices.IndexFunc(in.variables, func(v imported.Variable) bool { return v.Name == name })
	if at < 0 {
		return &imported.Variable{Name: name}
	}
	return &in.variables[at]
}

// add adds a variable and returns its name, which is another one if two have the same.
func (in *inputs) add(name string, i *Input, secret, repeated bool) string {
	v := imported.Variable{Name: name, Description: described(i), Choices: i.Choices, Secret: i.Secret || secret, Required: i.Required, Repeated: repeated,
		Kind: map[string]imported.Kind{"number": imported.Number, "boolean": imported.Boolean, "filepath": imported.File}[i.Format]}
	if i.Default != "" && !v.Secret { // a secret that everybody has is an example
		if v.Check([]string{i.Default}) != nil || imported.Reads(i.Default) {
			in.note("the default of %s is not taken over: it is not valid", wire.Shown(name))
		} else {
			v.Default = i.Default
		}
	}
	for n := 2; slices.ContainsFunc(in.variables, func(other imported.Variable) bool { return other.Name == v.Name }); n++ {
		v.Name = name + "-" + strconv.Itoa(n)
	}
	if len(in.variables) >= maxInputs {
		in.fail("it asks for more than %d values", maxInputs)
	} else {
		in.variables = append(in.variables, v)
	}
	return v.Name
}

// described returns what a person is told of an input.
func described(i *Input) string {
	text := i.Description
	if i.Placeholder != "" {
		text = strings.TrimSpace(text + " (such as " + i.Placeholder + ")")
	}
	return text
}

// split makes a template of a value. Braces around what is no variable stay. must says that each variable needs a value, and secret that one of
// them holds a secret.
func (in *inputs) split(text string, variables map[string]Input, must, secret bool) (t template) {
	if len(text) > maxText {
		in.fail("one of its values has more than %d bytes", maxText)
		return nil
	}
	for _, v := range variables {
		secret = secret && !v.Secret // it is that one
	}
	names := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if i := variables[name]; strings.Contains(text, "{"+name+"}") {
			if i.Value != "" { // a fixed one
				continue
			}
			i.Required = i.Required || must
			names[name] = in.add(name, &i, secret, false)
		}
	}
	at := 0
	for _, m := range braces.FindAllStringSubmatchIndex(text, -1) {
		name := text[m[2]:m[3]]
		fixed := variables[name].Value
		if names[name] == "" && fixed == "" {
			continue
		}
		if t = append(t, piece{literal: text[at:m[0]] + fixed}); fixed == "" {
			t = append(t, piece{variable: names[name]})
		}
		at = m[1]
	}
	return append(t, piece{literal: text[at:]})
}

// reads reports whether what is fixed in a template would be resolved as a reference.
func (t template) reads() bool {
	var all strings.Builder
	for _, p := range t {
		all.WriteString(p.literal)
		if p.variable != "" {
			all.WriteByte('x')
		}
	}
	return imported.Reads(all.String())
}

// secret reports whether one of the variables is a secret.
func (t template) secret(in *inputs) bool {
	return slices.ContainsFunc(t, func(p piece) bool { return p.variable != "" && in.of(p.variable).Secret })
}

// fill returns the text that values make of a template; ok is false if one has no value.
func (t template) fill(in *inputs, given imported.Values) (text imported.Text, ok bool, err error) {
	for _, p := range t {
		if p.variable == "" {
			if p.literal != "" {
				text = append(text, imported.Part{Literal: p.literal})
			}
			continue
		}
		values := in.of(p.variable).Of(given)
		if len(values) == 0 {
			return nil, false, nil
		}
		part := imported.ValuePart(values[0])
		if strings.HasPrefix(part.Variable, "file:") && len(t.solid()) > 1 {
			return nil, false, fmt.Errorf("%s is only a part of a value, which cannot refer to a file; fix: write %s=env:NAME", wire.Shown(p.variable), wire.Shown(p.variable))
		}
		text = append(text, part)
	}
	return text, true, nil
}

// solid returns the pieces that are not empty.
func (t template) solid() template {
	return slices.DeleteFunc(slices.Clone(t), func(p piece) bool { return p == piece{} })
}

// setting is a header or a variable of the environment before its values are known.
type setting struct {
	name   string
	value  template
	secret bool
}

// settings makes the settings of fields. headers says that they are headers.
func (in *inputs) settings(fields []Field, headers bool) (all []setting) {
	what := map[bool]string{true: "header", false: "variable"}[headers]
	for i := range fields {
		f := &fields[i]
		switch {
		case headers && !http1.ValidName(f.Name), !headers && !value.IsVariable(f.Name):
			in.fail("%q is no name of a %s", wire.Shown(f.Name), what)
			return nil
		case slices.ContainsFunc(all, func(s setting) bool { return s.name == f.Name || headers && strings.EqualFold(s.name, f.Name) }):
			in.fail("the %s %s is there twice", what, f.Name)
			return nil
		}
		s := setting{name: f.Name, secret: f.Secret}
		if f.Value != "" {
			s.value = in.split(f.Value, f.Variables, f.Required, f.Secret)
		} else {
			s.value = template{{variable: in.add(f.Name, &f.Input, false, false)}}
		}
		if s.value.reads() || value.HasControl(f.Value) {
			in.fail("the %s %s has a fixed value that would read secrets of the running dragoman, or control characters", what, f.Name)
			return nil
		}
		s.secret = s.secret || s.value.secret(in)
		all = append(all, s)
	}
	return all
}

// filled returns the settings that have values.
func (in *inputs) filled(all []setting, given imported.Values) (filled []imported.Setting, err error) {
	for _, s := range all {
		text, ok, err := s.value.fill(in, given)
		if err != nil {
			return nil, err
		}
		if text.Reads() {
			return nil, fmt.Errorf("the value of %s would read secrets of the running dragoman; fix: give the reference alone, as env:NAME", s.name)
		}
		if ok && len(text) > 0 {
			filled = append(filled, imported.Setting{Name: s.name, Value: text, Secret: s.secret})
		}
	}
	return filled, nil
}

// word is an argument before its values are known.
type word struct {
	before   string // what begins it, such as --port=
	apart    bool   // before is a word of its own
	value    template
	repeated string // the variable of which each value is such a word; empty: value counts
}

var argumentName = regexp.MustCompile(`^-{0,2}[A-Za-z0-9][A-Za-z0-9_.-]*$`)

// words makes the words of arguments.
func (in *inputs) words(arguments []Argument) (all []word) {
	for i := range arguments {
		a := &arguments[i]
		named := a.Type == "named"
		switch {
		case !named && a.Type != "positional":
			in.fail("an argument has the type %q, which is not known", wire.Shown(a.Type))
			return nil
		case named && !argumentName.MatchString(a.Name):
			in.fail("%q is no name of an argument", wire.Shown(a.Name))
			return nil
		case value.HasControl(a.Value):
			in.fail("an argument has control characters")
			return nil
		}
		w, ok := in.word(a, named, i)
		if ok {
			all = append(all, w)
		}
	}
	return all
}

// word makes the word of an argument; ok is false if it is left out.
func (in *inputs) word(a *Argument, named bool, at int) (w word, ok bool) {
	name := "argument-" + strconv.Itoa(at+1)
	if a.ValueHint != "" {
		name = a.ValueHint
	}
	if named {
		w.before, w.apart = a.Name, true
		if strings.HasPrefix(a.Name, "--") { // so that a value that begins with a hyphen is none
			w.before, w.apart = a.Name+"=", false
		}
		name = strings.TrimLeft(a.Name, "-")
	}
	secret := a.Secret
	for _, v := range a.Variables {
		secret = secret || v.Secret
	}
	switch {
	case secret && a.Required:
		in.fail("it wants a secret as the argument %s, and everybody on the machine can see arguments", wire.Shown(name))
		return w, false
	case secret:
		in.note("the argument %s is left out: it is a secret, and everybody on the machine can see arguments", wire.Shown(name))
		return w, false
	case a.Value != "":
		w.value = in.split(a.Value, a.Variables, a.Required, false)
	case named && bare(&a.Input):
		w.before, w.apart = a.Name, true
	default:
		variable := in.add(name, &a.Input, false, a.Repeated)
		if w.value = (template{{variable: variable}}); a.Repeated {
			w.repeated = variable
		}
	}
	return w, true
}

// bare reports whether nothing says that an option has a value.
func bare(i *Input) bool {
	return i.Value == "" && i.Default == "" && i.Description == "" && i.Placeholder == "" && i.Format == "" && len(i.Choices) == 0 && !i.Required
}

// spelled returns words with their values, in which nothing is a reference. Those without a value are left out.
func (in *inputs) spelled(all []word, given imported.Values) (words []string, err error) {
	for _, w := range all {
		texts := []template{w.value}
		if w.repeated != "" {
			texts = nil
			for _, text := range in.of(w.repeated).Of(given) {
				texts = append(texts, template{{literal: text}})
			}
		}
		for _, t := range texts {
			text, ok, err := t.fill(in, given)
			switch {
			case err != nil:
				return nil, err
			case !ok:
				continue
			case len(text.Variables()) > 0 || w.repeated != "" && imported.Refers(t[0].literal):
				return nil, fmt.Errorf("a reference stands in an argument, where nothing reads it; fix: write the value itself")
			}
			switch plain := text.String(); {
			case w.apart && w.value == nil:
				words = append(words, w.before)
			case w.apart:
				words = append(words, w.before, plain)
			default:
				words = append(words, w.before+plain)
			}
		}
	}
	return words, nil
}
