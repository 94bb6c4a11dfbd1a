package catalogue

import (
	"cmp"
	"context"
	"crypto/sha256"
	"slices"
	"sync"
	"time"
)

// ClassState is the state of a tool's classification (seed 004, Tool Classification State Machine).
type ClassState string

// The states. A tool without a Classification is Discovered.
const (
	Discovered   ClassState = "DISCOVERED"
	Classifying  ClassState = "CLASSIFYING"
	Classified   ClassState = "CLASSIFIED"
	Unclassified ClassState = "UNCLASSIFIED"
)

// Skill is a category of a tool.
type Skill struct {
	Name       string  `json:"id"`
	Confidence float64 `json:"confidence"` // from 0 to 1
}

// ToolKey names a tool.
type ToolKey struct {
	Server string // its ID
	Tool   string // what the server calls it
}

// Classification says which categories a tool has, or why it has none.
type Classification struct {
	ToolKey
	Hash     [sha256.Size]byte // of what was classified: another one asks for a new classification
	State    ClassState
	Skills   []Skill   // the primary one first
	By       string    // what has classified it
	Person   bool      // a person has: only another Classification with Person replaces it
	Failures int       // attempts in a row that failed
	At       time.Time // of the State
}

// Classifications keeps classifications. Several Dragomans may share it. Its methods return once a change is stored. An error means that the
// store cannot be reached; nothing has changed then. It is safe for concurrent use.
type Classifications interface {
	// Classifications returns all, by server and tool.
	Classifications(ctx context.Context) ([]Classification, error)
	// ClaimTools makes tools Classifying for an instance, which has the lease of time for that, and returns the tools that it has got. It does
	// not get those that a person has classified, those that another instance is classifying within its lease, and those that are Classified
	// with the given Hash. Of each only the key and the Hash count.
	ClaimTools(ctx context.Context, instance string, lease time.Duration, all []Classification) ([]ToolKey, error)
	// PutClassifications adds classifications, or replaces them: all or none. Those of tools that a person has classified stay, unless Person is
	// set; one with Person and another State than Classified takes back what a person has said. One without a State is removed.
	PutClassifications(ctx context.Context, all []Classification) error
}

// MemoryClassifications is a Classifications and a Categories that are lost at the end. The zero value is ready for use.
type MemoryClassifications struct {
	mu      sync.Mutex
	all     map[ToolKey]claimed
	changed map[string]Category // by name
}

// claimed is a Classification and who may change it.
type claimed struct {
	Classification
	instance string
	until    time.Time
}

// Classifications implements the interface.
func (m *MemoryClassifications) Classifications(context.Context) ([]Classification, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]Classification, 0, len(m.all))
	for _, one := range m.all {
		one.Skills = slices.Clone(one.Skills)
		all = append(all, one.Classification)
	}
	slices.SortFunc(all, func(a, b Classification) int { return a.Compare(b.ToolKey) })
	return all, nil
}

// Compare orders tools by server and name.
func (k ToolKey) Compare(other ToolKey) int {
	return cmp.Or(cmp.Compare(k.Server, other.Server), cmp.Compare(k.Tool, other.Tool))
}

// ClaimTools implements Classifications.
func (m *MemoryClassifications) ClaimTools(_ context.Context, instance string, lease time.Duration, all []Classification) (got []ToolKey, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[ToolKey]claimed{}
	}
	now := time.Now()
	for i := range all {
		want := &all[i]
		has, known := m.all[want.ToolKey]
		if known && (has.Person || has.State == Classifying && has.instance != instance && now.Before(has.until) || has.State == Classified && has.Hash == want.Hash) {
			continue
		}
		has.ToolKey, has.Hash, has.State, has.At, has.instance, has.until = want.ToolKey, want.Hash, Classifying, now, instance, now.Add(lease)
		m.all[want.ToolKey], got = has, append(got, want.ToolKey)
	}
	return got, nil
}

// PutClassifications implements Classifications.
func (m *MemoryClassifications) PutClassifications(_ context.Context, all []Classification) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[ToolKey]claimed{}
	}
	for _, one := range all {
		switch {
		case m.all[one.ToolKey].Person && !one.Person:
		case one.State == "":
			delete(m.all, one.ToolKey)
		default:
			one.Person = one.Person && one.State == Classified
			one.Skills = slices.Clone(one.Skills)
			m.all[one.ToolKey] = claimed{Classification: one}
		}
	}
	return nil
}
