package policies

import (
	"cmp"
	"slices"
	"strings"
)

// Patterns maps names to values. A pattern that ends in * matches every name with that prefix. An exact name takes precedence over a
// prefix, a longer prefix over a shorter one.
type Patterns[T any] struct {
	exact    map[string]T
	prefixes []prefixPattern[T] // longest first
}

type prefixPattern[T any] struct {
	prefix string
	value  T
}

// NewPatterns makes a table of patterns and their values.
func NewPatterns[T any](values map[string]T) Patterns[T] {
	p := Patterns[T]{exact: make(map[string]T, len(values))}
	for pattern, v := range values {
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
			p.prefixes = append(p.prefixes, prefixPattern[T]{prefix, v})
		} else {
			p.exact[pattern] = v
		}
	}
	slices.SortFunc(p.prefixes, func(a, b prefixPattern[T]) int { return cmp.Compare(len(b.prefix), len(a.prefix)) })
	return p
}

// Empty reports whether there are no patterns.
func (p *Patterns[T]) Empty() bool { return len(p.exact) == 0 && len(p.prefixes) == 0 }

// Find returns the value for a name.
func (p *Patterns[T]) Find(name []byte) (v T, ok bool) {
	if v, ok = p.exact[string(name)]; ok {
		return v, true
	}
	for _, x := range p.prefixes {
		if len(name) >= len(x.prefix) && string(name[:len(x.prefix)]) == x.prefix {
			return x.value, true
		}
	}
	return v, false
}
