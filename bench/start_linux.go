package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// napTime is how exactly a start is timed: each try that finds nobody takes about so long.
const napTime = 200 * time.Microsecond

// shortSleep waits on the thread: Go's own sleep takes a millisecond.
func shortSleep() {
	t := unix.NsecToTimespec(int64(napTime))
	_ = unix.Nanosleep(&t, nil) // it may end early
}
