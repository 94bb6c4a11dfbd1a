package definitions

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/merge/names"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Options configure a Guard.
type Options struct {
	Keeper *Keeper
	Server string // its name
	// Known returns what the server has listed to Dragoman; nil: nothing is known of it.
	Known func() *catalogue.Server
	// Await waits until that is up to date. Its error is one that clients may see.
	Await func(ctx context.Context) error
	// HoldFirst means that the first discovery of the server has to be approved as well.
	HoldFirst bool
	// Renew is called when clients are to be shown something else than before, although the server lists the same.
	Renew func()
	// Note receives what an operator should know.
	Note func(msg string, err error)
}

// Guard keeps clients from definitions of one server that are not approved. Nil: there is nothing to keep. It is safe for concurrent use.
type Guard struct {
	opt     Options
	present [catalogue.Kinds]atomic.Pointer[sums]
	held    atomic.Pointer[heldTemplates]
}

// New returns the Guard of a server.
func New(opt Options) *Guard { return &Guard{opt: opt} }

// sums are the hashes of the definitions of a list, by their keys.
type sums struct {
	of  *catalogue.List
	all map[string][sha256.Size]byte
}

// sums returns those of what the server has listed to Dragoman.
func (g *Guard) sums(s *catalogue.Server, kind catalogue.Kind) map[string][sha256.Size]byte {
	l := s.Lists[kind]
	if l == nil {
		return nil
	}
	if known := g.present[kind].Load(); known != nil && known.of == l {
		return known.all
	}
	next := &sums{l, make(map[string][sha256.Size]byte, len(l.Items))}
	for i := range l.Items {
		next.all[l.Items[i].Key] = Of(kind, l.Items[i].Key, l.Items[i].Raw).Hash
	}
	g.present[kind].Store(next)
	return next.all
}

// listed returns all that the server has listed to Dragoman.
func listed(s *catalogue.Server) (all []Definition) {
	for _, kind := range kinds {
		if l := s.Lists[kind]; l != nil {
			for i := range l.Items {
				all = append(all, Of(kind, l.Items[i].Key, l.Items[i].Raw))
			}
		}
	}
	if s.Instructions != "" {
		all = append(all, OfInstructions(s.Instructions))
	}
	return all
}

// Learn takes note of what the server has listed to Dragoman. What it lists at its first discovery is approved thereby, unless that is held, too.
// A server that lists nothing is not discovered yet.
func (g *Guard) Learn(ctx context.Context) {
	if g == nil {
		return
	}
	s := g.opt.Known()
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	a := g.opt.Keeper.of(s.ID)
	a.changing.Lock()
	defer a.changing.Unlock()
	_, differ, err := g.opt.Keeper.reload(ctx, s.ID, a)
	if err != nil {
		g.opt.Note(unjudged, err)
		return
	}
	now := listed(s)
	if !a.discovered && slices.ContainsFunc(s.Lists[:], func(l *catalogue.List) bool { return l != nil && len(l.Items) > 0 }) {
		first := now
		if g.opt.HoldFirst {
			first = nil
		}
		if err := g.opt.Keeper.put(ctx, s.ID, a, "first discovery", true, first); err != nil {
			g.opt.Note("what a server lists first is held", err)
		}
		differ = true
	}
	if differ && g.opt.Renew != nil {
		g.opt.Renew()
	}
	g.tell(a, now)
}

// unjudged is said when the store cannot be read.
const unjudged = "definitions of a server cannot be judged; those that are not known to be approved are held"

// maxTold bounds the definitions that a line of the log names.
const maxTold = 10

// tell notes definitions that are held and were not before.
func (g *Guard) tell(a *approved, now []Definition) {
	held := map[Thing][sha256.Size]byte{}
	var fresh []string
	count := 0
	for i := range now {
		d := &now[i]
		if a.is(d) {
			continue
		}
		held[d.Thing] = d.Hash
		if hash, known := a.told[d.Thing]; known && hash == d.Hash {
			continue
		}
		if count++; count <= maxTold {
			fresh = append(fresh, wire.Shown(d.Kind+" "+d.Key))
		}
	}
	a.told = held
	if count > 0 {
		if count > maxTold {
			fresh = append(fresh, fmt.Sprintf("%d more", count-maxTold))
		}
		g.opt.Note("definitions of a server are held until somebody approves them, as `dragoman approve "+g.opt.Server+"` does: "+strings.Join(fresh, ", "), nil)
	}
}

// Held returns the definitions that are held, with what differs from what was approved.
func (g *Guard) Held(ctx context.Context) ([]Held, error) {
	if g == nil {
		return nil, nil
	}
	s := g.opt.Known()
	if s == nil {
		return nil, nil
	}
	a := g.opt.Keeper.of(s.ID)
	a.changing.Lock()
	pins, _, err := g.opt.Keeper.reload(ctx, s.ID, a)
	a.changing.Unlock()
	if err != nil {
		return nil, err
	}
	before := make(map[Thing][]byte, len(pins))
	for i := range pins {
		before[Thing{pins[i].Kind, pins[i].Key}] = pins[i].Definition
	}
	var all []Held
	for _, d := range g.pending(s, a) {
		all = append(all, held(&d, before[d.Thing]))
	}
	return all, nil
}

// Holds reports whether a definition that the server has listed to Dragoman is held.
func (g *Guard) Holds(kind catalogue.Kind, key string) bool {
	if g == nil {
		return false
	}
	s, a := g.known(context.Background())
	if s == nil || !a.wasDiscovered() {
		return false
	}
	hash, listed := g.sums(s, kind)[key]
	d := Definition{Thing: Thing{kind.String(), key}, Hash: hash}
	return listed && !a.is(&d)
}

// Count returns how many definitions are held, as far as is known without reading the store again.
func (g *Guard) Count() (many int) {
	if g == nil {
		return 0
	}
	s, a := g.known(context.Background())
	if s == nil || !a.wasDiscovered() {
		return 0
	}
	counted := map[Thing]bool{}
	for _, kind := range kinds {
		for key, hash := range g.sums(s, kind) {
			if d := (Definition{Thing: Thing{kind.String(), key}, Hash: hash}); !a.is(&d) {
				counted[d.Thing] = true
			}
		}
	}
	if d := OfInstructions(s.Instructions); s.Instructions != "" && !a.is(&d) {
		counted[d.Thing] = true
	}
	for _, d := range a.unapproved() {
		if d.Raw != nil {
			counted[d.Thing] = true
		}
	}
	return len(counted)
}

// pending returns the definitions that are held: those that Dragoman was listed, and those that only clients were. Before the first discovery
// there are none: it may approve them.
func (g *Guard) pending(s *catalogue.Server, a *approved) (all []Definition) {
	if !a.wasDiscovered() {
		return nil
	}
	known := map[Thing]bool{}
	for _, d := range listed(s) {
		if !a.is(&d) {
			all, known[d.Thing] = append(all, d), true
		}
	}
	seen := a.unapproved()
	for i := len(seen) - 1; i >= 0; i-- {
		if d := seen[i]; !known[d.Thing] && d.Raw != nil {
			all, known[d.Thing] = append(all, d), true
		}
	}
	slices.SortFunc(all, func(a, b Definition) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Key, b.Key)) })
	return all
}

// Approval names a definition that somebody approves.
type Approval struct {
	Kind string `json:"kind"`
	Key  string `json:"key"`
	Hash string `json:"hash"` // of the definition that was looked at; empty: the present one, whichever it is
}

// Errors of Approve.
var (
	ErrNotHeld = errors.New("is not held")
	ErrAnother = errors.New("has changed since it was looked at")
	ErrOff     = errors.New("definitions of the server need no approval")
)

// NotApproved is the error of a definition that cannot be approved.
type NotApproved struct {
	Thing
	Why error // ErrNotHeld or ErrAnother
}

// Error implements error.
func (e *NotApproved) Error() string { return e.Kind + " " + e.Key + " " + e.Why.Error() }

// Unwrap returns why.
func (e *NotApproved) Unwrap() error { return e.Why }

// Approve approves definitions that are held, or all of them if what is nil, on behalf of somebody, and returns them: all, or none and an error,
// which is ErrOff, a *NotApproved, or that of the store. What is approved already with that hash is approved.
func (g *Guard) Approve(ctx context.Context, by string, what []Approval) ([]Approval, error) {
	if g == nil {
		return nil, ErrOff
	}
	s := g.opt.Known()
	if s == nil {
		return []Approval{}, nil
	}
	a := g.opt.Keeper.of(s.ID)
	a.changing.Lock()
	defer a.changing.Unlock()
	if _, _, err := g.opt.Keeper.reload(ctx, s.ID, a); err != nil {
		return nil, err
	}
	chosen, err := g.chosen(s, a, what)
	if err != nil {
		return nil, err
	}
	done := make([]Approval, 0, len(chosen))
	for i := range chosen {
		done = append(done, Approval{chosen[i].Kind, chosen[i].Key, hex.EncodeToString(chosen[i].Hash[:])})
	}
	if len(chosen) == 0 {
		return done, nil
	}
	if err := g.opt.Keeper.put(ctx, s.ID, a, by, true, chosen); err != nil {
		return nil, err
	}
	if g.opt.Renew != nil {
		g.opt.Renew()
	}
	return done, nil
}

// chosen returns the definitions that are to be approved; nil is all that are held, but for those that only some callers are shown of a thing
// whose other definition is approved: only one of the two can be.
func (g *Guard) chosen(s *catalogue.Server, a *approved, what []Approval) (chosen []Definition, err error) {
	held := g.pending(s, a)
	if what == nil {
		settled := map[Thing]bool{}
		for _, d := range listed(s) {
			settled[d.Thing] = a.is(&d)
		}
		return slices.DeleteFunc(held, func(d Definition) bool { return settled[d.Thing] }), nil
	}
	for _, one := range what {
		of := Thing{one.Kind, one.Key}
		i := slices.IndexFunc(held, func(d Definition) bool { return d.Thing == of })
		if i < 0 {
			if v := a.judge(proxy.Identity{}, of); v.known && one.Hash == hex.EncodeToString(v.approved[:]) {
				continue
			}
			return nil, &NotApproved{of, ErrNotHeld}
		}
		if one.Hash != "" && one.Hash != hex.EncodeToString(held[i].Hash[:]) {
			return nil, &NotApproved{of, ErrAnother}
		}
		if !slices.ContainsFunc(chosen, func(d Definition) bool { return d.Thing == of }) {
			chosen = append(chosen, held[i])
		}
	}
	return chosen, nil
}

// heldTemplates tells reads of what templates stand for apart.
type heldTemplates struct {
	of       *catalogue.List
	changes  uint64
	held     []template
	approved []template
	listed   map[string]bool // URIs of resources, which are data
	data     *catalogue.List
}

type template struct {
	key     string
	matches *regexp.Regexp // nil: it is too long to be matched
}

// templates returns what decides about reads.
func (g *Guard) templates(s *catalogue.Server, a *approved) *heldTemplates {
	changes, l, data := g.opt.Keeper.changes.Load(), s.Lists[catalogue.Templates], s.Lists[catalogue.Resources]
	if known := g.held.Load(); known != nil && known.of == l && known.data == data && known.changes == changes {
		return known
	}
	next := &heldTemplates{of: l, data: data, changes: changes, listed: map[string]bool{}}
	if l != nil {
		for i := range l.Items {
			d := Of(catalogue.Templates, l.Items[i].Key, l.Items[i].Raw)
			one := template{d.Key, names.Pattern(d.Key)}
			if a.is(&d) {
				next.approved = append(next.approved, one)
			} else {
				next.held = append(next.held, one)
			}
		}
	}
	if data != nil && len(next.held) > 0 {
		for i := range data.Items {
			next.listed[data.Items[i].Key] = true
		}
	}
	g.held.Store(next)
	return next
}

// read returns the held template of which a URI is, and empty if it is of none, or of an approved one as well, or of a listed resource.
func (t *heldTemplates) read(uri string) string {
	matches := func(one template) bool { return one.key == uri || one.matches != nil && one.matches.MatchString(uri) }
	i := slices.IndexFunc(t.held, matches)
	if i < 0 || t.listed[uri] || slices.ContainsFunc(t.approved, matches) {
		return ""
	}
	return t.held[i].key
}
