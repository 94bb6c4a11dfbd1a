package catalogue

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Registration is a server that was registered while Dragoman ran, instead of in its configuration (seed 004, BR-001).
type Registration struct {
	ID          string // of the [Server] as well
	Name        string
	Description string
	Transport   string // STDIO, SSE, HTTP or GRPC
	Connection  []byte // connection_config as it was registered, a JSON object; secrets in it are references, or sealed
	HealthURL   string // empty: health is checked by the protocol
	Wanted      bool   // it should be connected
	Disabled    []string
	Registered  time.Time
	Updated     time.Time
	Revision    int64 // of this registration: 1 at first, and one more with each change
}

// ConfiguredID returns the ID of a server that the configuration has under a name. It is the same for all Dragomans that share a store. It has
// the form of a UUID of our own making (RFC 9562, version 8).
func ConfiguredID(name string) string {
	sum := sha256.Sum256([]byte("dragoman server\x00" + name))
	b := sum[:16]
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Errors of a Registry.
var (
	ErrExists = errors.New("catalogue: a server of that name exists")
	ErrGone   = errors.New("catalogue: the registration was removed")
	ErrStale  = errors.New("catalogue: the registration was changed meanwhile")
	ErrAway   = errors.New("catalogue: the database cannot be reached")
)

// Registry keeps registrations. Its methods return once a change is stored, which all readers then see. After an error nothing
// has changed; one of those above, ErrAway, means that it may succeed later. It is safe for concurrent use.
type Registry interface {
	// Registrations returns all, by name.
	Registrations(ctx context.Context) ([]Registration, error)
	// Put adds a registration whose Revision is 0, or replaces the one with its ID if that has its Revision, and returns it as it is
	// stored. It fails with ErrExists for a name that another has, ErrGone or ErrStale.
	Put(ctx context.Context, r Registration) (Registration, error)
	// Remove removes a registration with everything that is known of its server. It fails with ErrGone if there is none.
	Remove(ctx context.Context, id string) error
}

// Watched is a Registry that others change as well.
type Watched interface {
	Registry
	// Changes returns a channel that receives after registrations may have changed, by whomever.
	Changes() <-chan struct{}
}

// InstanceStatus is how a server is for one of the Dragomans that share a store.
type InstanceStatus struct {
	Instance string
	Status
}

// Instances is a store that several Dragomans share.
type Instances interface {
	// Statuses returns how servers are for each Dragoman that runs, by the ID of the server, ordered by instance.
	Statuses(ctx context.Context) (map[string][]InstanceStatus, error)
}

// MemoryRegistry is a Registry that is lost at the end. The zero value is ready for use.
type MemoryRegistry struct {
	mu  sync.Mutex
	all map[string]Registration // by ID
}

// Registrations implements Registry.
func (m *MemoryRegistry) Registrations(context.Context) ([]Registration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.all), func(a, b Registration) int { return strings.Compare(a.Name, b.Name) }), nil
}

// Put implements Registry.
func (m *MemoryRegistry) Put(_ context.Context, r Registration) (Registration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, known := m.all[r.ID]
	switch {
	case r.Revision > 0 && !known:
		return r, ErrGone
	case r.Revision != before.Revision:
		return r, ErrStale
	}
	for _, other := range m.all {
		if other.Name == r.Name && other.ID != r.ID {
			return r, ErrExists
		}
	}
	if m.all == nil {
		m.all = map[string]Registration{}
	}
	r.Revision++
	m.all[r.ID] = r
	return r, nil
}

// Remove implements Registry.
func (m *MemoryRegistry) Remove(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.all[id]; !known {
		return ErrGone
	}
	delete(m.all, id)
	return nil
}
