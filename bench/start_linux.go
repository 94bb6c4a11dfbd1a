package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// retryDelay is the precision with which a start is timed: the time between two attempts to connect.
const retryDelay = 200 * time.Microsecond

// shortSleep sleeps in a system call: time.Sleep takes a millisecond at least.
func shortSleep() {
	t := unix.NsecToTimespec(int64(retryDelay))
	_ = unix.Nanosleep(&t, nil) // a signal may end it early
}

// suspend stops a process, or lets it go on.
func suspend(pid int, on bool) error {
	if on {
		return unix.Kill(pid, unix.SIGSTOP)
	}
	return unix.Kill(pid, unix.SIGCONT)
}
