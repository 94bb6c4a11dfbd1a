package transport

import "time"

// Server describes one server and how to reach it.
type Server struct {
	Name         string        // in the configuration, for errors
	Self         []byte        // Dragoman's own clientInfo, raw JSON
	Wires        Wires         // the ways to reach it
	Timeout      time.Duration // limit for each step of a probe, and for other requests of Dragoman's own
	StartTimeout time.Duration // limit for a process's first answer
}

// HandshakeTimeout returns the limit for a handshake: a process must be started first, perhaps by a package runner that downloads it.
func (s *Server) HandshakeTimeout() time.Duration {
	if s.Wires.Stdio {
		return max(s.StartTimeout+time.Second, s.Timeout) // the link fails first, with the output of the process
	}
	return s.Timeout
}
