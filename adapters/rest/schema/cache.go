// Package schema checks arguments against the JSON Schema that a server published for a tool. Neither is trusted: the server may
// publish a schema that is expensive to evaluate, and a caller may send such arguments. Therefore nothing is loaded from the
// network or the file system, schemas are bounded before they are compiled, and the cost of a check is counted before it
// begins.
//
// A schema without $schema is JSON Schema 2020-12 (2025-11-25 and 2026-07-28 basic, JSON Schema Usage), or draft-07 if it is not
// valid as such. 2019-09, draft-06 and draft-04 are known where $schema names them. In doubt a call passes, since the server
// checks it too: `format` is an annotation in every draft, and a `pattern` that RE2 cannot run (lookaround, back-references) or
// that is too large is not checked, nor is anything that depends on it being false. Notes lists such omissions.
package schema

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
)

// ErrTooCostly is the error of a check that may take more than Options.Steps.
var ErrTooCostly = errors.New("schema: too costly to check")

// Options are the bounds of a Cache. Zero values select the defaults, which are in parentheses.
type Options struct {
	Size     int // compiled schemas kept (512)
	MaxBytes int // of a schema (256 KiB)
	Steps    int // of one check: about how many subschemas are applied to values (250 000, a few tenths of a second)
}

// Cache compiles each schema once and keeps the most recently used. It is safe for concurrent use.
type Cache struct {
	kept     *lru.Cache[[sha256.Size]byte, *entry]
	maxBytes int
	steps    int
}

// entry is a schema that its first user compiles; concurrent users wait. Failures are kept too.
type entry struct {
	once sync.Once
	plan *plan
	err  error
}

// NewCache returns an empty cache.
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

// Check validates instance, raw JSON of which none stands for {}, against a schema. It returns nil, nil if it is valid, else the
// most telling violation. An error means that nothing was checked: the schema cannot be used, or ErrTooCostly. Its text may be
// shown to clients.
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
	v, err := p.judge(value)
	if v != nil { // the value borrows instance
		v.Path, v.Message = strings.Clone(v.Path), strings.Clone(v.Message)
	}
	return v, err
}

// Notes lists, sorted, what of a schema is not checked; nil means that everything is. The error is that of Check.
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
