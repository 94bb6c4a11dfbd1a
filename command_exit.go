package main

import "syscall"

// Exit codes, on which scripts rely.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 128 + int(syscall.SIGINT) // a second interrupt, as shells count it
)
