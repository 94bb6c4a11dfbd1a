//go:build !linux

package netpoll

// unread is not known here.
func unread(int) (n int, seen bool) { return 0, false }
