package guardian

import (
	"runtime"
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

// deaf makes signals ones that do nothing to us, and are as they ever were in our children: what a runtime handles it resets in them,
// and it does not know that we have the system ignore these. To be told of each and not to listen, as elsewhere, takes it a
// quarter of a millisecond. Those of a terminal it does not handle; they do nothing to a group without a parent in its session, as
// ours is. What was ignored when we were started stays so.
func deaf() {
	var ignore [8]uintptr // a sigaction of the kernel: the handler, then what is 0
	handler, mask := 0, uintptr(8)
	switch runtime.GOARCH {
	case "mips", "mipsle", "mips64", "mips64le": // there it has its flags first, and twice as many signals
		handler, mask = 1, 16
	}
	ignore[handler] = 1 // SIG_IGN
	for _, s := range [...]syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2} {
		_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&ignore)), 0, mask, 0, 0) //nolint:gosec // G103: as the system wants it
	}
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
