package stdio

import (
	"math/bits"
	"sync"
)

const (
	// chunkSize is what one read asks for and what one gathered write carries: the capacity of a Linux pipe.
	chunkSize = 64 << 10
	// slabClasses are the pooled sizes: 64 KiB, doubled up to 16 MiB. Larger ones are left to the garbage collector.
	slabClasses = 9
)

// slab is a buffer on loan from slabs. The length of b is what it holds, the capacity what it could.
type slab struct{ b []byte }

// slabs lend buffers by size class, so that an idle reader or writer owns none, and a stream of large lines does not
// allocate one for each.
var slabs [slabClasses]sync.Pool

// slabClass returns the class whose size is at least n; it may lie beyond the pooled ones.
func slabClass(n int) int { return bits.Len(uint(max(n, 1)-1) / chunkSize) }

// takeSlab returns an empty slab with room for n bytes at least.
func takeSlab(n int) *slab {
	class := slabClass(n)
	if class >= slabClasses {
		return &slab{b: make([]byte, 0, n)}
	}
	if s, ok := slabs[class].Get().(*slab); ok {
		s.b = s.b[:0]
		return s
	}
	return &slab{b: make([]byte, 0, chunkSize<<class)}
}

// free gives the slab back; neither it nor a slice of it may be used afterwards.
func (s *slab) free() {
	class := slabClass(cap(s.b))
	if class < slabClasses && cap(s.b) == chunkSize<<class {
		slabs[class].Put(s)
	}
}
