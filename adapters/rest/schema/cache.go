// Package schema checks arguments against the JSON Schema that a server published for a tool. Neither is trusted: the server may
// publish a schema that is expensive to evaluate, and a caller may send expensive arguments. Therefore nothing is loaded from the
// network or the file system, the size of schemas is limited before they are compiled, and the cost of a check is counted before
// it begins.
//
// A schema without $schema is JSON Schema 2020-12 (2025-11-25 and 2026-07-28 basic, JSON Schema Usage), or draft-07 if it is not
// valid as such. 2019-09, draft-06 and draft-04 apply where $schema names them. If in doubt, a call passes, since the server checks
// it too: `format` is an annotation in every draft. A `pattern` that RE2 cannot run (lookaround, back-references) or that is too
// large is not checked, nor is anything that depends on its being false. Notes lists such omissions.
package schema

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
)

// ErrTooCostly is the error of a check that may take more than maxSteps.
var ErrTooCostly = errors.New("schema: too costly to check")

const (
	maxKept  = 512       // compiled schemas in a cache
	maxBytes = 256 << 10 // of a schema
	maxSteps = 250_000   // of a check, about the subschemas that are applied to values: a few tenths of a second
)

// Cache compiles each schema once and keeps the most recently used. It is safe for concurrent use.
type Cache struct {
	kept     *lru.Cache[[sha256.Size]byte, compiled]
	maxBytes int
	steps    int
}

// compiled returns the plan of a schema. The first call compiles it, and concurrent calls wait. Failures are kept, too.
type compiled func() (*plan, error)

// NewCache returns an empty cache.
func NewCache() *Cache { return newCache(maxKept, maxBytes, maxSteps) }

func newCache(size, bytes, steps int) *Cache {
	kept, _ := lru.New[[sha256.Size]byte, compiled](size) // fails only for sizes below 1
	return &Cache{kept: kept, maxBytes: bytes, steps: steps}
}

// Check validates instance against a schema, both raw JSON; an empty instance stands for {}. It returns nil, nil if the instance is
// valid, else the deepest violation. An error means that nothing was checked: the schema cannot be used, or ErrTooCostly. Clients
// may see its text.
func (c *Cache) Check(schemaJSON, instance []byte) (*Violation, error) {
	p, err := c.plan(schemaJSON)
	if err != nil {
		return nil, err
	}
	if len(instance) == 0 {
		instance = []byte("{}")
	}
	as := arguments
	if p.skipTexts {
		as = withoutTexts
	}
	value, bad := decode(instance, as)
	if bad != nil {
		return bad, nil
	}
	if spent := p.cost(value, c.steps); spent > c.steps {
		return nil, fmt.Errorf("%w: these arguments would take more than %d steps", ErrTooCostly, c.steps)
	}
	v, err := p.validate(value)
	if v != nil { // the value borrows instance
		v.Path, v.Message = strings.Clone(v.Path), strings.Clone(v.Message)
	}
	return v, err
}

// Notes lists, sorted, the parts of a schema that are not checked; nil means that all are. The error is that of Check.
func (c *Cache) Notes(schemaJSON []byte) ([]string, error) {
	p, err := c.plan(schemaJSON)
	if err != nil {
		return nil, err
	}
	return p.notes, nil
}

func (c *Cache) plan(schemaJSON []byte) (*plan, error) {
	if len(schemaJSON) > c.maxBytes {
		return nil, fmt.Errorf("schema: %d bytes; at most %d are read", len(schemaJSON), c.maxBytes)
	}
	key := sha256.Sum256(schemaJSON)
	get, ok := c.kept.Get(key)
	if !ok {
		fresh := compiled(sync.OnceValues(func() (*plan, error) { return compile(schemaJSON) }))
		if get, ok, _ = c.kept.PeekOrAdd(key, fresh); !ok {
			get = fresh
		}
	}
	return get()
}
