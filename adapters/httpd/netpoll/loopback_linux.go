package netpoll

import (
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// LoopbackControl switches a socket that is bound to the loopback, or about to connect there, to Reno congestion control. Between two
// processes of one machine no line can be congested, but BBR, the default of many servers, paces what is sent with timers: a call of
// 1 MiB takes 10 to 20 % more. Reno is in every kernel, and anybody may choose it (net.ipv4.tcp_allowed_congestion_control). It must
// be chosen before there is a connection: pacing that has begun stays. Accepted connections inherit it from their listener. A refusal
// costs nothing but that time.
//
// It is a Control function of net.Dialer and net.ListenConfig.
func LoopbackControl(_, address string, raw syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !at.Addr().Unmap().IsLoopback() {
		return nil // a Unix socket's path, or another machine
	}
	return raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno")
	})
}
