package proxy

import (
	"crypto/x509"
	"net/netip"
	"time"
)

// Head is an HTTP request before its body is read. What a gate finds out it writes here, for the gates after it and for the
// request. The bytes are borrowed until the last gate has returned.
type Head struct {
	Method, Path []byte            // Path is as it came: the router goes by that, so that whoever judges has to
	Host, Origin []byte            // Host is what the client has sent, also where a trusted proxy stands between
	Length       int               // bytes of the body; -1: nobody knows yet
	Address      netip.Addr        // of the client; of the connection, unless a trusted proxy names another. Invalid: a Unix socket
	Secure       bool              // the client's connection is TLS
	Cert         *x509.Certificate // of the client, verified by the listener; nil: none
	Fields       Fields            // all there is in the head

	Caller  Caller   // who asks
	Arrival *Arrival // how it came; nil: nobody looked
	Reply   []Header // goes into the head of the answer, also of a refusal
	Status  int      // not 0: the gate has answered, with this status and no body, and no other gate is asked

	arrival Arrival // Arrived
	now     time.Time
}

// Now is the time at which the gates judge, read once for all of them.
func (h *Head) Now() time.Time {
	if h.now.IsZero() {
		h.now = time.Now()
	}
	return h.now
}

// Arrived makes the Arrival, which lasts as long as the request's answer takes.
func (h *Head) Arrived() *Arrival {
	h.arrival = Arrival{}
	h.Arrival = &h.arrival
	return h.Arrival
}

// Release lets go of what is borrowed: who asks, and how it came, stay.
func (h *Head) Release() {
	h.Method, h.Path, h.Host, h.Origin, h.Fields, h.Cert = nil, nil, nil, nil, nil, nil
}

// Fields is a header block. Names are matched without regard to case.
type Fields interface {
	// Peek gives the first value of a field, nil if there is none.
	Peek(name string) []byte
	// PeekAll gives the value of each line of a field. The slice holds until the next call.
	PeekAll(name string) [][]byte
}

// SetHeader puts a field into the head of the answer.
func (h *Head) SetHeader(name, value string) { h.Reply = append(h.Reply, Header{name, value}) }

// Gate judges a request by its head, before its body is read: where it comes from, who asks, how much. An error ends the
// request.
type Gate func(h *Head) *Error
