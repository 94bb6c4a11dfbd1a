package policies

import "iter"

// List is a doubly linked list of values that contain their links, so that adding one allocates nothing. It does no locking,
// and must not be copied.
type List[T any] struct{ root Link[T] }

// Link is the place of a value in a [List]. The zero Link is in none.
type Link[T any] struct {
	of         *T
	prev, next *Link[T]
}

// Add appends a value, whose link is at and is in no list.
func (l *List[T]) Add(of *T, at *Link[T]) {
	if l.root.next == nil {
		l.root.prev, l.root.next = &l.root, &l.root
	}
	*at = Link[T]{of: of, prev: l.root.prev, next: &l.root}
	at.prev.next, l.root.prev = at, at
}

// First returns the value that was added first; nil if the list is empty.
func (l *List[T]) First() *T {
	if l.root.next == nil {
		return nil
	}
	return l.root.next.of
}

// All yields the values in the order in which they were added. The list must not change meanwhile.
func (l *List[T]) All() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for at := l.root.next; at != nil && at.of != nil && yield(at.of); at = at.next {
		}
	}
}

// Remove takes the value out of its list, if it is in one.
func (k *Link[T]) Remove() {
	if k.next != nil {
		k.prev.next, k.next.prev = k.next, k.prev
		*k = Link[T]{}
	}
}
