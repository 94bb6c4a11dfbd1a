package catalog

import "github.com/hashicorp/golang-lru/v2/simplelru"

// MaxBytes bounds what one Sized keeps. A value that takes all of it is kept alone; a larger one is not kept.
const MaxBytes = 64 << 20

// Sized is a cache of what is costly to make again, bounded by number and by bytes. The least recently used value goes first.
// It is not safe for concurrent use.
type Sized[K comparable, V interface{ Bytes() int }] struct {
	*simplelru.LRU[K, V]
	size int
}

// NewSized makes a cache of at most entries values.
func NewSized[K comparable, V interface{ Bytes() int }](entries int) (*Sized[K, V], error) {
	s := &Sized[K, V]{}
	var err error
	s.LRU, err = simplelru.NewLRU(entries, func(_ K, v V) { s.size -= v.Bytes() })
	return s, err
}

// Put stores a value and drops what has no room beside it.
func (s *Sized[K, V]) Put(key K, v V) {
	s.Remove(key)
	if v.Bytes() > MaxBytes {
		return
	}
	s.size += v.Bytes()
	s.Add(key, v)
	for s.size > MaxBytes {
		s.RemoveOldest()
	}
}

// Size returns the bytes of all values.
func (s *Sized[K, V]) Size() int { return s.size }
