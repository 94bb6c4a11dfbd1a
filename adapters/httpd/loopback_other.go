//go:build !linux

package httpd

import "syscall"

// calm does nothing here: a socket's congestion control can be chosen on Linux.
func calm(string, string, syscall.RawConn) error { return nil }
