//go:build !race

package proxy

// Poison is true under the race detector only.
const Poison = false
