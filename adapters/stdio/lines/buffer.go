package lines

import (
	"math/bits"
	"slices"
	"sync"
	"time"

	"dragoman/proxy"
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
		proxy.Overwrite(s.B[:cap(s.B)])
		slabs[class].Put(s)
	}
}

// A large line is held in a region: address space for the longest line, reserved at once, to which the system assigns
// memory page by page as the line arrives. So a line grows without being copied, exists once, costs the garbage collector
// nothing, and its memory returns to the system when it is released.
const (
	// regionSize is the least size of a region in bytes, so that regions are interchangeable.
	regionSize = DefaultMaxLine + ChunkSize
	// Some released regions are kept for the next large line: those that have held at most warmBytes each, and warmTotal
	// together.
	warmTotal = 32 << 20
	warmBytes = 4 << 20
	// warmTime is how often the regions not needed since the last check are unmapped.
	warmTime = 500 * time.Millisecond
)

// regionPool keeps a few released regions for a short time.
type regionPool struct {
	mu   sync.Mutex
	warm []*slab
	held int // bytes that the warm regions have held
	low  int // how many of warm were not needed since the last check
	lent int // regions in use
	tick *time.Timer
}

var regions regionPool

// LargeLines returns how many regions are in use, for lines beyond 512 KiB and lines that grow towards it, in this whole
// process. It is 0 while no message is in flight. The garbage collector does not see regions, so one that is never
// released is leaked.
func LargeLines() int {
	regions.mu.Lock()
	defer regions.mu.Unlock()
	return regions.lent
}

// take returns an empty region with room for at least n bytes; nil if the system provides none.
func (p *regionPool) take(n int) *slab {
	p.mu.Lock()
	if last := len(p.warm) - 1; last >= 0 && n <= regionSize {
		s := p.warm[last]
		p.warm[last] = nil
		p.warm = p.warm[:last]
		p.held -= s.high
		p.low = min(p.low, last)
		p.lent++
		p.mu.Unlock()
		return s
	}
	p.mu.Unlock()
	b := mapMemory(max(n, regionSize))
	if b == nil {
		return nil
	}
	p.mu.Lock()
	p.lent++
	p.mu.Unlock()
	return &slab{B: b[:0], ours: true}
}

// put releases a region.
func (p *regionPool) put(s *slab) {
	s.high = max(s.high, len(s.B))
	p.mu.Lock()
	p.lent--
	p.mu.Unlock()
	if s.high > warmBytes || cap(s.B) > 2*regionSize || proxy.Poison {
		unmapMemory(s.B)
		return
	}
	s.B = s.B[:0]
	p.mu.Lock()
	if p.held+s.high > warmTotal {
		p.mu.Unlock()
		unmapMemory(s.B)
		return
	}
	p.warm = append(p.warm, s)
	p.held += s.high
	if p.tick == nil {
		p.low = 0
		p.tick = time.AfterFunc(warmTime, p.cool)
	}
	p.mu.Unlock()
}

// cool unmaps the regions that were not needed since the last check, and schedules the next check while there are any.
func (p *regionPool) cool() {
	p.mu.Lock()
	old := slices.Clone(p.warm[:p.low])
	for _, s := range old {
		p.held -= s.high
	}
	p.warm = slices.Delete(p.warm, 0, p.low)
	if p.low = len(p.warm); p.low > 0 {
		p.tick.Reset(warmTime)
	} else {
		p.tick = nil
	}
	p.mu.Unlock()
	for _, s := range old {
		unmapMemory(s.B)
	}
}
