package cli

import "syscall"

// Exit codes, on which scripts rely.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	exitInterrupted = 128 + int(syscall.SIGINT) // a second interrupt, as shells count it
)
