package guardian

import (
	"syscall"
	"unsafe"
)

// What golang.org/x/sys/unix and runtime/debug would do for us, if they did not come so late, see init.

const (
	prSetChildSubreaper = 36         // PR_SET_CHILD_SUBREAPER of linux/prctl.h
	unlimited           = ^uint64(0) // RLIM64_INFINITY of linux/resource.h
)

func prctl(option, value uintptr) error {
	if _, _, e := syscall.RawSyscall6(syscall.SYS_PRCTL, option, value, 0, 0, 0, 0); e != 0 {
		return e
	}
	return nil
}

// freeOSMemory is debug.FreeOSMemory, whose package prints what it finds, and so comes after a hundred others. The name of the
// runtime's part of it is as old as the function, and if it goes, nothing will be linked.
//
//go:linkname freeOSMemory runtime/debug.freeOSMemory
func freeOSMemory()

// prlimit sets a limit of a process; 0 is ourselves.
func prlimit(pid, resource int, limit *syscall.Rlimit) error {
	if _, _, e := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), uintptr(resource), uintptr(unsafe.Pointer(limit)), 0, 0, 0); e != 0 { //nolint:gosec // G103, G115: as the system wants it
		return e
	}
	return nil
}

// inherited tells whether a descriptor is there that outlives an exec.
func inherited(fd int) bool {
	flags, _, e := syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFD, 0) //nolint:gosec // G115: not negative
	return e == 0 && flags&syscall.FD_CLOEXEC == 0
}
