package schema

import (
	"errors"
	"fmt"
	"strings"

	js "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// baseURL is the URL of the schema, for references that are relative. Nothing is loaded from it.
const baseURL = "dragoman:///schema"

// plan is a compiled schema with the facts that the meter needs of its subschemas.
type plan struct {
	root      *js.Schema
	facts     map[*js.Schema]*fact
	notes     []string
	collects  bool // it has unevaluatedProperties or unevaluatedItems, for which every step handles all members of its value
	skipTexts bool // no rule depends on the content of a text, so that texts need not be decoded
}

// noLoader refuses to load anything. The metaschemas are part of the library and do not pass through it.
type noLoader struct{}

// Load implements the library's URLLoader.
func (noLoader) Load(string) (any, error) { return nil, errors.New("nothing is loaded") }

// compile makes a plan. The text of its error may be shown to clients.
func compile(raw []byte) (*plan, error) {
	doc, bad := decode(raw, document)
	if bad != nil {
		bad.Path = shorten(bad.Path, 100)
		return nil, fmt.Errorf("schema: %s", bad)
	}
	anchors, err := survey(doc)
	if err != nil {
		return nil, err
	}
	p, err := build(doc, anchors, js.Draft2020)
	var invalid *js.SchemaValidationError
	if obj, ok := doc.(map[string]any); err != nil && ok && errors.As(err, &invalid) {
		// Before a missing $schema meant 2020-12, servers wrote draft-07.
		if _, named := obj["$schema"]; !named {
			if older, err7 := build(doc, anchors, js.Draft7); err7 == nil {
				return older, nil
			}
		}
	}
	if err != nil {
		return nil, explain(err)
	}
	return p, nil
}

func build(doc any, anchors []string, draft *js.Draft) (p *plan, err error) {
	defer rescue(&err)
	ps := newPatterns()
	c := js.NewCompiler()
	c.DefaultDraft(draft)
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(ps.compile)
	if err := c.AddResource(baseURL, doc); err != nil {
		return nil, err
	}
	root, err := c.Compile(baseURL)
	if err != nil {
		return nil, err
	}
	starts := []*js.Schema{root}
	for _, at := range anchors { // a $dynamicRef or $recursiveRef may reach them though nothing else refers to them
		if sch, err := c.Compile(baseURL + "#" + at); err == nil {
			starts = append(starts, sch)
		}
	}
	g := explore(starts)
	p = &plan{root: root, facts: map[*js.Schema]*fact{}, skipTexts: true, notes: g.soften()}
	for _, s := range g.all {
		p.collects = p.collects || s.UnevaluatedItems != nil || s.UnevaluatedProperties != nil
		p.skipTexts = p.skipTexts && !readsText(s)
		f := &fact{weight: weight(s), same: without(g.same(s), nil), names: s.PropertyNames}
		if re, ok := s.Pattern.(*pattern); ok {
			f.pattern = re.size
		}
		if s.PropertyNames != nil {
			s.Extensions, s.PropertyNames = append(s.Extensions, propertyNames{s.PropertyNames}), nil
		}
		p.facts[s] = f
	}
	return p, g.chains(p.facts)
}

// readsText reports whether a rule of s itself depends on the content or the length of a text. `format` and the content keywords
// are annotations here; names of properties are read in any case.
func readsText(s *js.Schema) bool {
	return s.MinLength != nil || s.MaxLength != nil || s.Pattern != nil || s.Const != nil || s.Enum != nil || s.UniqueItems ||
		s.Format != nil || s.ContentEncoding != nil || s.ContentMediaType != nil || len(s.Extensions) > 0
}

// propertyNames replaces the keyword, for which the library reports a wrong place: its paths share memory.
type propertyNames struct{ sch *js.Schema }

// Validate implements the library's SchemaExt.
func (p propertyNames) Validate(ctx *js.ValidatorContext, v any) {
	obj, _ := v.(map[string]any)
	for name := range obj {
		if err, _ := ctx.Validate(p.sch, name, []string{name}).(*js.ValidationError); err != nil {
			ctx.AddErrors([]*js.ValidationError{err}, &kind.PropertyNames{Property: name})
		}
	}
}

// validate runs the validator.
func (p *plan) validate(value any) (v *Violation, err error) {
	defer rescue(&err)
	failed := p.root.Validate(value)
	if failed == nil {
		return nil, nil
	}
	if why, ok := failed.(*js.ValidationError); ok {
		if v = report(why); v != nil {
			return v, nil
		}
	}
	return nil, fmt.Errorf("schema: the validator failed: %s", shorten(failed.Error(), 200))
}

// rescue turns a panic of the library into an error: untrusted input must not end the process.
func rescue(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("schema: the validator failed: %s", shorten(fmt.Sprint(r), 100))
	}
}

// explain reduces an error of the library to what a client can use.
func explain(err error) error {
	var load *js.LoadURLError
	var invalid *js.SchemaValidationError
	switch {
	case errors.As(err, &load):
		what := quote(strings.TrimPrefix(load.URL, "dragoman:///"))
		return fmt.Errorf("schema: %s is not in the schema itself, and nothing is loaded", what)
	case errors.As(err, &invalid):
		var why *js.ValidationError
		if errors.As(invalid.Err, &why) {
			if v := report(why); v != nil {
				return fmt.Errorf("schema: not valid against its metaschema: %s", v)
			}
		}
		return errors.New("schema: not valid against its metaschema")
	}
	text := strings.TrimPrefix(strings.ReplaceAll(err.Error(), baseURL, ""), "schema: ")
	return errors.New("schema: " + shorten(text, 300))
}
