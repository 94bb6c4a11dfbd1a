package definitions

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"dragoman/adapters/catalogue"
	"dragoman/proxy"
)

// storeTime bounds a request to the store.
const storeTime = 10 * time.Second

// discovery is the kind of the pin that says that a server was discovered: what it lists later has to be approved.
const discovery = "discovery"

// Bounds of what is remembered of definitions that are not approved and that a server has listed to clients only.
const (
	maxSeen    = 1000     // of one server
	maxSeenRaw = 64 << 10 // bytes of a definition; a larger one is held, and can be approved once Dragoman itself is shown it
)

// Keeper holds which definitions of all servers are approved, as a store keeps them. It is safe for concurrent use.
type Keeper struct {
	store   catalogue.Pins
	now     func() time.Time
	changes atomic.Uint64 // of what is approved

	mu      sync.Mutex
	servers map[string]*approved // by id
}

// NewKeeper returns the Keeper of a store.
func NewKeeper(store catalogue.Pins, now func() time.Time) *Keeper {
	return &Keeper{store: store, now: now, servers: map[string]*approved{}}
}

// approved holds what is approved of a server.
type approved struct {
	once     sync.Once  // of the first reading of the store
	changing sync.Mutex // held while the store is read or changed

	mu           sync.Mutex
	read         bool // the store was read: what is not in hashes is not approved
	discovered   bool
	hashes       map[Thing][sha256.Size]byte
	instructions string // the approved ones
	seen         *simplelru.LRU[seenKey, Definition]

	told map[Thing][sha256.Size]byte // what was said to be held; guarded by changing
}

// seenKey names a definition as a caller was shown it.
type seenKey struct {
	who proxy.Identity
	Thing
}

// of returns what is approved of a server, by its id.
func (k *Keeper) of(id string) *approved {
	k.mu.Lock()
	defer k.mu.Unlock()
	a := k.servers[id]
	if a == nil {
		a = &approved{hashes: map[Thing][sha256.Size]byte{}}
		a.seen, _ = simplelru.NewLRU[seenKey, Definition](maxSeen, nil) // it fails for a size below one only
		k.servers[id] = a
	}
	return a
}

// Forget forgets what was approved of a server that was removed.
func (k *Keeper) Forget(ctx context.Context, id string) error {
	k.mu.Lock()
	delete(k.servers, id)
	k.mu.Unlock()
	k.changes.Add(1)
	return k.store.RemovePins(ctx, id)
}

// reload reads what is approved of a server from the store. The caller holds changing. It returns the approved definitions, and whether they are
// others than were known.
func (k *Keeper) reload(ctx context.Context, id string, a *approved) (pins []catalogue.Pin, differ bool, err error) {
	pins, err = k.store.Pins(ctx, id)
	if err != nil {
		return nil, false, fmt.Errorf("the approved definitions cannot be read: %w", err)
	}
	return pins, k.take(a, pins), nil
}

// take makes pins all that is approved, and reports whether that is something else than before.
func (k *Keeper) take(a *approved, pins []catalogue.Pin) (differ bool) {
	hashes := make(map[Thing][sha256.Size]byte, len(pins))
	discovered, text := false, ""
	for i := range pins {
		p := &pins[i]
		switch p.Kind {
		case discovery:
			discovered = true
			continue
		case Instructions:
			text = instructions(p.Definition)
		}
		hashes[Thing{p.Kind, p.Key}] = p.Hash
	}
	a.mu.Lock()
	differ = !a.read || len(hashes) != len(a.hashes)
	for of, hash := range hashes {
		before, known := a.hashes[of]
		differ = differ || !known || before != hash
	}
	a.read, a.discovered, a.hashes, a.instructions = true, discovered, hashes, text
	a.mu.Unlock()
	if differ {
		k.changes.Add(1)
	}
	return differ
}

// put approves definitions of a server on behalf of somebody. The caller holds changing.
func (k *Keeper) put(ctx context.Context, id string, a *approved, by string, discovered bool, all []Definition) error {
	now := k.now()
	pins := make([]catalogue.Pin, 0, len(all)+1)
	for i := range all {
		d := &all[i]
		pins = append(pins, catalogue.Pin{Kind: d.Kind, Key: d.Key, Hash: d.Hash, Definition: d.Raw, By: by, At: now})
	}
	if discovered {
		pins = append(pins, catalogue.Pin{Kind: discovery, Definition: []byte("{}"), By: by, At: now})
	}
	if err := k.store.PutPins(ctx, id, pins); err != nil {
		return fmt.Errorf("the approval cannot be stored: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.discovered = a.discovered || discovered
	for i := range all {
		d := &all[i]
		a.hashes[d.Thing] = d.Hash
		if d.Kind == Instructions {
			a.instructions = instructions(d.Raw)
		}
	}
	k.changes.Add(1)
	return nil
}

// is reports whether a definition is the approved one.
func (a *approved) is(d *Definition) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	hash, known := a.hashes[d.Thing]
	return known && hash == d.Hash
}

func (a *approved) wasRead() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.read
}

func (a *approved) wasDiscovered() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.discovered
}

// listed notes that a caller was listed a definition, and reports whether it is the approved one. present means that Dragoman knows it.
func (a *approved) listed(who proxy.Identity, d *Definition, present bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := seenKey{who, d.Thing}
	if hash, known := a.hashes[d.Thing]; known && hash == d.Hash {
		a.seen.Remove(key)
		return true
	}
	if present {
		a.seen.Remove(key)
		return false
	}
	keep := *d
	if len(keep.Raw) > maxSeenRaw {
		keep.Raw = nil
	}
	a.seen.Add(key, keep)
	return false
}

// shown returns what a caller is shown in place of the instructions that the server gives it.
func (a *approved) shown(who proxy.Identity, text string) string {
	if d := OfInstructions(text); text == "" || a.listed(who, &d, false) {
		return text
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.instructions
}

// verdict is what is known of a thing that a caller wants to use.
type verdict struct {
	approved [sha256.Size]byte
	known    bool        // something is approved
	seen     *Definition // that is not approved, and that the caller was listed last; nil: none
}

func (a *approved) judge(who proxy.Identity, of Thing) (v verdict) {
	a.mu.Lock()
	defer a.mu.Unlock()
	v.approved, v.known = a.hashes[of]
	if d, shown := a.seen.Get(seenKey{who, of}); shown && (!v.known || d.Hash != v.approved) {
		v.seen = &d
	}
	return v
}

// unapproved returns the definitions of which callers were listed others than the approved one, the newest last.
func (a *approved) unapproved() (all []Definition) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, d := range a.seen.Values() {
		if hash, known := a.hashes[d.Thing]; !known || hash != d.Hash {
			all = append(all, d)
		}
	}
	return all
}
