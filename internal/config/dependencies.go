package config

import (
	"slices"
	"strings"
	"time"

	"dragoman/internal/config/field"
	"dragoman/internal/config/value"
)

const dependencyTime = time.Second

// dependencyParts are the keys of a dependency that Dragoman reads.
func dependencyParts(d *Dependency) []part {
	return []part{
		{key: "host", doc: "host that is checked by opening a connection", field: field.Text{At: &d.Host, What: "a name or an address", Empty: true}},
		{key: "port", doc: "port of the host", field: field.Int{At: &d.Port, Least: 1, Most: 65535}},
		{key: "url", doc: "URL that is checked by a GET, whose status must be below 400", field: field.CheckURL{At: &d.URL}},
		{key: "timeout", doc: "timeout of one check", field: field.Duration{At: &d.Timeout, Least: 100 * time.Millisecond, Most: time.Minute}},
	}
}

// takeDependency reads one key of the table dependencies. Users may add other keys, such as a user's name that the
// service needs; they are ignored.
func takeDependency(c *Config, own []string, v value.Literal) error {
	if len(own) == 0 || v.Kind == value.NullLiteral {
		return nil
	}
	i := slices.IndexFunc(c.Dependencies, func(d *Dependency) bool { return d.Name == own[0] })
	if i < 0 {
		i = len(c.Dependencies)
		c.Dependencies = append(c.Dependencies, &Dependency{Name: own[0], Timeout: dependencyTime})
	}
	if len(own) != 2 {
		return nil
	}
	d := c.Dependencies[i]
	switch own[1] {
	case "host":
		text, ok := v.ScalarText()
		if !ok || text == "" {
			return value.Problemf("must be a name or an address, not %s", v.Show())
		}
		d.Host = text
	case "url":
		text, ok := v.ScalarText()
		if !ok || !strings.HasPrefix(text, "http://") && !strings.HasPrefix(text, "https://") {
			return &value.Problem{What: v.Show() + " cannot be asked", Fix: `write an address such as "http://localhost:7444/health"`}
		}
		d.URL = text
	case "port", "timeout":
		parts := dependencyParts(d)
		return parts[slices.IndexFunc(parts, func(p part) bool { return p.key == own[1] })].field.Set(v)
	}
	return nil
}
