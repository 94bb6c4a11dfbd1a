package catalogue

import (
	"bytes"
	"context"
	"crypto/sha256"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Pin is a definition of a server that was approved. A server has at most one of each Kind and Key.
type Pin struct {
	Kind       string            // that of a Kind, or another that the one who approves has chosen
	Key        string            // as of an [Item]; empty: the server has one of the kind only
	Hash       [sha256.Size]byte // of what a model sees of the definition
	Definition []byte            // what a model sees of it, JSON
	By         string            // who has approved it
	At         time.Time
}

// Pins keeps pins, by the IDs of servers. Its methods return once a change is stored, which all readers then see, those of other processes
// when they read again. An error means that the store cannot be reached; nothing has changed then. It is safe for concurrent use.
type Pins interface {
	// Pins returns those of a server, by Kind and Key.
	Pins(ctx context.Context, server string) ([]Pin, error)
	// PutPins adds pins to a server, or replaces those of the same Kind and Key: all or none. Nothing else need be known of the server.
	PutPins(ctx context.Context, server string, pins []Pin) error
	// RemovePins removes all of a server. The removal of a registration by a Registry of the same store does that, too.
	RemovePins(ctx context.Context, server string) error
}

// MemoryPins is a Pins that is lost at the end. The zero value is ready for use.
type MemoryPins struct {
	mu  sync.Mutex
	all map[string]map[pinKey]Pin // by server
}

type pinKey struct{ kind, key string }

// Pins implements Pins.
func (m *MemoryPins) Pins(_ context.Context, server string) ([]Pin, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.all[server]), func(a, b Pin) int {
		if by := strings.Compare(a.Kind, b.Kind); by != 0 {
			return by
		}
		return strings.Compare(a.Key, b.Key)
	}), nil
}

// PutPins implements Pins.
func (m *MemoryPins) PutPins(_ context.Context, server string, pins []Pin) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.all[server]
	if of == nil {
		if m.all == nil {
			m.all = map[string]map[pinKey]Pin{}
		}
		of = map[pinKey]Pin{}
		m.all[server] = of
	}
	for _, p := range pins {
		p.Definition = bytes.Clone(p.Definition)
		of[pinKey{p.Kind, p.Key}] = p
	}
	return nil
}

// RemovePins implements Pins.
func (m *MemoryPins) RemovePins(_ context.Context, server string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, server)
	return nil
}
