//go:build unix

package testkit

import (
	"syscall"
	"testing"
	"time"
)

// Took runs f and returns the processor time that the process has used meanwhile. Unlike the time by the clock, it does not grow with what
// else the machine does.
func Took(t testing.TB, f func()) time.Duration {
	t.Helper()
	begin := processorTime(t)
	f()
	return processorTime(t) - begin
}

func processorTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
