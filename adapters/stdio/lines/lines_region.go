package lines

import (
	"slices"
	"sync"
	"time"
)

// A large line stands in a region: address space for the longest line, reserved at once, of which the system gives memory
// page by page as the line comes. So a line grows without being copied, is held once, costs the collector nothing, and is
// given back to the system as soon as nobody needs it.
const (
	// regionSize is what is reserved at least, so that one region serves as well as another.
	regionSize = DefaultMaxLine + ChunkSize
	// Of those that are given back some stay, for the next large line: as long as what they have held is no more than this
	// together, and no more than that each.
	warmTotal = 32 << 20
	warmBytes = 4 << 20
	// warmTime is how often those that were not needed since are let go.
	warmTime = 500 * time.Millisecond
)

// regionPool keeps a few regions for a moment.
type regionPool struct {
	mu   sync.Mutex
	warm []*slab
	held int // what they have held together, in bytes
	low  int // how many of warm nobody has needed since the last look
	lent int // how many are out
	tick *time.Timer
}

var regions regionPool

// LargeLines answers how many lines beyond 512 KiB, and lines on their way there, are being held in memory of their own just
// now, for all servers and clients of this process. With nothing under way there are none: the collector does not see them,
// so that one which nobody gives back is there for good.
func LargeLines() int {
	regions.mu.Lock()
	defer regions.mu.Unlock()
	return regions.lent
}

// take returns an empty region with room for n bytes at least, nil if the system gives none.
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

// put takes a region back.
func (p *regionPool) put(s *slab) {
	s.high = max(s.high, len(s.B))
	p.mu.Lock()
	p.lent--
	p.mu.Unlock()
	if s.high > warmBytes || cap(s.B) > 2*regionSize || poisoned {
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

// cool lets go of the regions that nobody has needed since the last look, and looks again while there are any.
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
