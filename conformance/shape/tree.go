package shape

import (
	"slices"
	"strings"
)

// revisions are the revisions of the protocol that are defined, oldest first.
var revisions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}

// span is a range of revisions, by their places in revisions, both ends within.
type span struct{ first, last int }

func (s span) has(revision int) bool { return s.first <= revision && revision <= s.last }

// ever is the range of what has always been and still is.
func ever() span { return span{0, len(revisions) - 1} }

// kind says what a form asks for.
type kind int

const (
	anything kind = iota
	nothing       // the member must not be there
	null
	boolean
	number
	integer
	text
	literal
	array
	object
	union
	reference
)

// primitives are the words of the notation that are types by themselves. The formats (format.go) are strings.
var primitives = map[string]kind{
	"any": anything, "never": nothing, "null": null, "boolean": boolean, "number": number, "integer": integer,
	"string": text, "object": object,
}

// form is what a value has to be. Parsing gives one tree of forms for all revisions, with ranges and references; building
// (build.go) makes of it one graph for each revision, without them.
type form struct {
	kind    kind
	in      span    // the revisions in which this form is allowed, as an alternative or a member
	text    string  // of a literal its text, of a reference the name, of a string the format or ""
	bounds  *bounds // of a number its value, of an array its length
	of      []*form // of a union its alternatives, of an array its element
	members []member
	rest    *form // what members that are not named have to be, if that is prescribed
	needs   []need
	keys    []need // formats of the members' names
	rule    string // where it stands in the specification
}

// bounds are inclusive; nil is no bound.
type bounds struct{ low, high *float64 }

// member is a member of an object, or what an object takes over from another ("...").
type member struct {
	name   string
	must   bool
	spread bool
	of     *form
	rule   string
}

// need is a clause of an object: one of the names has to be there, or, for keys, the format of all names.
type need struct {
	names []string
	in    span
}

// Side is who sends a message.
type Side int

// The two sides of the protocol.
const (
	Server Side = iota
	Client
)

// String is "server" or "client".
func (s Side) String() string {
	if s == Client {
		return "client"
	}
	return "server"
}

// message is a definition of a request or a notification.
type message struct {
	method string
	notice bool          // a notification
	from   map[Side]span // who sends it, in which revisions
	params *form
	result *form
	needs  bool // params have to be there though nothing in them has to
	rule   string
}

// fault is a definition of an error code.
type fault struct {
	code, to int // the code; the last one of a reserved range
	name     string
	in       span
	data     *form
	state    string // "error", "withdrawn", "reserved"
	rule     string
}

// notation is all that the definitions say.
type notation struct {
	types    map[string]*form
	messages []message
	faults   []fault
}

// known tells where a method that has not been found is defined: who sends it, and when.
func (n *notation) known(method string) string {
	var where []string
	for _, m := range n.messages {
		if m.method != method {
			continue
		}
		for _, side := range []Side{Client, Server} {
			if in, ok := m.from[side]; ok {
				where = append(where, side.String()+"s of "+in.String())
			}
		}
	}
	slices.Sort(where)
	return strings.Join(slices.Compact(where), ", ")
}

// String names the revisions, such as "2025-06-18" or "2024-11-05 to 2025-11-25".
func (s span) String() string {
	if s.first == s.last {
		return revisions[s.first]
	}
	return revisions[s.first] + " to " + revisions[s.last]
}
