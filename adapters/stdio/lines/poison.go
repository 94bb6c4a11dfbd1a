//go:build !race

package lines

// poisoned makes released buffers be overwritten. It is set under the race detector, so that a test fails that reads a
// buffer after its release.
const poisoned = false
