//go:build unix

package tuning

import (
	"syscall"
	"time"
)

// processorTime returns the processor time that the process has used; 0 if the system does not tell.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
