package config

import (
	"slices"
)

// part is one key of an entry in a table whose entries the user names: upstreams.NAME.tools.TOOL.timeout is the part "timeout" of
// the entry TOOL.
type part struct {
	key    string
	doc    string // one line: what it is
	secret bool   // never shown; "env:NAME" and "file:/path" are followed
	field  field
}

// partsOf makes the parts function of a setting: find gives the entry of a name, made if it was not there, or says what is wrong
// with the name; keys gives its keys.
func partsOf[T, E any](find func(at *T, name string) (*E, error), keys func(e *E) []part) func(*T, string) ([]part, error) {
	return func(at *T, name string) ([]part, error) {
		e, err := find(at, name)
		if err != nil {
			return nil, err
		}
		return keys(e), nil
	}
}

// entryOf finds the entry of a name in a list, or appends the one that fresh makes.
func entryOf[E any](list *[]*E, name func(*E) string, wanted string, fresh func() *E) *E {
	if i := slices.IndexFunc(*list, func(e *E) bool { return name(e) == wanted }); i >= 0 {
		return (*list)[i]
	}
	e := fresh()
	*list = append(*list, e)
	return e
}
