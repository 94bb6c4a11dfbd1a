package testkit

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Congestion returns the name of the congestion control of a TCP socket.
func Congestion(t *testing.T, socket any) string {
	t.Helper()
	raw, err := socket.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var name string
	var got error
	if err := raw.Control(func(fd uintptr) { name, got = unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION) }); err != nil || got != nil {
		t.Fatal(err, got)
	}
	return name
}
