package catalogue

import (
	"context"
	"maps"
	"slices"
	"time"
)

// Category is a category of tools as a person has changed it while Dragoman runs. It takes the place of that of the configuration.
type Category struct {
	Name        string
	Description string
	Keywords    []string
	Removed     bool // there is no such category
	At          time.Time
}

// Categories keeps the categories that persons have changed. Several Dragomans may share it. An error means that the store cannot be reached;
// nothing has changed then. It is safe for concurrent use.
type Categories interface {
	// Categories returns all that were changed, by name.
	Categories(ctx context.Context) ([]Category, error)
	// PutCategory adds a change, or replaces that of the same name.
	PutCategory(ctx context.Context, c Category) error
	// DropCategory forgets the change of a name, if there is one.
	DropCategory(ctx context.Context, name string) error
}

// OfTools keeps what persons, or classifiers, have said of what servers list.
type OfTools interface {
	Pins
	Classifications
	Categories
}

// Resorted makes a new version of the present state, whose tools have other categories than before.
func (c *Catalogue) Resorted() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sorted++
	c.publish(c.Snapshot().Servers, true)
}

// Categories implements the interface of that name.
func (m *MemoryClassifications) Categories(context.Context) ([]Category, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]Category, 0, len(m.changed))
	for _, name := range slices.Sorted(maps.Keys(m.changed)) {
		c := m.changed[name]
		c.Keywords = slices.Clone(c.Keywords)
		all = append(all, c)
	}
	return all, nil
}

// PutCategory implements Categories.
func (m *MemoryClassifications) PutCategory(_ context.Context, c Category) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.changed == nil {
		m.changed = map[string]Category{}
	}
	c.Keywords = slices.Clone(c.Keywords)
	m.changed[c.Name] = c
	return nil
}

// DropCategory implements Categories.
func (m *MemoryClassifications) DropCategory(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.changed, name)
	return nil
}
