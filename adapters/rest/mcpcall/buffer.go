package mcpcall

import (
	"sync"

	"dragoman/proxy"
)

// Messages of minPooled to maxPooled bytes are built in buffers that are used again. Smaller ones are cheap, larger ones are
// left to the collector.
const (
	minPooled = 64 << 10
	maxPooled = 4 << 20
)

var buffers sync.Pool // of *[]byte

// buffer returns an empty slice with room for size bytes.
func buffer(size int) []byte {
	if size >= minPooled {
		if b, ok := buffers.Get().(*[]byte); ok && cap(*b) >= size {
			return (*b)[:0]
		}
	}
	return make([]byte, 0, size)
}

// recycle takes back the buffer of a message that is no longer used.
func recycle(raw []byte) {
	if cap(raw) < minPooled || cap(raw) > maxPooled {
		return
	}
	proxy.Overwrite(raw)
	buffers.Put(&raw)
}
