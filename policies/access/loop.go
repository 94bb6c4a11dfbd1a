package access

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"regexp"

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

// maxMarks bounds the marks in the Via field of a request.
const maxMarks = 30

// member is a member of the Via field that Via makes. Nothing else of the field is handed on.
var member = regexp.MustCompile(`1\.1 dragoman-[0-9a-f]{16}\b`)

// Gate returns the gate that refuses requests that this process has sent itself: its server leads back to it, through whatever is between.
// Of others it keeps the marks in the Via field, so that the processes behind recognise theirs. Without the field it does nothing.
func (m Mark) Gate() proxy.Gate {
	mark := []byte(m)
	return func(h *proxy.Head) *proxy.Error {
		if h.Fields.Peek("Via") == nil {
			return nil
		}
		via := bytes.Join(h.Fields.PeekAll("Via"), []byte(", "))
		marks := member.FindAll(via, maxMarks+1)
		switch {
		case bytes.Contains(via, mark):
			return proxy.Errf(proxy.LoopDetected, "this request comes from this Dragoman: one of its servers leads back to it; remove that server, or give it the address of the server itself")
		case len(marks) > maxMarks:
			return proxy.Errf(proxy.LoopDetected, "this request has passed more than %d Dragomans; do they lead to each other?", maxMarks)
		case h.Arrival != nil && len(marks) > 0:
			h.Arrival.Via = string(bytes.Join(marks, []byte(", ")))
		}
		return nil
	}
}
