package httpserver

import (
	"crypto/tls"
	"net"
	"sync/atomic"
)

// SecureListener returns a listener that speaks TLS. Its connections measure slow readers beneath TLS: a TLS connection is broken after a
// write that was given up, so that it cannot wait by itself. A listener of crypto/tls works too, but a reader must take each 256 KiB of
// an answer in three times Options.WriteTimeout there.
func SecureListener(ln net.Listener, conf *tls.Config) net.Listener { return &secureListener{ln, conf} }

type secureListener struct {
	net.Listener
	conf *tls.Config
}

// Accept implements net.Listener.
func (l *secureListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return tls.Server(&paced{Conn: nc}, l.conf), nil
}

// paced is the connection beneath TLS. Writes come one at a time: TLS has a lock for them.
type paced struct {
	net.Conn
	// judge notes that a write has taken n bytes, and judges its error: nil if it may go on. It is nil before the end of the handshake.
	judge atomic.Pointer[func(n int, err error) error]
}

// Write implements net.Conn. It goes on as long as judge allows.
func (p *paced) Write(b []byte) (n int, err error) {
	for {
		m, err := p.Conn.Write(b[n:])
		n += m
		if judge := p.judge.Load(); judge != nil {
			err = (*judge)(m, err)
		}
		if err != nil || n == len(b) {
			return n, err
		}
	}
}
