//go:build race

package proxy

// Poison has tests under the race detector find whoever uses what is lent after its end: an exchange that is over is not lent again, and
// says so to whoever uses it; httpd overwrites the bytes of a request that has been answered.
const Poison = true
