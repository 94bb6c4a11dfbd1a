//go:build race

package proxy

// Poison makes tests under the race detector find uses after the end: an exchange is not reused and panics if it is used, and
// adapters overwrite memory that they release.
const Poison = true

// Overwrite overwrites memory that is released, so that a later use of it fails.
func Overwrite(b []byte) {
	for n := copy(b, "!"); n > 0 && n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}
