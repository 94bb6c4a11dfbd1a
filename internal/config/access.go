package config

import (
	"strings"

	"dragoman/internal/config/field"
	"dragoman/internal/config/value"
)

// grantKeys returns the keys for what may be used of an upstream.
func grantKeys() []setting[Upstream] {
	named := func(key, what string, at func(*Upstream) *[]*ThingConfig) setting[Upstream] {
		return setting[Upstream]{Key: key, doc: "settings of single " + key + "; " + what + " that ends in * stands for all that begin so: enabled, rename", open: true,
			parts: partsOf(func(u *Upstream, name string) (*ThingConfig, error) {
				if err := checkPattern(name, what); err != nil {
					return nil, err
				}
				return entryOf(at(u), func(t *ThingConfig) string { return t.Name }, name, func() *ThingConfig { return &ThingConfig{Name: name, Enabled: true} }), nil
			}, func(t *ThingConfig) []part {
				return []part{
					{key: "enabled", doc: "whether clients see it", field: field.Bool{At: &t.Enabled}},
					{key: "rename", doc: "what clients call it", field: renameField(&t.Rename, t.Name)},
				}
			}),
			names: func(u *Upstream) (names []string) {
				for _, t := range *at(u) {
					names = append(names, t.Name)
				}
				return names
			}}
	}
	return []setting[Upstream]{
		named(PromptsKey, "a name", func(u *Upstream) *[]*ThingConfig { return &u.Prompts }),
		named(ResourcesKey, "a URI", func(u *Upstream) *[]*ThingConfig { return &u.Resources }),
		{Key: AccessKey, doc: "what a principal may use, by principal, or * for all principals without an entry: tools, prompts, resources, deny_tools, deny_prompts, deny_resources", open: true,
			parts: partsOf(func(u *Upstream, name string) (*GrantConfig, error) {
				if name == "" {
					return nil, &value.Problem{What: "has no name", Fix: "write the principal's, or * for everybody who has no entry of his own"}
				}
				return entryOf(&u.Access, func(g *GrantConfig) string { return g.Principal }, name, func() *GrantConfig { return &GrantConfig{Principal: name} }), nil
			}, grantParts),
			names: func(u *Upstream) (names []string) {
				for _, g := range u.Access {
					names = append(names, g.Principal)
				}
				return names
			}},
	}
}

func grantParts(g *GrantConfig) []part {
	list := func(key, doc, what string, at *[]string) part {
		return part{key: key, doc: doc, field: field.List{At: at, Check: func(item string) error { return checkPattern(item, what) },
			What: `a list of names and of beginnings such as ["read_*"]`, Most: maxList}}
	}
	return []part{
		list("tools", "tools that may be used; empty: all that are not denied", "a name", &g.Tools),
		list("prompts", "prompts that may be used", "a name", &g.Prompts),
		list("resources", "URIs of resources that may be used", "a URI", &g.Resources),
		list("deny_tools", "tools that may not be used", "a name", &g.DenyTools),
		list("deny_prompts", "prompts that may not be used", "a name", &g.DenyPrompts),
		list("deny_resources", "URIs of resources that may not be used", "a URI", &g.DenyResources),
	}
}

// checkPattern accepts a name, or the beginning of names followed by a *.
func checkPattern(name, what string) error {
	if star := strings.IndexByte(name, '*'); name == "" || len(name) > 4096 || value.HasControl(name) || star >= 0 && star < len(name)-1 {
		return &value.Problem{What: value.Quote(value.Shorten(name)) + " is not " + what, Fix: "write " + what + ", or the beginning of some with a * behind"}
	}
	return nil
}

// renameField returns the field for what clients call something of the server's.
func renameField(at *string, name string) field.Field {
	return newNameField{field.Text{At: at, What: "a name; of one that ends in *, another that does", Empty: true}, strings.HasSuffix(name, "*")}
}

// nameText is embedded under this name because Text is a method.
type nameText = field.Text

type newNameField struct {
	nameText
	star bool
}

func (f newNameField) Set(v value.Literal) error {
	was := *f.At
	if err := f.nameText.Set(v); err != nil || *f.At == "" {
		return err
	}
	if text := *f.At; strings.Contains(strings.TrimSuffix(text, "*"), "*") || strings.HasSuffix(text, "*") != f.star {
		*f.At = was
		return value.Problemf("%s: either both names end in *, or neither has one", v.Show())
	}
	return nil
}

// checkNames reports names that two things would have.
func (l *loader) checkNames(u *Upstream, table string, at func(key string) value.Source) {
	taken := func(key string, names map[string]string) {
		of := make(map[string]string, len(names))
		for own, theirs := range names {
			if other, twice := of[theirs]; twice {
				first, second := min(own, other), max(own, other)
				l.fail(&value.Problem{What: value.Quote(first) + " and " + value.Quote(second) + " would both be called " + value.Quote(theirs), Fix: "rename one of them otherwise"},
					table+"."+key, at(key), "")
			}
			of[theirs] = own
		}
	}
	r := u.renames()
	taken(ToolsKey, r.Tools)
	taken(PromptsKey, r.Prompts)
	taken(ResourcesKey, r.Resources)
}
