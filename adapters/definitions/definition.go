// Package definitions keeps what models read of servers to what was approved: the definitions of tools, prompts and resource templates, and the
// instructions of a server.
//
// Lists are judged by what is in them, whoever asks: an item that is not the approved one is left out. Requests are judged by the name in
// them, and by what is known of the definition of that name.
package definitions

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strings"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/era/seal"
	"dragoman/proxy/wire"
)

// Instructions is the kind of the instructions of a server, whose key is empty. The other kinds are those of the catalogue, but for resources,
// which are data.
const Instructions = "instructions"

// Thing names a definition of a server.
type Thing struct{ Kind, Key string }

// visible are the members of a definition that a model sees, by kind.
var visible = map[string][]string{
	catalogue.Tools.String():     {"name", "title", "description", "inputSchema", "outputSchema", "annotations"},
	catalogue.Prompts.String():   {"name", "title", "description", "arguments"},
	catalogue.Templates.String(): {"uriTemplate", "name", "title", "description", "mimeType"},
	Instructions:                 {Instructions},
}

// kinds are the kinds of the catalogue that are pinned.
var kinds = [...]catalogue.Kind{catalogue.Tools, catalogue.Prompts, catalogue.Templates}

// Definition holds the members of a definition that a model sees, and their hash.
type Definition struct {
	Thing
	Hash [sha256.Size]byte
	Raw  []byte // a JSON object of the members that a model sees, as the server wrote them
}

// Of returns the definition of an item of a list, a JSON object that was scanned. Members count whose names differ in capitals from one that
// a model sees: some clients read them as that one.
func Of(kind catalogue.Kind, key string, raw []byte) Definition {
	return definition(Thing{kind.String(), key}, raw)
}

// OfInstructions returns the definition of instructions.
func OfInstructions(text string) Definition {
	raw := append(wire.AppendText([]byte(`{"instructions":`), text), '}')
	return definition(Thing{Kind: Instructions}, raw)
}

func definition(of Thing, raw []byte) Definition {
	seen := []byte{'{'}
	for key, value := range wire.Members(raw, wire.Whole(raw)) {
		name := string(key.Text(raw))
		if !slices.ContainsFunc(visible[of.Kind], func(one string) bool { return strings.EqualFold(one, name) }) {
			continue
		}
		if len(seen) > 1 {
			seen = append(seen, ',')
		}
		seen = append(append(append(seen, key.Of(raw)...), ':'), value.Of(raw)...)
	}
	d := Definition{Thing: of, Raw: append(seen, '}')}
	d.Hash = sha256.Sum256(seal.Canonical([]byte(of.Kind+"\x00"), d.Raw, wire.Whole(d.Raw)))
	return d
}

// instructions returns the text of the definition of instructions.
func instructions(raw []byte) string {
	return string(wire.Get(raw, wire.Whole(raw), Instructions).Text(raw))
}

// Changed returns the names of the members that a model sees and that differ between two definitions of one thing; nil: they are the same.
func Changed(kind catalogue.Kind, before, after []byte) (names []string) {
	a, b := Of(kind, "", before), Of(kind, "", after)
	if a.Hash == b.Hash {
		return nil
	}
	for _, name := range visible[kind.String()] {
		if x, y := members(a.Raw, name), members(b.Raw, name); !bytes.Equal(x, y) {
			names = append(names, name)
		}
	}
	return names
}

// members returns the members of a definition whose name is one that a model sees, in canonical form.
func members(raw []byte, name string) (all []byte) {
	for key, value := range wire.Members(raw, wire.Whole(raw)) {
		if text := string(key.Text(raw)); strings.EqualFold(text, name) {
			all = seal.Canonical(append(append(all, text...), 0), raw, value)
		}
	}
	return all
}

// Kind reports whether a text is the name of a kind of definitions.
func Kind(name string) bool { return visible[name] != nil }
