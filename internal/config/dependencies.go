package config

import (
	"slices"
	"strings"
	"time"
)

const dependencyTime = time.Second

// dependencyParts are the keys that count.
func dependencyParts(d *Dependency) []part {
	return []part{
		{key: "host", doc: "host that is looked after by opening a connection", field: textField{at: &d.Host, what: "a name or an address", empty: true}},
		{key: "port", doc: "port of the host", field: intField{at: &d.Port, least: 1, most: 65535}},
		{key: "url", doc: "address that is looked after by a GET, which must be answered with a status below 400", field: checkURLField{at: &d.URL}},
		{key: "timeout", doc: "time for one look", field: durationField{at: &d.Timeout, least: 100 * time.Millisecond, most: time.Minute}},
	}
}

// takeDependency reads one key of the table, whose names are the user's: what a service needs to know of a dependency
// besides, such as a user's name, may stand there too, and is not ours.
func takeDependency(c *Config, own []string, v Literal) error {
	if len(own) == 0 || v.Kind == nullLiteral {
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
		text, ok := v.scalarText()
		if !ok || text == "" {
			return problemf("must be a name or an address, not %s", v.show())
		}
		d.Host = text
	case "url":
		text, ok := v.scalarText()
		if !ok || !strings.HasPrefix(text, "http://") && !strings.HasPrefix(text, "https://") {
			return &problem{what: v.show() + " cannot be asked", fix: `write an address such as "http://localhost:7444/health"`}
		}
		d.URL = text
	case "port", "timeout":
		parts := dependencyParts(d)
		return parts[slices.IndexFunc(parts, func(p part) bool { return p.key == own[1] })].field.Set(v)
	}
	return nil
}
