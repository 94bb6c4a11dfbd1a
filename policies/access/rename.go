package access

import (
	"bytes"
	"slices"
	"strings"

	"dragoman/policies"
	"dragoman/proxy/wire"
)

// Renames maps the server's names and URIs to those that clients see.
type Renames struct{ Tools, Prompts, Resources map[string]string }

func (r *Renames) empty() bool { return len(r.Tools)+len(r.Prompts)+len(r.Resources) == 0 }

// renaming translates names in both directions.
type renaming struct{ toClient, toServer policies.Patterns[newName] }

// newName is the replacement for a name: to, followed by the bytes of the name after the first cut.
type newName struct {
	to  string
	cut int // -1: to replaces the whole name
}

func (n newName) of(name []byte) []byte {
	if n.cut < 0 {
		return []byte(n.to)
	}
	return slices.Concat([]byte(n.to), name[n.cut:])
}

func newRenaming(names map[string]string) renaming {
	there, back := make(map[string]newName, len(names)), make(map[string]newName, len(names))
	for own, theirs := range names {
		from, star := strings.CutSuffix(own, "*")
		to, _ := strings.CutSuffix(theirs, "*")
		if star {
			there[own], back[theirs] = newName{to, len(from)}, newName{from, len(to)}
		} else {
			there[own], back[theirs] = newName{theirs, -1}, newName{own, -1}
		}
	}
	return renaming{toClient: policies.NewPatterns(there), toServer: policies.NewPatterns(back)}
}

func (r *renaming) empty() bool { return r.toClient.Empty() }

// client returns the client's name for a server's name.
func (r *renaming) client(name []byte) []byte {
	if to, ok := r.toClient.FindExact(name); ok {
		return to.of(name)
	}
	return name
}

// server returns the server's name for a client's name. ok is false for a server's name that has been renamed, which
// clients do not know, in any spelling of the name.
func (r *renaming) server(name []byte) (own []byte, ok bool) {
	if from, found := r.toServer.FindExact(name); found {
		return from.of(name), true
	}
	_, hidden := r.toClient.Find(name)
	return name, !hidden
}

// replace writes the client's name at s if it differs.
func (r *renaming) replace(m *wire.Message, s wire.Span) {
	name := s.Text(m.Raw)
	if theirs := r.client(name); !bytes.Equal(theirs, name) {
		m.Replace(s, wire.AppendText(nil, theirs))
	}
}
