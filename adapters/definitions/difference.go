package definitions

import (
	"bytes"
	"encoding/hex"
	"strconv"
	"unicode/utf8"

	"dragoman/adapters/era/seal"
	"dragoman/adapters/merge/deceptive"
	"dragoman/proxy/wire"
)

// Held is a definition that is held, for people.
type Held struct {
	Kind   string              `json:"kind"`   // tools, prompts, templates or instructions
	Key    string              `json:"key"`    // the server's own name, or the template; of instructions empty
	State  string              `json:"state"`  // new, or changed since it was approved
	Hash   string              `json:"hash"`   // of what a model would see
	Fields []Field             `json:"fields"` // what differs from what was approved
	Hidden []deceptive.Finding `json:"hidden_text"`
}

// Values of Held.State.
const (
	StateNew     = "new"
	StateChanged = "changed"
)

// Field is a part of a definition that differs. Texts are shortened, and invisible characters in them are shown as escapes.
type Field struct {
	Name   string `json:"name"` // the members that lead to it, as in inputSchema.properties.path.description
	Before string `json:"before"`
	After  string `json:"after"`
}

// Bounds of a difference.
const (
	maxFields = 50
	maxText   = 2000 // characters of each side of a field
	maxDepth  = 32   // members within members that are told apart
)

// held describes a definition that is held. before is what was approved; nil: nothing was.
func held(d *Definition, before []byte) Held {
	h := Held{Kind: d.Kind, Key: d.Key, State: StateNew, Hash: hex.EncodeToString(d.Hash[:]), Fields: []Field{}, Hidden: append([]deceptive.Finding{}, deceptive.Find(d.Raw)...)}
	if before != nil {
		h.State = StateChanged
	}
	f := differ{}
	f.objects("", before, d.Raw, 0)
	if f.more {
		f.all = append(f.all, Field{"…", "", "more differs than is shown here: look at the whole definition"})
	}
	if f.all == nil { // such as the order of two members of one name
		f.all = []Field{{"", shown(before), shown(d.Raw)}}
	}
	h.Fields = append(h.Fields, f.all...)
	return h
}

// differ gathers the fields in which two values differ.
type differ struct {
	all  []Field // at most maxFields
	more bool    // more differ
}

// objects compares two objects, of which the first may be nil, member by member.
func (f *differ) objects(path string, before, after []byte, depth int) {
	for key, value := range wire.Members(after, wire.Whole(after)) {
		name := string(key.Text(after))
		f.values(join(path, name), wire.Get(before, wire.Whole(before), name).Of(before), value.Of(after), depth)
	}
	for key, value := range wire.Members(before, wire.Whole(before)) {
		if name := string(key.Text(before)); !wire.Get(after, wire.Whole(after), name).Present() {
			f.values(join(path, name), value.Of(before), nil, depth)
		}
	}
}

// values compares two values, of which nil is an absent one.
func (f *differ) values(path string, before, after []byte, depth int) {
	a, b := wire.Whole(before), wire.Whole(after)
	switch {
	case f.more, bytes.Equal(seal.Canonical(nil, before, a), seal.Canonical(nil, after, b)):
	case a.IsObject(before) && b.IsObject(after) && depth < maxDepth:
		f.objects(path, before, after, depth+1)
	case len(f.all) == maxFields:
		f.more = true
	default:
		f.all = append(f.all, Field{wire.Shown(path), shown(before), shown(after)})
	}
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// shown returns a value as people may see it: a string without its quotes.
func shown(raw []byte) string {
	text := string(raw)
	if s := wire.Whole(raw); s.IsString(raw) {
		text = string(s.Text(raw))
	}
	more := 0
	if n := utf8.RuneCountInString(text); n > maxText {
		text, more = string([]rune(text)[:maxText]), n-maxText
	}
	text = wire.Visible(text)
	if more > 0 {
		text += " … and " + strconv.Itoa(more) + " more characters"
	}
	return text
}
