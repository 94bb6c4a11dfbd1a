package app

import (
	"syscall"
	"unsafe"
)

// rawSleep sleeps without telling the scheduler, which would take the processor away. A signal ends it.
func rawSleep(nap *syscall.Timespec) {
	_, _, _ = syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(nap)), 0, 0) //nolint:gosec // what a system call wants
}
