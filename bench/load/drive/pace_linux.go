package drive

import (
	"time"

	"golang.org/x/sys/unix"
)

// punctual asks for the thread's sleep to end within a microsecond of its time, not fifty.
func punctual() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1000, 0, 0, 0) } // without it all is fifty microseconds late

// sleep sleeps on the thread. It may end early.
func sleep(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, 0, &t, nil) // an interrupted one is begun again by who waits
}
