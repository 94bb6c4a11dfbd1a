package target

import (
	"github.com/rs/zerolog"

	"dragoman/adapters/stdio/socket"
	"dragoman/adapters/transport"
	"dragoman/internal/config"
	"dragoman/proxy"
)

// socketWires returns the transports of a server that speaks lines of at most maxLine bytes over a socket. ok is false for
// every other upstream.
func socketWires(up *config.Upstream, maxLine int, log zerolog.Logger) (wires transport.Wires, ok bool) {
	network, address, ok := up.Socket()
	if !ok {
		return transport.Wires{}, false
	}
	socket := socket.NewDialer(socket.Options{Name: up.Name, Network: network, Address: address,
		ConnectTimeout: up.ConnectTimeout, MaxLine: maxLine,
		Noise: func(line []byte, err error, skipped int) {
			log.Warn().Bytes("line", line[:min(len(line), 200)]).Int("left_out", skipped).AnErr("cause", err).Msg("a line of the server is no message; it is skipped")
		}})
	return transport.Wires{Stdio: true, Remote: true, Modern: socket.Dial(proxy.Modern), Legacy: socket.Dial(proxy.Legacy)}, true
}

// speaksLines reports whether a server speaks lines: a child process, or one behind a socket.
func speaksLines(up *config.Upstream) bool {
	_, _, socket := up.Socket()
	return socket || len(up.Command) > 0
}

// maxProcesses returns the bound on an upstream's child processes, 0 if it has none. Processes behind a socket are not
// ours to count; connections are bounded as sessions are.
func maxProcesses(up *config.Upstream) int {
	if len(up.Command) == 0 {
		return 0
	}
	return up.MaxProcesses
}
