package policies

import (
	"cmp"
	"slices"
	"strings"
)

// Rules are values by name. A name that ends in * stands for all that begin so; an exact one goes before, then the longest.
type Rules[T any] struct {
	exact    map[string]T
	prefixes []prefixRule[T]
}

type prefixRule[T any] struct {
	prefix string
	value  T
}

// NewRules makes rules of patterns and their values.
func NewRules[T any](of map[string]T) Rules[T] {
	r := Rules[T]{exact: make(map[string]T, len(of))}
	for pattern, v := range of {
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
			r.prefixes = append(r.prefixes, prefixRule[T]{prefix, v})
		} else {
			r.exact[pattern] = v
		}
	}
	slices.SortFunc(r.prefixes, func(a, b prefixRule[T]) int { return cmp.Compare(len(b.prefix), len(a.prefix)) })
	return r
}

// Empty tells whether there are none.
func (r *Rules[T]) Empty() bool { return len(r.exact) == 0 && len(r.prefixes) == 0 }

// Find gives the value for a name.
func (r *Rules[T]) Find(name []byte) (v T, ok bool) {
	if v, ok = r.exact[string(name)]; ok {
		return v, true
	}
	for _, p := range r.prefixes {
		if len(name) >= len(p.prefix) && string(name[:len(p.prefix)]) == p.prefix {
			return p.value, true
		}
	}
	return v, false
}
