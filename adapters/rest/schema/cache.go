// Package schema checks arguments against the JSON Schema that a server published for a tool. Both come from strangers: the
// schema from the server, the arguments from the caller, and either may be made to be expensive. So nothing is loaded from
// the network or the file system, schemas are bounded before they are compiled, and what a check will cost is counted
// before it is begun.
//
// JSON Schema 2020-12 is what a schema without $schema is (2025-11-25 and 2026-07-28 basic, JSON Schema Usage), and where
// it is no valid one, draft-07; 2019-09, draft-06 and draft-04 are read where $schema names them. Where schemas and
// validators differ, the check errs on the side of letting a call through, for the server judges it too: `format` is an
// annotation in every draft; a `pattern` that RE2 cannot run (lookaround, back-references) or that is too large is not
// checked, nor is what depends on it being false (Notes says so).
package schema

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
)

// ErrTooCostly is what Check fails with where evaluating the schema on the arguments would take more than Options.Steps.
var ErrTooCostly = errors.New("schema: too costly to check")

// Options are the bounds. Zero values stand for the defaults.
type Options struct {
	Size     int // compiled schemas kept (512)
	MaxBytes int // of a schema (256 KiB)
	Steps    int // of one check: roughly, how many subschemas meet values (250 000, a few tenths of a second)
}

// Cache compiles schemas once and keeps the latest used. It is safe for concurrent use.
type Cache struct {
	kept     *lru.Cache[[sha256.Size]byte, *entry]
	maxBytes int
	steps    int
}

// entry is a schema that is compiled by the first who needs it; the others wait for that. Failures are kept too.
type entry struct {
	once sync.Once
	plan *plan
	err  error
}

// NewCache makes an empty cache.
func NewCache(opt Options) *Cache {
	c := &Cache{maxBytes: or(opt.MaxBytes, 256<<10), steps: or(opt.Steps, 250_000)}
	c.kept, _ = lru.New[[sha256.Size]byte, *entry](or(opt.Size, 512)) // fails only for sizes below 1
	return c
}

func or(n, otherwise int) int {
	if n > 0 {
		return n
	}
	return otherwise
}

// Check judges instance, the arguments as JSON (nothing stands for {}), by the schema. It gives nil, nil where they are
// valid, and else the most telling violation. An error says that nothing was judged, because the schema cannot be used, or
// (ErrTooCostly) not on these arguments; it names why and is fit for clients.
func (c *Cache) Check(schemaJSON, instance []byte) (*Violation, error) {
	p, err := c.plan(schemaJSON)
	if err != nil {
		return nil, err
	}
	if len(instance) == 0 {
		instance = []byte("{}")
	}
	as := arguments
	if p.outlines {
		as = outlines
	}
	value, bad := decode(instance, as)
	if bad != nil {
		return bad, nil
	}
	if spent := p.cost(value, c.steps); spent > c.steps {
		return nil, fmt.Errorf("%w: these arguments would take more than %d steps", ErrTooCostly, c.steps)
	}
	v, err := p.judge(value)
	if v != nil { // the value borrows instance
		v.Path, v.Message = strings.Clone(v.Path), strings.Clone(v.Message)
	}
	return v, err
}

// Notes says what of a schema is not checked, a line each, sorted; nil if all of it is. The error is Check's.
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
	e, ok := c.kept.Get(key)
	if !ok {
		fresh := &entry{}
		if e, ok, _ = c.kept.PeekOrAdd(key, fresh); !ok {
			e = fresh
		}
	}
	e.once.Do(func() { e.plan, e.err = compile(schemaJSON) })
	return e.plan, e.err
}
