// Package names gives the tools and prompts of several servers names under which clients find them at one endpoint, and finds the server
// and its own name for such a name.
//
// A public name is the server's name, a separator and the server's own name of the tool, such as github.create_issue. Names that
// clients could not use are changed, and end with a hash, so that they are the same at each start, whichever other servers there are.
package names

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// When says when a public name begins with the name of its server.
type When uint8

// Always is the default.
const (
	Always     When = iota
	OnConflict      // if several servers use the name
	Never           // of several servers that use the name, only the first has it
)

// Bounds and defaults of a Style.
const (
	DefaultSeparator = "."
	// DefaultBudget is the length that model APIs take: ^[a-zA-Z0-9_-]{1,64}$. The protocol allows 128 (2026-07-28 tools, Tool Names).
	DefaultBudget = 64
	MinBudget     = 24
	MaxBudget     = 128
)

// Style is how public names look.
type Style struct {
	When      When
	Separator string // between server and name; empty: DefaultSeparator
	Budget    int    // the greatest length of a public name in bytes, from MinBudget to MaxBudget; 0: DefaultBudget
}

// Name is what a server calls one of its tools or prompts.
type Name struct{ Server, Original string }

// Table holds the public names of what one caller may see. It does not change, and is safe for concurrent use.
type Table struct {
	style   Style
	entries []Name
	public  []string         // of entries; empty: it has none
	byName  map[string]int   // place in entries by public name
	plain   map[string][]int // places in entries by original name
	servers map[string]bool  // servers that may be named in a prefix
	own     map[string]bool
}

// New makes the table of the given entries. Their order, which must be the same at each call, decides who keeps a name with Never.
// servers may be named in prefixes, also if they have no entries. The names in own belong to Dragoman itself: no entry gets one.
func New(style Style, servers, own []string, entries []Name) *Table {
	style.Separator, style.Budget = cmp.Or(style.Separator, DefaultSeparator), cmp.Or(style.Budget, DefaultBudget)
	t := &Table{style: style, entries: entries, public: make([]string, len(entries)), byName: make(map[string]int, len(entries)),
		plain: make(map[string][]int, len(entries)), servers: set(servers), own: set(own)}
	for i, e := range entries {
		t.plain[e.Original] = append(t.plain[e.Original], i)
	}
	t.assign()
	return t
}

func set(all []string) map[string]bool {
	m := make(map[string]bool, len(all))
	for _, one := range all {
		m[one] = true
	}
	return m
}

// assign chooses the public names. Entries that would share one all get a hash, so that the name of none depends on the order.
func (t *Table) assign() {
	wanted := make(map[string]int, len(t.entries))
	for i, e := range t.entries {
		t.public[i] = t.first(e)
		wanted[t.public[i]]++
	}
	for i, e := range t.entries {
		name := t.public[i]
		if wanted[name] > 1 || t.own[name] {
			if t.style.When == Never && name == e.Original {
				name = t.unlessTaken(i)
			} else {
				name = t.another(e, wanted)
			}
			t.public[i] = name
		}
		if name != "" {
			t.byName[name] = i
		}
	}
}

// unlessTaken returns the original name of an entry, or nothing if an earlier entry or Dragoman itself has it.
func (t *Table) unlessTaken(i int) string {
	name := t.entries[i].Original
	if t.own[name] || t.plain[name][0] != i {
		return ""
	}
	return name
}

// another returns a public name for an entry that nobody else has or wants.
func (t *Table) another(e Name, wanted map[string]int) string {
	for attempt := 1; ; attempt++ {
		name := t.hashed(e, t.wish(e), attempt)
		if _, taken := t.byName[name]; !taken && wanted[name] == 0 && !t.own[name] {
			return name
		}
	}
}

// first returns the public name of an entry unless others have the same.
func (t *Table) first(e Name) string {
	name := t.wish(e)
	if legal(name) && len(name) <= t.style.Budget {
		return name
	}
	return t.hashed(e, name, 0)
}

// wish returns the public name of an entry as the style has it, whatever its length and characters are.
func (t *Table) wish(e Name) string {
	if t.style.When == Always || t.style.When == OnConflict && (t.own[e.Original] || t.contested(e)) {
		return e.Server + t.style.Separator + e.Original
	}
	return e.Original
}

// contested reports whether another server uses the name of an entry, too.
func (t *Table) contested(e Name) bool {
	return slices.ContainsFunc(t.plain[e.Original], func(i int) bool { return t.entries[i].Server != e.Server })
}

// legal reports whether a name has characters that a tool's name may have only (2026-07-28 tools, Tool Names).
func legal(name string) bool {
	return name != "" && strings.IndexFunc(name, illegal) < 0
}

func illegal(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' || r == '.')
}

// sumLength is the length of the hash in a name. Of 100,000 names that begin alike two share these 40 bits with a probability below 0.5 %;
// another then chooses a further one.
const sumLength = 10

// hashed returns name without illegal characters, cut to the budget, with a hash of the entry at its end. A long name of a server leaves
// half of the room to the tool's. Each attempt gives another hash.
func (t *Table) hashed(e Name, name string, attempt int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d", e.Server, e.Original, attempt))
	room := t.style.Budget - sumLength - 1
	if head := e.Server + t.style.Separator; len(name) > room && len(head) > room/2 && strings.HasPrefix(name, head) {
		name = head[:room/2] + name[len(head):]
	}
	name = strings.Map(func(r rune) rune {
		if illegal(r) {
			return '_'
		}
		return r
	}, name)
	return name[:min(len(name), room)] + "_" + hex.EncodeToString(sum[:])[:sumLength]
}

// Public returns the public name of the entry at place i of the entries that New was given; empty if it has none.
func (t *Table) Public(i int) string { return t.public[i] }

// ErrUnknown means that no server has such a name.
var ErrUnknown = errors.New("names: unknown")

// AmbiguousError means that several servers have a name, and that it does not say which is meant.
type AmbiguousError struct {
	Name       string
	Candidates []string // public names, in the order of the entries
}

// Error implements error.
func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("several servers have %s: %s", e.Name, strings.Join(e.Candidates, ", "))
}

// Find returns the server that a name means, and its own name there. It tries, in this order, public names, a server's name with
// the separator and a name, which need not be in the table, and names without a server. It fails with ErrUnknown or
// *AmbiguousError. Only the first separator divides: a-server.api.v2.create is api.v2.create of a-server.
func (t *Table) Find(name []byte) (Name, error) {
	if i, ok := t.byName[string(name)]; ok { // almost always, and without a copy
		return t.entries[i], nil
	}
	return t.findOther(string(name))
}

// findOther is Find for a name that is not public.
func (t *Table) findOther(name string) (Name, error) {
	if server, original, ok := strings.Cut(name, t.style.Separator); ok && original != "" && t.servers[server] {
		return Name{Server: server, Original: original}, nil
	}
	all := t.plain[name]
	switch len(all) {
	case 0:
		return Name{}, ErrUnknown
	case 1:
		return t.entries[all[0]], nil
	}
	e := &AmbiguousError{Name: name}
	for _, i := range all {
		e.Candidates = append(e.Candidates, cmp.Or(t.public[i], t.entries[i].Server+t.style.Separator+t.entries[i].Original))
	}
	return Name{}, e
}

// Servers returns the servers that have a name of their own, in the order of the entries.
func (t *Table) Servers(name string) (all []string) {
	for _, i := range t.plain[name] {
		all = append(all, t.entries[i].Server)
	}
	return all
}

// Certain reports whether Find gives the same server for a name whatever entries are added: the name begins with that of a server.
func (t *Table) Certain(name string) bool {
	server, original, ok := strings.Cut(name, t.style.Separator)
	return ok && original != "" && t.servers[server]
}

// At returns the name that a server has for name, which is its own or its public one. A name that is not in the table is taken for
// the server's own.
func (t *Table) At(server, name string) Name {
	if slices.ContainsFunc(t.plain[name], func(i int) bool { return t.entries[i].Server == server }) {
		return Name{Server: server, Original: name}
	}
	if i, ok := t.byName[name]; ok && t.entries[i].Server == server {
		return t.entries[i]
	}
	return Name{Server: server, Original: name}
}
