package netpoll

import (
	"net"
	"testing"

	"dragoman/internal/testkit"
)

// On the loopback both ends take Reno; a listener that other machines can reach keeps the system's congestion control.
func TestLoopbackControl(t *testing.T) {
	plain, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	usual := testkit.Congestion(t, plain)
	for addr, want := range map[string]string{"127.0.0.1:0": "reno", "0.0.0.0:0": usual} {
		ln, err := (&net.ListenConfig{Control: LoopbackControl}).Listen(t.Context(), "tcp4", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		_, port, _ := net.SplitHostPort(ln.Addr().String())
		ours, err := (&net.Dialer{Control: LoopbackControl}).DialContext(t.Context(), "tcp4", "127.0.0.1:"+port)
		if err != nil {
			t.Fatal(err)
		}
		defer ours.Close()
		theirs, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer theirs.Close()
		if dialled, accepted := testkit.Congestion(t, ours), testkit.Congestion(t, theirs); dialled != "reno" || accepted != want {
			t.Errorf("%s: dialled %s, accepted %s, want %s", addr, dialled, accepted, want)
		}
	}
}
