package httpcall

import (
	"sync"

	"dragoman/proxy"
)

// buffers recycles the memory of bodies; very large ones are left to the collector, lest one large body be paid for ever.
var buffers bufferPool

type bufferPool struct{ pool sync.Pool }

const (
	firstBuffer = 2 << 10
	maxBuffer   = 4 << 20
)

// get lends memory, empty.
func (p *bufferPool) get() *[]byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		*b = (*b)[:0]
		return b
	}
	b := make([]byte, 0, firstBuffer)
	return &b
}

// put takes it back; nil is nothing.
func (p *bufferPool) put(b *[]byte) {
	if b == nil {
		return
	}
	if proxy.Poison {
		for i := range *b {
			(*b)[i] = '!'
		}
	}
	if cap(*b) <= maxBuffer {
		p.pool.Put(b)
	}
}
