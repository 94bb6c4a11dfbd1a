package catalogue

import (
	"bytes"
	"slices"
)

// Same reports whether two lists have the same items in the same order. Only keys and definitions are compared.
func (l *List) Same(other *List) bool {
	return slices.EqualFunc(l.Items, other.Items, func(a, b Item) bool { return a.Key == b.Key && bytes.Equal(a.Raw, b.Raw) })
}

// Distinct leaves out items whose key an earlier item has, which takes their definition. It changes what it is given.
func Distinct(items []Item) []Item {
	at := make(map[string]int, len(items))
	kept := items[:0]
	for _, item := range items {
		if i, seen := at[item.Key]; seen {
			kept[i].Raw = item.Raw
			continue
		}
		at[item.Key] = len(kept)
		kept = append(kept, item)
	}
	return kept
}
