//go:build !linux

package netpoll

import "syscall"

// LoopbackControl does nothing here: congestion control can be chosen on Linux.
func LoopbackControl(string, string, syscall.RawConn) error { return nil }
