package transport

import (
	"bytes"
	"slices"
	"strconv"

	"dragoman/proxy/wire"
)

// Minted replaces the id and progress token of a request by unique ones, where several clients or sessions share a link. It must not be
// copied.
type Minted struct {
	ID        []byte // what the server sees, raw JSON
	Token     []byte // likewise; no token: nil
	id, token []byte // the client's own, raw JSON; no token: nil

	// Memory that most requests need, allocated with the rest.
	text  [48]byte
	edits [4]wire.Edit
}

// Put replaces the id of a request by the number n, and its progress token, if it has one, by "p" and n. The message borrows the memory
// of x.
func (x *Minted) Put(m *wire.Message, n uint64) {
	text := strconv.AppendUint(x.text[:0], n, 10)
	x.ID, text = text[:len(text):len(text)], text[len(text):]
	id := m.Of(m.ID)
	x.id = append(text, id...)
	if len(m.Edits) == 0 {
		m.Edits = x.edits[:0]
	}
	m.Replace(m.ID, x.ID)
	if m.Token.Present() {
		x.token = bytes.Clone(m.Of(m.Token))
		x.Token = append(strconv.AppendUint([]byte(`"p`), n, 10), '"')
		m.Replace(m.Token, x.Token)
	}
}

// Take undoes Put at a message that was not sent, which may then be sent elsewhere.
func (x *Minted) Take(m *wire.Message) {
	m.Edits = slices.DeleteFunc(m.Edits, func(e wire.Edit) bool {
		return e.Span == m.ID && bytes.Equal(e.With, x.ID) || m.Token.Present() && e.Span == m.Token && bytes.Equal(e.With, x.Token)
	})
}

// Apart returns a copy in memory of its own, which outlives the call.
func (x *Minted) Apart() *Minted {
	return &Minted{ID: bytes.Clone(x.ID), Token: x.Token, id: bytes.Clone(x.id), token: x.token}
}

// Restore replaces the id or progress token of a reply by the client's own, to the byte.
func (x *Minted) Restore(m *wire.Message) {
	switch {
	case m.IsResponse():
		if m.ID.Present() {
			m.Replace(m.ID, x.id)
		}
	case x.token != nil && m.ProgressToken.Present() && m.Is("notifications/progress"):
		m.Replace(m.ProgressToken, x.token)
	}
}

// OwnID returns the client's own id, raw JSON.
func (x *Minted) OwnID() []byte { return x.id }
