//go:build !unix

package testkit

import (
	"testing"
	"time"
)

// Took runs f and returns how long that took by the clock.
func Took(_ testing.TB, f func()) time.Duration {
	begin := time.Now()
	f()
	return time.Since(begin)
}
