package netpoll

import "golang.org/x/sys/unix"

// unread returns the bytes in the send queue of a socket (tcp(7), SIOCOUTQ).
func unread(fd int) (n int, seen bool) {
	n, err := unix.IoctlGetInt(fd, unix.TIOCOUTQ)
	return n, err == nil
}
