package httpcall

import (
	"sync"

	"dragoman/proxy"
)

// buffers recycles the memory of bodies. Very large buffers are left to the garbage collector, so that one large body
// does not cost memory for ever.
var buffers bufferPool

type bufferPool struct{ pool sync.Pool }

const (
	firstBuffer = 2 << 10
	maxBuffer   = 4 << 20
)

// get returns an empty buffer.
func (p *bufferPool) get() *[]byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		*b = (*b)[:0]
		return b
	}
	b := make([]byte, 0, firstBuffer)
	return &b
}

// put returns a buffer to the pool; nil is allowed.
func (p *bufferPool) put(b *[]byte) {
	if b == nil {
		return
	}
	proxy.Overwrite(*b)
	if cap(*b) <= maxBuffer {
		p.pool.Put(b)
	}
}
