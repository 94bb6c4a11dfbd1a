package launch

import (
	"math/bits"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"unsafe"
)

//nolint:gochecknoinits // see the package's documentation
func init() {
	if text := os.Getenv(key); text != "" && len(os.Args) > 2 {
		err := launch(text)
		_, _ = os.Stderr.WriteString("dragoman: cannot start " + os.Args[1] + ": " + err.Error() + "\n")
		os.Exit(Failed)
	}
}

// launch executes the program of our arguments. It returns only if that fails.
func launch(text string) error {
	l, err := decode(text)
	if err != nil {
		return err
	}
	if l.Account != nil {
		if err := l.Account.assume(); err != nil {
			return err
		}
	}
	env := slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, key+"=") })
	if l.CPUs > 0 {
		if err := pin(l.CPUs); err != nil {
			return err
		}
	}
	if l.Memory > 0 {
		return execLimited(uint64(l.Memory), os.Args[1], os.Args[2:], env)
	}
	return os.NewSyscallError("execve", syscall.Exec(os.Args[1], os.Args[2:], env)) //nolint:gosec // G702: what the operator configured
}

// execLimited executes a program with a limit on its data, which it cannot raise. The limit holds for us too from that moment on, and may be
// less than what Go's runtime has already: with any further memory that this process asked for, it would end. Everything is therefore
// prepared before, and no other goroutine runs.
func execLimited(data uint64, program string, argv, env []string) error {
	name, err := syscall.BytePtrFromString(program)
	if err != nil {
		return err
	}
	args, err := syscall.SlicePtrFromStrings(argv)
	if err != nil {
		return err
	}
	vars, err := syscall.SlicePtrFromStrings(env)
	if err != nil {
		return err
	}
	limit := syscall.Rlimit{Cur: data, Max: data}
	runtime.GOMAXPROCS(1) // waits until no other goroutine runs and no thread is being created; from here on we have the only processor
	//nolint:gosec // G103: the kernel's interface
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 0, syscall.RLIMIT_DATA, uintptr(unsafe.Pointer(&limit)), 0, 0, 0); errno != 0 {
		return os.NewSyscallError("prlimit", errno)
	}
	//nolint:gosec // G103: the kernel's interface
	_, _, errno := syscall.RawSyscall(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(&args[0])), uintptr(unsafe.Pointer(&vars[0])))
	return os.NewSyscallError("execve", errno)
}

// assume makes this process one of the account. That clears PDEATHSIG, which is set again; should the parent have ended in
// between, its keeper ends us.
func (a *Account) assume() error {
	if err := syscall.Setgroups(a.Groups); err != nil {
		return os.NewSyscallError("setgroups", err)
	}
	if err := syscall.Setresgid(a.GID, a.GID, a.GID); err != nil {
		return os.NewSyscallError("setresgid", err)
	}
	if err := syscall.Setresuid(a.UID, a.UID, a.UID); err != nil {
		return os.NewSyscallError("setresuid", err)
	}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGTERM), 0); errno != 0 {
		return os.NewSyscallError("prctl", errno)
	}
	return nil
}

// processors is a set of processors as the kernel has it, with room for 8,192 of them.
type processors [8192 / bits.UintSize]uintptr

// call is sched_getaffinity(2) or sched_setaffinity(2) of this thread, which is the one that executes the program.
func (p *processors) call(trap uintptr) syscall.Errno {
	_, _, errno := syscall.RawSyscall(trap, 0, unsafe.Sizeof(*p), uintptr(unsafe.Pointer(p))) //nolint:gosec // G103: the kernel's interface
	return errno
}

// pin lets this thread, and what it executes and starts, run on n of its processors only. Which these are depends on our process id,
// so that servers do not crowd on the same ones.
func pin(n int) error {
	var may, chosen processors
	if errno := may.call(syscall.SYS_SCHED_GETAFFINITY); errno != 0 {
		return os.NewSyscallError("sched_getaffinity", errno)
	}
	var all []int
	for word, set := range may {
		for ; set != 0; set &= set - 1 {
			all = append(all, word*bits.UintSize+bits.TrailingZeros(uint(set)))
		}
	}
	for i := range min(n, len(all)) {
		cpu := all[(os.Getpid()+i)%len(all)]
		chosen[cpu/bits.UintSize] |= 1 << (cpu % bits.UintSize)
	}
	if errno := chosen.call(syscall.SYS_SCHED_SETAFFINITY); errno != 0 {
		return os.NewSyscallError("sched_setaffinity", errno)
	}
	return nil
}
