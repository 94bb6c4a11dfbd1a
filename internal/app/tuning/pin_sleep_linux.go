package tuning

import (
	"syscall"
	"unsafe"
)

// rawSleep sleeps without informing the scheduler, which would take the processor away. A signal ends it.
func rawSleep(nap *syscall.Timespec) {
	_, _, _ = syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(nap)), 0, 0) //nolint:gosec // argument of a system call
}
