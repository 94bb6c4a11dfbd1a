package httpcall

import (
	"sync"

	"dragoman/proxy"
)

// buffers recycles the memory of bodies, *[]byte. Very large buffers are left to the garbage collector, so that one large
// body does not cost memory for ever.
var buffers sync.Pool

const (
	firstBuffer = 2 << 10
	maxBuffer   = 4 << 20
)

// getBuffer returns an empty buffer.
func getBuffer() *[]byte {
	if b, ok := buffers.Get().(*[]byte); ok {
		*b = (*b)[:0]
		return b
	}
	b := make([]byte, 0, firstBuffer)
	return &b
}

// putBuffer recycles a buffer; nil is allowed.
func putBuffer(b *[]byte) {
	if b == nil {
		return
	}
	proxy.Overwrite(*b)
	if cap(*b) <= maxBuffer {
		buffers.Put(b)
	}
}
