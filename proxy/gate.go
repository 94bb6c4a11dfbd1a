package proxy

import (
	"crypto/x509"
	"net/netip"
	"strings"
	"time"
)

// Head is an HTTP request before its body is read. Gates write their results into it, for later gates and for the request. The bytes are
// borrowed until the last gate has returned.
type Head struct {
	Method, Path []byte            // Path is unchanged, as the router sees it
	Host, Origin []byte            // Host is the client's, also behind a trusted proxy
	Length       int               // bytes of the body; -1: unknown
	Address      netip.Addr        // of the connection, or of the client that a trusted proxy names; invalid for a Unix socket
	Secure       bool              // the client's connection is TLS
	Cert         *x509.Certificate // client certificate, verified by the listener; nil: none
	Fields       Fields            // all header fields
	Prefix       string            // path under which a proxy in front serves the listener (ValidPrefix), which it has removed; empty: none

	Caller  Caller   // set by authentication
	Arrival *Arrival // set by the gates that need it; nil: none does
	Reply   []Header // header fields of the answer, also of a refusal
	Status  int      // if not 0, the answer has this status and no body, and no other gate runs

	arrival Arrival // Arrived
	now     time.Time
}

// Now returns the time of the request, read once for all gates.
func (h *Head) Now() time.Time {
	if h.now.IsZero() {
		h.now = time.Now()
	}
	return h.now
}

// Arrived makes the Arrival, which is valid until the request is answered.
func (h *Head) Arrived() *Arrival {
	h.arrival = Arrival{}
	h.Arrival = &h.arrival
	return h.Arrival
}

// Release drops everything that is borrowed. Caller and Arrival stay.
func (h *Head) Release() {
	h.Method, h.Path, h.Host, h.Origin, h.Fields, h.Cert = nil, nil, nil, nil, nil, nil
}

// Fields is a header block. Names are case-insensitive.
type Fields interface {
	// Peek returns the first value of a field; nil if there is none.
	Peek(name string) []byte
	// PeekAll returns the value of each line of a field. The slice is valid until the next call.
	PeekAll(name string) [][]byte
}

// SetHeader adds a field to the head of the answer.
func (h *Head) SetHeader(name, value string) { h.Reply = append(h.Reply, Header{name, value}) }

// Gate judges a request by its head, before the body is read. An error refuses the request.
type Gate func(h *Head) *Error

// IsLoopbackHost reports whether a host, without its port, names this machine: a loopback address, localhost or a name below it, in any case.
// Browsers and resolvers keep those names on the machine (RFC 6761 §6.3), and nobody can register one: no DNS rebinding leads there. Other
// names may come to mean anything, and so may one with a dot at its end, which no client of ours has a reason to send.
func IsLoopbackHost(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().IsLoopback()
	}
	host = strings.ToLower(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}
