//go:build !race

package proxy

// Poison is true under the race detector only.
const Poison = false

// Overwrite does nothing without the race detector.
func Overwrite([]byte) {}
