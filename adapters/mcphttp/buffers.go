package mcphttp

import "sync"

// buffers recycles the memory of bodies; very large ones are left to the collector, lest one large body be paid for ever.
var buffers bufferPool

type bufferPool struct{ pool sync.Pool }

const (
	firstBuffer = 2 << 10
	maxBuffer   = 4 << 20
)

func (p *bufferPool) get() []byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, firstBuffer)
}

func (p *bufferPool) put(b []byte) {
	if cap(b) > 0 && cap(b) <= maxBuffer {
		p.pool.Put(&b)
	}
}
