package tuning

import (
	"syscall"
	"time"
)

// processorTime returns the processor time that the process has used; 0 if the system does not tell.
func processorTime() time.Duration {
	self, err := syscall.GetCurrentProcess()
	if err != nil {
		return 0
	}
	var created, exited, kernel, user syscall.Filetime
	if syscall.GetProcessTimes(self, &created, &exited, &kernel, &user) != nil {
		return 0
	}
	ticks := func(t syscall.Filetime) int64 { return int64(t.HighDateTime)<<32 | int64(t.LowDateTime) } // of 100 ns; no calendar time
	return time.Duration(100 * (ticks(kernel) + ticks(user)))
}
