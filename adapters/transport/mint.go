package transport

import (
	"bytes"
	"strconv"

	"dragoman/proxy/wire"
)

// Minted is an id, and a progress token, that stand for a client's own while a request is under way: a link gives one to
// each request where several clients, or several sessions, share what the server tells requests apart by. It must not be copied.
type Minted struct {
	ID        []byte // what the server sees, raw JSON
	Token     []byte // likewise; no token: nil
	id, token []byte // the client's own, raw JSON; no token: nil

	// What most requests need of memory, in one piece with the rest.
	text  [48]byte
	edits [4]wire.Edit
}

// Mint puts the number n in the place of a request's id, and of its progress token if it has one.
func Mint(m *wire.Message, n uint64) *Minted {
	x := new(Minted)
	x.Put(m, n)
	return x
}

// Put is Mint for one that has memory already. The message borrows it.
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

// Apart is the same in memory of its own, for who keeps it for longer than the call.
func (x *Minted) Apart() *Minted {
	return &Minted{ID: bytes.Clone(x.ID), Token: x.Token, id: bytes.Clone(x.id), token: x.token}
}

// Restore gives a reply the client's own id or token, to the byte.
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

// OwnID is the client's own id, raw JSON.
func (x *Minted) OwnID() []byte { return x.id }
