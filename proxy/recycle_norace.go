//go:build !race

package proxy

// Poison is what it is under the race detector.
const Poison = false
