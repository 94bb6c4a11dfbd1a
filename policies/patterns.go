package policies

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Patterns maps names to values. A pattern that ends in * matches every name with that prefix. An exact name takes precedence over a
// prefix, a longer prefix over a shorter one.
type Patterns[T any] struct {
	written table[T]
	folded  *table[T] // of the patterns' folded forms; nil: all patterns are folded forms
}

// table holds patterns as they are written, or folded.
type table[T any] struct {
	exact    map[string]T
	prefixes []prefixPattern[T] // longest first
}

type prefixPattern[T any] struct {
	prefix string
	value  T
}

// NewPatterns makes a table of patterns and their values.
func NewPatterns[T any](values map[string]T) Patterns[T] {
	p := Patterns[T]{written: newTable(values)}
	folded, differs := make(map[string]T, len(values)), false
	for _, pattern := range slices.Sorted(maps.Keys(values)) {
		form := string(Fold([]byte(pattern)))
		differs = differs || form != pattern
		if _, twice := folded[form]; !twice {
			folded[form] = values[pattern]
		}
	}
	if differs {
		t := newTable(folded)
		p.folded = &t
	}
	return p
}

func newTable[T any](values map[string]T) table[T] {
	t := table[T]{exact: make(map[string]T, len(values))}
	for pattern, v := range values {
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
			t.prefixes = append(t.prefixes, prefixPattern[T]{prefix, v})
		} else {
			t.exact[pattern] = v
		}
	}
	slices.SortFunc(t.prefixes, func(a, b prefixPattern[T]) int { return cmp.Compare(len(b.prefix), len(a.prefix)) })
	return t
}

// Empty reports whether there are no patterns.
func (p *Patterns[T]) Empty() bool { return len(p.written.exact) == 0 && len(p.written.prefixes) == 0 }

// FindExact returns the value for a name as it is written.
func (p *Patterns[T]) FindExact(name []byte) (v T, ok bool) {
	if v, ok = p.written.exact[string(name)]; ok {
		return v, true
	}
	v, at := p.written.prefixed(name)
	return v, at >= 0
}

// Find returns the value for a name in any spelling that a lenient server may take for a name of the table, see [Fold]. A name of the
// table as it is written takes precedence.
func (p *Patterns[T]) Find(name []byte) (v T, ok bool) {
	if p.Empty() {
		return v, false
	}
	if v, ok = p.written.exact[string(name)]; ok {
		return v, true
	}
	folded, t := Fold(name), &p.written
	if p.folded != nil {
		t = p.folded
	}
	if v, ok = t.exact[string(folded)]; ok {
		return v, true
	}
	v, written := p.written.prefixed(name)
	if loose, length := t.prefixed(folded); length > written {
		return loose, true
	}
	return v, written >= 0
}

// prefixed returns the value of the longest prefix of a name, and the length of that prefix; -1 if there is none.
func (t *table[T]) prefixed(name []byte) (v T, length int) {
	for _, x := range t.prefixes {
		if len(name) >= len(x.prefix) && string(name[:len(x.prefix)]) == x.prefix {
			return x.value, len(x.prefix)
		}
	}
	return v, -1
}
