package launch

import (
	"os"
	"slices"
	"strings"
	"syscall"
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
	if l.Memory > 0 {
		if err := syscall.Setrlimit(syscall.RLIMIT_DATA, limitOf(uint64(l.Memory))); err != nil {
			return os.NewSyscallError("setrlimit", err)
		}
	}
	return os.NewSyscallError("execve", syscall.Exec(os.Args[1], os.Args[2:], env)) //nolint:gosec // G702: what the operator configured
}

// limitOf is a limit that the program cannot raise.
func limitOf(n uint64) *syscall.Rlimit { return &syscall.Rlimit{Cur: n, Max: n} }

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
