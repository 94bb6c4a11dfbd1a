package view

import (
	"slices"
	"strings"

	"dragoman/proxy/wire"
)

// Capabilities returns the union of the capabilities of all members: of objects the union of their members, of truth values their
// disjunction, of others the first.
func (v *View) Capabilities() []byte {
	all := []byte("{}")
	for _, s := range v.snap.Servers {
		if v.of.members[s.Name] != nil && len(s.Capabilities) > 0 {
			all = union(all, s.Capabilities, 0)
		}
	}
	return all
}

// maxUnion bounds the depth to which union looks.
const maxUnion = 4

// union joins two JSON objects.
func union(a, b []byte, depth int) []byte {
	var changes []wire.Change
	for key, value := range wire.Members(b, wire.Whole(b)) {
		name := string(key.Of(b))
		name = name[1 : len(name)-1]
		before := wire.Get(a, wire.Whole(a), string(key.Text(b)))
		switch {
		case !before.Present(), string(before.Of(a)) == "false" && string(value.Of(b)) == "true":
			changes = append(changes, wire.Change{Key: name, Value: value.Of(b)})
		case before.IsObject(a) && value.IsObject(b) && depth < maxUnion:
			changes = append(changes, wire.Change{Key: name, Value: union(before.Of(a), value.Of(b), depth+1)})
		}
	}
	for part := range slices.Chunk(changes, maxChanges) {
		a = wire.With(a, part...)
	}
	return a
}

// maxChanges is how many members of an object are edited at once (wire.EditObject).
const maxChanges = 64

// Instructions joins those of the members, each under its name.
func (v *View) Instructions() string {
	var b strings.Builder
	for _, s := range v.snap.Servers {
		if v.of.members[s.Name] == nil || s.Instructions == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString("# " + s.Name + "\n\n" + s.Instructions)
	}
	return b.String()
}
