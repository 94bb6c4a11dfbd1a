package lines

import (
	"math/bits"
	"sync"
)

const (
	// ChunkSize is what one read asks for and what one gathered write carries: the capacity of a Linux pipe.
	ChunkSize = 64 << 10
	// slabClasses are the pooled sizes: 64 KiB, doubled up to 512 KiB. Larger ones are regions.
	slabClasses = 4
	largestSlab = ChunkSize << (slabClasses - 1)
)

// slab is a buffer on loan. The length of b is what it holds, the capacity what it could.
type slab struct {
	B    []byte
	high int  // a region: how much of it may have been touched
	ours bool // a region: its memory is not the collector's, and nothing may look at it after free
}

// slabs lend buffers by size class, so that an idle reader or writer owns none, and a stream of lines does not allocate one
// for each.
var slabs [slabClasses]sync.Pool

// slabClass returns the class whose size is at least n; it may lie beyond the pooled ones.
func slabClass(n int) int { return bits.Len(uint(max(n, 1)-1) / ChunkSize) }

// Borrow returns an empty slab with room for n bytes at least.
func Borrow(n int) *slab {
	class := slabClass(n)
	if class >= slabClasses {
		if s := regions.take(n); s != nil {
			return s
		}
		return &slab{B: make([]byte, 0, n)}
	}
	if s, ok := slabs[class].Get().(*slab); ok {
		s.B = s.B[:0]
		return s
	}
	return &slab{B: make([]byte, 0, ChunkSize<<class)}
}

// Free gives the slab back; neither it nor a slice of it may be used afterwards.
func (s *slab) Free() {
	if s.ours {
		regions.put(s)
		return
	}
	if class := slabClass(cap(s.B)); class < slabClasses && cap(s.B) == ChunkSize<<class {
		s.poison()
		slabs[class].Put(s)
	}
}

// poison makes what is read of a slab after its release easy to tell from a message, in tests.
func (s *slab) poison() {
	if !poisoned {
		return
	}
	for b := s.B[:cap(s.B)]; len(b) > 0; b = b[copy(b, poisonText):] {
	}
}

const poisonText = "\xDB released \xDB"
