//go:build race

package proxy

// Poison makes tests under the race detector find uses after the end: an exchange is not reused and panics if it is used, and httpd
// overwrites the bytes of a request that has been answered.
const Poison = true
