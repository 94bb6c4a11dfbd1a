package access

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"

	"dragoman/proxy"
)

// Mark tells this process from others in the Via field of requests (RFC 9110 §7.6.3). It is random, so that it says nothing else.
type Mark string

// NewMark returns a mark that no other process has.
func NewMark() Mark {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return Mark("dragoman-" + hex.EncodeToString(b[:]))
}

// Via is the member of the Via field.
func (m Mark) Via() string { return "1.1 " + string(m) }

// maxVia bounds the Via field of a request in bytes: some thirty intermediaries.
const maxVia = 1 << 10

// Gate returns the gate that refuses requests that this process has sent itself: its server leads back to it, through whatever is between.
// Of others it keeps the Via field, so that the processes behind recognise theirs. Without the field it does nothing.
func (m Mark) Gate() proxy.Gate {
	mark := []byte(m)
	return func(h *proxy.Head) *proxy.Error {
		if h.Fields.Peek("Via") == nil {
			return nil
		}
		via := bytes.Join(h.Fields.PeekAll("Via"), []byte(", "))
		switch {
		case bytes.Contains(via, mark):
			return proxy.Errf(proxy.LoopDetected, "this request comes from this Dragoman: one of its servers leads back to it; remove that server, or give it the address of the server itself")
		case len(via) > maxVia:
			return proxy.Errf(proxy.LoopDetected, "this request has passed too many intermediaries: its Via field has more than %d bytes; do they lead to each other?", maxVia)
		case h.Arrival != nil && !bytes.ContainsFunc(via, func(r rune) bool { return r < ' ' || r > '~' }):
			h.Arrival.Via = string(via)
		}
		return nil
	}
}
