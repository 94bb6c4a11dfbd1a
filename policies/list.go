package policies

import "iter"

// List is a doubly linked list of values that contain their links, so that adding one allocates nothing. It does no locking.
type List[T any] struct {
	Link        func(*T) *Link[T] // returns the links of a value
	first, last *T
}

// Link holds the neighbours of a value in a [List]. The zero Link is in none.
type Link[T any] struct{ prev, next *T }

// First returns the value that was added first; nil if the list is empty.
func (l *List[T]) First() *T { return l.first }

// All yields the values in the order in which they were added. The list must not change meanwhile.
func (l *List[T]) All() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for v := l.first; v != nil && yield(v); v = l.Link(v).next {
		}
	}
}

// Add appends a value that is in no list.
func (l *List[T]) Add(v *T) {
	if l.Link(v).prev = l.last; l.last != nil {
		l.Link(l.last).next = v
	} else {
		l.first = v
	}
	l.last = v
}

// Remove takes a value out of the list, if it is in it.
func (l *List[T]) Remove(v *T) {
	at := l.Link(v)
	switch {
	case at.prev != nil:
		l.Link(at.prev).next = at.next
	case l.first == v:
		l.first = at.next
	default:
		return
	}
	if at.next != nil {
		l.Link(at.next).prev = at.prev
	} else {
		l.last = at.prev
	}
	*at = Link[T]{}
}
