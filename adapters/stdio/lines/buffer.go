package lines

import (
	"math/bits"
	"sync"
)

const (
	// ChunkSize is the size in bytes of one read and one gathered write: the capacity of a Linux pipe.
	ChunkSize = 64 << 10
	// slabClasses is the number of pooled sizes: 64 KiB, doubled up to 512 KiB. Larger buffers are regions.
	slabClasses = 4
	largestSlab = ChunkSize << (slabClasses - 1)
)

// slab is a borrowed buffer. Its content is B[:len(B)]; it has room for cap(B) bytes.
type slab struct {
	B    []byte
	high int  // of a region: how many bytes may have been touched
	ours bool // a region: its memory is outside the garbage collector and must not be used after Free
}

// slabs pools buffers by size class, so that an idle reader or writer holds none, and a stream of lines does not allocate
// one for each line.
var slabs [slabClasses]sync.Pool

// slabClass returns the class whose size is at least n; it may exceed the pooled ones.
func slabClass(n int) int { return bits.Len(uint(max(n, 1)-1) / ChunkSize) }

// Borrow returns an empty slab with room for at least n bytes.
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

// Free releases the slab; neither it nor a slice of it may be used afterwards.
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

// poison overwrites a released slab in tests, so that its content cannot be mistaken for a message.
func (s *slab) poison() {
	if !poisoned {
		return
	}
	for b := s.B[:cap(s.B)]; len(b) > 0; b = b[copy(b, poisonText):] {
	}
}

const poisonText = "\xDB released \xDB"
